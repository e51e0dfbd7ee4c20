//! Commands of ovs-appctl.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use patchbay_schemas::json::Json;

use crate::remotes::Remotes;
use crate::served_database::ServedDatabase;
use crate::server::Server;

use super::error_text;
use super::vlog::{self, Log};

#[derive(Clone, Copy, Debug)]
enum Command {
    Exit,
    ListCommands,
    MemoryShow,
    AddDatabase,
    AddRemote,
    Compact,
    DisableMonitorCond,
    StorageStatus,
    ListDatabases,
    ListRemotes,
    Reconnect,
    RemoveDatabase,
    RemoveRemote,
    MemoryTrim,
    SyncStatus,
    Version,
    CloseLog,
    RateLimit,
    ListLogLevels,
    ReopenLog,
    SetLogLevels,
}

/// Commands: name, arguments as `list-commands` shows them, and number of arguments. Sorted by
/// name.
const COMMANDS: [(&str, &str, RangeInclusive<usize>, Command); 22] = [
    ("exit", "", 0..=0, Command::Exit),
    ("list-commands", "", 0..=0, Command::ListCommands),
    ("memory/show", "", 0..=0, Command::MemoryShow),
    ("ovsdb-server/add-db", "DB", 1..=1, Command::AddDatabase),
    (
        "ovsdb-server/add-remote",
        "REMOTE",
        1..=1,
        Command::AddRemote,
    ),
    ("ovsdb-server/compact", "", 0..=1, Command::Compact),
    (
        "ovsdb-server/disable-monitor-cond",
        "",
        0..=0,
        Command::DisableMonitorCond,
    ),
    (
        "ovsdb-server/get-db-storage-status",
        "DB",
        1..=1,
        Command::StorageStatus,
    ),
    ("ovsdb-server/list-dbs", "", 0..=0, Command::ListDatabases),
    ("ovsdb-server/list-remotes", "", 0..=0, Command::ListRemotes),
    (
        "ovsdb-server/memory-trim-on-compaction",
        "on|off",
        1..=1,
        Command::MemoryTrim,
    ),
    ("ovsdb-server/reconnect", "", 0..=0, Command::Reconnect),
    (
        "ovsdb-server/remove-db",
        "DB",
        1..=1,
        Command::RemoveDatabase,
    ),
    (
        "ovsdb-server/remove-remote",
        "REMOTE",
        1..=1,
        Command::RemoveRemote,
    ),
    ("ovsdb-server/sync-status", "", 0..=0, Command::SyncStatus),
    ("version", "", 0..=0, Command::Version),
    ("vlog/close", "", 0..=0, Command::CloseLog),
    (
        "vlog/disable-rate-limit",
        "[module]...",
        0..=usize::MAX,
        Command::RateLimit,
    ),
    (
        "vlog/enable-rate-limit",
        "[module]...",
        0..=usize::MAX,
        Command::RateLimit,
    ),
    ("vlog/list", "", 0..=0, Command::ListLogLevels),
    ("vlog/reopen", "", 0..=0, Command::ReopenLog),
    (
        "vlog/set",
        "{spec | PATTERN:destination:pattern}",
        0..=usize::MAX,
        Command::SetLogLevels,
    ),
];

/// Success of a command.
pub(super) enum CommandResult {
    /// The output.
    Text(String),
    /// The server is to exit.
    Exit,
}

/// Executor of commands for one server.
pub(super) struct Commands {
    server: Arc<Server>,
    remotes: Remotes,
    log: Arc<Log>,
    /// Output of `version`.
    version: String,
}

impl Commands {
    pub(super) fn new(server: Arc<Server>, remotes: Remotes, log: Arc<Log>, version: &str) -> Self {
        Self {
            server,
            remotes,
            log,
            version: version.to_owned(),
        }
    }

    /// Executes a command.
    ///
    /// # Errors
    /// The command failed. The text is for the user.
    pub(super) async fn execute(
        &self,
        name: &str,
        arguments: &Json,
    ) -> Result<CommandResult, String> {
        let found = COMMANDS.iter().find(|command| command.0 == name);
        let Some((_, _, allowed, command)) = found else {
            return Err(format!(
                "\"{name}\" is not a valid command (use \"list-commands\" to see a list of valid commands)"
            ));
        };
        let arguments = match arguments {
            Json::Array(arguments) => &arguments[..],
            _ => &[],
        };
        if arguments.len() < *allowed.start() {
            let least = allowed.start();
            return Err(format!(
                "\"{name}\" command requires at least {least} arguments"
            ));
        }
        if arguments.len() > *allowed.end() {
            let most = allowed.end();
            return Err(format!("\"{name}\" command takes at most {most} arguments"));
        }
        let texts: Vec<&str> = arguments
            .iter()
            .map(Json::as_str)
            .collect::<Option<_>>()
            .ok_or_else(|| format!("\"{name}\" command has non-string argument"))?;
        self.run(*command, &texts).await
    }

