//! The commands.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use patchbay_schemas::json::Json;

use crate::hosted::Hosted;
use crate::remotes::Remotes;
use crate::server::Server;

use super::log::Log;
use super::vlog::Vlog;
use super::words;

/// What a command is about.
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
    RateLimit { limited: bool },
    ListLevels,
    ListPatterns,
    ReopenLog,
    SetLog,
}

/// A command with its name, its arguments as the help shows them, and how many there may be. Sorted by name.
const COMMANDS: [(&str, &str, RangeInclusive<usize>, Command); 23] = [
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
        Command::RateLimit { limited: false },
    ),
    (
        "vlog/enable-rate-limit",
        "[module]...",
        0..=usize::MAX,
        Command::RateLimit { limited: true },
    ),
    ("vlog/list", "", 0..=0, Command::ListLevels),
    ("vlog/list-pattern", "", 0..=0, Command::ListPatterns),
    ("vlog/reopen", "", 0..=0, Command::ReopenLog),
    (
        "vlog/set",
        "{spec | PATTERN:destination:pattern}",
        0..=usize::MAX,
        Command::SetLog,
    ),
];

/// What comes of a command.
pub(super) enum Outcome {
    /// A text for people.
    Said(String),
    /// The server is to end.
    Exit,
}

/// The commands of a server.
pub(super) struct Commands {
    server: Arc<Server>,
    remotes: Remotes,
    vlog: Vlog,
}

impl Commands {
    pub(super) fn new(server: Arc<Server>, remotes: Remotes, log: Log) -> Self {
        Self {
            server,
            remotes,
            vlog: Vlog::new(log),
        }
    }

    /// Executes a command, or says what is wrong.
    pub(super) async fn execute(&self, name: &str, arguments: &Json) -> Result<Outcome, String> {
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
        let texts: Option<Vec<&str>> = arguments.iter().map(Json::as_str).collect();
        let texts = texts.ok_or_else(|| format!("\"{name}\" command has non-string argument"))?;
        self.run(*command, &texts).await
    }

    async fn run(&self, command: Command, arguments: &[&str]) -> Result<Outcome, String> {
        let argument = arguments.first().copied();
        let required = argument.unwrap_or_default();
        let nothing = String::new;
        let said = match command {
            Command::Exit => return Ok(Outcome::Exit),
            Command::ListCommands => list_commands(),
            Command::MemoryShow => self.memory(),
            Command::AddDatabase => {
                let added = self.server.open_database(Path::new(required));
                added.map_err(|error| words::not_added(&error))?;
                nothing()
            }
            Command::AddRemote => {
                let added = self.remotes.add(required).await;
                added.map_err(|error| error.to_string())?;
                nothing()
            }
            Command::Compact => {
                self.compact(argument)?;
                nothing()
            }
            Command::DisableMonitorCond => {
                self.server.disable_monitor_cond();
                nothing()
            }
            Command::StorageStatus => {
                let database = self.server.database(required);
                database.ok_or("Failed to find the database.")?;
                "status: ok".to_owned()
            }
            Command::ListDatabases => lines(self.server.databases().all().keys()),
            Command::ListRemotes => lines(self.remotes.targets()),
            Command::Reconnect => {
                self.server.close_sessions();
                nothing()
            }
            Command::RemoveDatabase => {
                let removed = self.server.remove_database(required);
                removed.map_err(|error| words::not_removed(&error))?;
                nothing()
            }
            Command::RemoveRemote if self.remotes.remove(required) => nothing(),
            Command::RemoveRemote => return Err("no such remote".to_owned()),
            // Here memory that is not needed is always given back.
            Command::MemoryTrim if ["on", "off"].contains(&required) => nothing(),
            Command::MemoryTrim => return Err("invalid argument".to_owned()),
            Command::SyncStatus => "state: active".to_owned(),
            Command::Version => concat!("ovsdb-sim ", env!("CARGO_PKG_VERSION")).to_owned(),
            // There is no log file.
            Command::CloseLog => nothing(),
            Command::ReopenLog => return Err("Logging to file not configured".to_owned()),
            Command::ListLevels => self.vlog.list(),
            Command::ListPatterns => self.vlog.list_patterns(),
            Command::RateLimit { limited } => {
                self.vlog.set_limited(arguments, limited)?;
                nothing()
            }
            Command::SetLog => {
                self.vlog.set(arguments)?;
                nothing()
            }
        };
        Ok(Outcome::Said(said))
    }

    /// Writes the journals anew, or that of one database.
    fn compact(&self, name: Option<&str>) -> Result<(), String> {
        if name.is_some_and(|name| name.starts_with('_')) {
            return Err("cannot compact built-in databases".to_owned());
        }
        let all = self.server.databases().all();
        let databases: Vec<&Arc<Hosted>> = match name {
            Some(name) => all.get(name).into_iter().collect(),
            None => all
                .values()
                .filter(|database| !database.name().starts_with('_'))
                .collect(),
        };
        if databases.is_empty() {
            return Err("no database by that name".to_owned());
        }
        let failures = databases
            .into_iter()
            .filter_map(|database| Some(database.compact().err()?.to_string()));
        let failures = lines(failures);
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        }
    }

    /// How much of what there is, in ovsdb-server's terms: atoms are elements of values (a pair of a map is two), cells
    /// are values, triggers are transactions that wait.
    fn memory(&self) -> String {
        let (mut atoms, mut cells, mut monitors, mut triggers) = (0, 0, 0, 0);
        for database in self.server.databases().all().values() {
            let snapshot = database.snapshot();
            for table in snapshot.schema().table_ids() {
                for row in snapshot.table(table).iter() {
                    // With _uuid and _version.
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
            triggers += database.blocked_count();
        }
        let usage = [
            ("atoms", atoms),
            ("cells", cells),
            ("monitors", monitors),
            ("sessions", self.server.session_count()),
            ("triggers", triggers),
        ];
        let shown = usage
            .iter()
            .filter(|(name, count)| *count > 0 || *name == "monitors");
        let shown: Vec<_> = shown
            .map(|(name, count)| format!("{name}:{count}"))
            .collect();
        shown.join(" ")
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