    async fn run(&self, command: Command, arguments: &[&str]) -> Result<CommandResult, String> {
        let argument = arguments.first().copied();
        let required = argument.unwrap_or_default();
        let no_output = String::new;
        let output = match command {
            Command::Exit => return Ok(CommandResult::Exit),
            Command::ListCommands => list_commands(),
            Command::MemoryShow => self.memory(),
            Command::AddDatabase => {
                self.server
                    .open_database(Path::new(required))
                    .map_err(|error| error_text::add_error(&error))?;
                no_output()
            }
            Command::AddRemote => {
                self.remotes
                    .add(required)
                    .await
                    .map_err(|error| error.to_string())?;
                no_output()
            }
            Command::Compact => {
                self.compact(argument)?;
                no_output()
            }
            Command::DisableMonitorCond => {
                self.server.disable_monitor_cond();
                no_output()
            }
            Command::StorageStatus => {
                let database = self.server.database(required);
                database.ok_or("Failed to find the database.")?;
                "status: ok".to_owned()
            }
            Command::ListDatabases => lines(self.server.databases().all().keys()),
            Command::ListRemotes => lines(self.remotes.targets()),
            Command::Reconnect => {
                self.server.close_all_sessions();
                no_output()
            }
            Command::RemoveDatabase => {
                self.server
                    .remove_database(required)
                    .map_err(|error| error_text::remove_error(&error))?;
                no_output()
            }
            Command::RemoveRemote if self.remotes.remove(required) => no_output(),
            Command::RemoveRemote => return Err("no such remote".to_owned()),
            // The allocator returns unused memory anyway.
            Command::MemoryTrim if ["on", "off"].contains(&required) => no_output(),
            Command::MemoryTrim => return Err("invalid argument".to_owned()),
            Command::SyncStatus => "state: active".to_owned(),
            Command::Version => self.version.clone(),
            Command::CloseLog => {
                self.log.close_file();
                no_output()
            }
            Command::ReopenLog => {
                let reopened = self.log.reopen_file();
                reopened.map_err(|error| error_text::reopen_error(&error))?;
                no_output()
            }
            Command::ListLogLevels => self.log.list(),
            Command::RateLimit => {
                vlog::check_modules(arguments)?;
                no_output()
            }
            Command::SetLogLevels => {
                let set = self.log.set(arguments);
                set.map_err(|error| error.to_string())?;
                no_output()
            }
        };
        Ok(CommandResult::Text(output))
    }

    /// Rewrites the journals of all databases, or that of one.
    fn compact(&self, name: Option<&str>) -> Result<(), String> {
        if name.is_some_and(|name| name.starts_with('_')) {
            return Err("cannot compact built-in databases".to_owned());
        }
        let all = self.server.databases().all();
        let databases: Vec<&Arc<ServedDatabase>> = match name {
            Some(name) => all.get(name).into_iter().collect(),
            None => all
                .values()
                .filter(|database| !database.name().starts_with('_'))
                .collect(),
        };
        if databases.is_empty() {
            return Err("no database by that name".to_owned());
        }
        let failures = lines(
            databases
                .into_iter()
                .filter_map(|database| Some(database.compact().err()?.to_string())),
        );
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        }
    }

    /// Executes `memory/show`, in ovsdb-server's terms. Atoms are the elements of values, two for a
    /// pair of a map. Cells are values. Triggers are waiting transactions.
    fn memory(&self) -> String {
        let (mut atoms, mut cells, mut monitors, mut triggers) = (0, 0, 0, 0);
        for database in self.server.databases().all().values() {
            let snapshot = database.snapshot();
            for table in snapshot.schema().table_ids() {
                for row in snapshot.table(table).iter() {
                    // Columns, _uuid and _version.
                    cells += row.values.len() + 2;
                    atoms += 2;
                    atoms += row
                        .values
                        .iter()
                        .map(|value| value.atoms().count())
                        .sum::<usize>();
                }
            }
            monitors += database.state().monitors.len();
            triggers += database.waiting_count();
        }
        let usage = [
            ("atoms", atoms),
            ("cells", cells),
            ("monitors", monitors),
            ("sessions", self.server.session_count()),
            ("triggers", triggers),
        ];
        usage
            .iter()
            .filter(|(name, count)| *count > 0 || *name == "monitors")
            .map(|(name, count)| format!("{name}:{count}"))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn list_commands() -> String {
    let mut text = "The available commands are:\n".to_owned();
    for (name, usage, ..) in &COMMANDS {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<23} {usage}");
    }
    text
}

fn lines(texts: impl IntoIterator<Item: AsRef<str>>) -> String {
    texts.into_iter().fold(String::new(), |mut lines, text| {
        lines.push_str(text.as_ref());
        lines.push('\n');
        lines
    })
}
