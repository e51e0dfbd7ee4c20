//! Commands of ovs-appctl.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use patchbay_schemas::json::Json;
use patchbay_schemas::schema::is_id;

use crate::following::SourceOptions;
use crate::remotes::Remotes;
use crate::served_database::ServedDatabase;
use crate::server::Server;

use super::Configuration;
use super::cluster;
use super::error_text;
use super::vlog::{self, Log};

#[derive(Clone, Copy, Debug)]
enum Command {
    ChangeElectionTimer,
    ClusterId,
    ServerId,
    ClusterStatus,
    SetBacklogThreshold,
    CoverageCounter,
    CoverageShow,
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
    ConnectActive,
    DisconnectActive,
    ActiveServer,
    SetActiveServer,
    SetActiveServerProbeInterval,
    ExcludedTables,
    SetExcludedTables,
    SetRelayProbeInterval,
    ClearPerformanceCounters,
    ShowPerformanceCounters,
    Reconnect,
    Reload,
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

impl Command {
    /// `true`: a configuration file does what the command does, and excludes it.
    fn is_configured_by_file(self) -> bool {
        matches!(
            self,
            Self::AddDatabase
                | Self::RemoveDatabase
                | Self::AddRemote
                | Self::RemoveRemote
                | Self::ConnectActive
                | Self::DisconnectActive
                | Self::SetActiveServer
                | Self::SetActiveServerProbeInterval
                | Self::SetExcludedTables
                | Self::SetRelayProbeInterval
        )
    }
}

/// Output of `coverage/show`: there are no counters.
const NO_COVERAGE: &str = "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  \
                           hash=00000000:\n0 events never hit";

/// Command as users know it.
struct Usage {
    name: &'static str,
    /// Arguments as `list-commands` shows them.
    arguments: &'static str,
    /// Allowed numbers of arguments.
    counts: RangeInclusive<usize>,
    command: Command,
}

impl Usage {
    const fn new(
        name: &'static str,
        arguments: &'static str,
        counts: RangeInclusive<usize>,
        command: Command,
    ) -> Self {
        Self {
            name,
            arguments,
            counts,
            command,
        }
    }
}

/// Commands, sorted by name.
const COMMANDS: [Usage; 40] = [
    Usage::new(
        "cluster/change-election-timer",
        "DB TIME",
        2..=2,
        Command::ChangeElectionTimer,
    ),
    Usage::new("cluster/cid", "DB", 1..=1, Command::ClusterId),
    Usage::new(
        "cluster/set-backlog-threshold",
        "DB N_MSGS N_BYTES",
        3..=3,
        Command::SetBacklogThreshold,
    ),
    Usage::new("cluster/sid", "DB", 1..=1, Command::ServerId),
    Usage::new("cluster/status", "DB", 1..=1, Command::ClusterStatus),
    Usage::new(
        "coverage/read-counter",
        "COUNTER",
        1..=1,
        Command::CoverageCounter,
    ),
    Usage::new("coverage/show", "", 0..=0, Command::CoverageShow),
    Usage::new("exit", "", 0..=0, Command::Exit),
    Usage::new("list-commands", "", 0..=0, Command::ListCommands),
    Usage::new("memory/show", "", 0..=0, Command::MemoryShow),
    Usage::new("ovsdb-server/add-db", "DB", 1..=1, Command::AddDatabase),
    Usage::new(
        "ovsdb-server/add-remote",
        "REMOTE",
        1..=1,
        Command::AddRemote,
    ),
    Usage::new("ovsdb-server/compact", "", 0..=1, Command::Compact),
    Usage::new(
        "ovsdb-server/connect-active-ovsdb-server",
        "",
        0..=0,
        Command::ConnectActive,
    ),
    Usage::new(
        "ovsdb-server/disable-monitor-cond",
        "",
        0..=0,
        Command::DisableMonitorCond,
    ),
    Usage::new(
        "ovsdb-server/disconnect-active-ovsdb-server",
        "",
        0..=0,
        Command::DisconnectActive,
    ),
    Usage::new(
        "ovsdb-server/get-active-ovsdb-server",
        "",
        0..=0,
        Command::ActiveServer,
    ),
    Usage::new(
        "ovsdb-server/get-db-storage-status",
        "DB",
        1..=1,
        Command::StorageStatus,
    ),
    Usage::new(
        "ovsdb-server/get-sync-exclude-tables",
        "",
        0..=0,
        Command::ExcludedTables,
    ),
    Usage::new("ovsdb-server/list-dbs", "", 0..=0, Command::ListDatabases),
    Usage::new("ovsdb-server/list-remotes", "", 0..=0, Command::ListRemotes),
    Usage::new(
        "ovsdb-server/memory-trim-on-compaction",
        "on|off",
        1..=1,
        Command::MemoryTrim,
    ),
    Usage::new(
        "ovsdb-server/perf-counters-clear",
        "",
        0..=0,
        Command::ClearPerformanceCounters,
    ),
    Usage::new(
        "ovsdb-server/perf-counters-show",
        "",
        0..=0,
        Command::ShowPerformanceCounters,
    ),
    Usage::new("ovsdb-server/reconnect", "", 0..=0, Command::Reconnect),
    Usage::new("ovsdb-server/reload", "", 0..=0, Command::Reload),
    Usage::new(
        "ovsdb-server/remove-db",
        "DB",
        1..=1,
        Command::RemoveDatabase,
    ),
    Usage::new(
        "ovsdb-server/remove-remote",
        "REMOTE",
        1..=1,
        Command::RemoveRemote,
    ),
    Usage::new(
        "ovsdb-server/set-active-ovsdb-server",
        "",
        1..=1,
        Command::SetActiveServer,
    ),
    Usage::new(
        "ovsdb-server/set-active-ovsdb-server-probe-interval",
        "",
        1..=1,
        Command::SetActiveServerProbeInterval,
    ),
    Usage::new(
        "ovsdb-server/set-relay-source-probe-interval",
        "",
        1..=1,
        Command::SetRelayProbeInterval,
    ),
    Usage::new(
        "ovsdb-server/set-sync-exclude-tables",
        "",
        0..=1,
        Command::SetExcludedTables,
    ),
    Usage::new("ovsdb-server/sync-status", "", 0..=0, Command::SyncStatus),
    Usage::new("version", "", 0..=0, Command::Version),
    Usage::new("vlog/close", "", 0..=0, Command::CloseLog),
    Usage::new(
        "vlog/disable-rate-limit",
        "[module]...",
        0..=usize::MAX,
        Command::RateLimit,
    ),
    Usage::new(
        "vlog/enable-rate-limit",
        "[module]...",
        0..=usize::MAX,
        Command::RateLimit,
    ),
    Usage::new("vlog/list", "", 0..=0, Command::ListLogLevels),
    Usage::new("vlog/reopen", "", 0..=0, Command::ReopenLog),
    Usage::new(
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
    configuration: Configuration,
}

impl Commands {
    pub(super) fn new(
        server: Arc<Server>,
        remotes: Remotes,
        log: Arc<Log>,
        version: &str,
        configuration: Configuration,
    ) -> Self {
        Self {
            server,
            remotes,
            log,
            version: version.to_owned(),
            configuration,
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
        let found = self.known().find(|usage| usage.name == name);
        let Some(Usage {
            counts: allowed,
            command,
            ..
        }) = found
        else {
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

    /// The commands of the server. Those of clusters are unknown to a server that had none.
    fn known(&self) -> impl Iterator<Item = &'static Usage> {
        let is_clustered = self.server.has_had_cluster();
        COMMANDS
            .iter()
            .filter(move |usage| is_clustered || !usage.name.starts_with("cluster/"))
    }

    /// Executes a command, unless a configuration file excludes it, and keeps its change.
    async fn run(&self, command: Command, arguments: &[&str]) -> Result<CommandResult, String> {
        if command.is_configured_by_file()
            && let Configuration::File(file) = &self.configuration
        {
            let path = file.path().display();
            return Err(format!(
                "Update the {path} and use ovsdb-server/reload instead"
            ));
        }
        let result = self.execute_command(command, arguments).await;
        if result.is_ok()
            && command.is_configured_by_file()
            && let Configuration::Changeable { keep } = &self.configuration
        {
            keep();
        }
        result
    }

    async fn execute_command(
        &self,
        command: Command,
        arguments: &[&str],
    ) -> Result<CommandResult, String> {
        let argument = arguments.first().copied();
        let required = argument.unwrap_or_default();
        let no_output = String::new;
        let output = match command {
            Command::ChangeElectionTimer => {
                cluster::change_election_timer(&self.server, arguments)?
            }
            Command::ClusterId => cluster::cluster_id(&self.server, required)?,
            Command::ServerId => cluster::server_id(&self.server, required)?,
            Command::ClusterStatus => cluster::status(&self.server, required)?,
            Command::SetBacklogThreshold => {
                cluster::set_backlog_threshold(&self.server, arguments)?;
                no_output()
            }
            Command::CoverageCounter => return Err("No such counter".to_owned()),
            Command::CoverageShow => NO_COVERAGE.to_owned(),
            Command::ConnectActive => match self.server.connect_to_source() {
                Ok(()) => no_output(),
                // As in ovsdb-server, not a failure of the command.
                Err(error) => error.to_string(),
            },
            Command::DisconnectActive => {
                self.server.disconnect_from_source();
                no_output()
            }
            Command::ActiveServer => self.server.source().unwrap_or_default(),
            Command::SetActiveServer => {
                self.server.set_source(required);
                no_output()
            }
            Command::SetActiveServerProbeInterval => {
                let interval = probe_interval(required)?;
                self.server.set_backup_probe_interval(interval);
                no_output()
            }
            Command::SetRelayProbeInterval => {
                let interval = probe_interval(required)?;
                self.server.set_relay_probe_interval(interval);
                no_output()
            }
            Command::ExcludedTables => self.server.excluded_tables(),
            Command::SetExcludedTables => {
                self.server.set_excluded_tables(required);
                no_output()
            }
            Command::ClearPerformanceCounters => no_output(),
            Command::ShowPerformanceCounters => {
                "performance counter is not supported on this platform".to_owned()
            }
            Command::Reload => {
                let Configuration::File(file) = &self.configuration else {
                    return Err("Configuration file was not specified on command line".to_owned());
                };
                let loaded = file.load().await;
                loaded.map_err(|_| "Configuration failed.  See the log file for details.")?;
                no_output()
            }
            Command::Exit => return Ok(CommandResult::Exit),
            Command::ListCommands => list_commands(self.known()),
            Command::MemoryShow => self.memory(),
            Command::AddDatabase => {
                let added = match required
                    .strip_prefix("relay:")
                    .and_then(|rest| rest.split_once(':'))
                {
                    Some((name, remotes)) if is_id(name) => {
                        self.server.add_relay(name, SourceOptions::new(remotes))
                    }
                    _ => self.server.open_database(Path::new(required), None),
                };
                added.map_err(|error| error_text::add_error(&error))?;
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
                    .remove_following_database(required)
                    .map_err(|error| error_text::remove_error(&error))?;
                no_output()
            }
            Command::RemoveRemote if self.remotes.remove(required) => no_output(),
            Command::RemoveRemote => return Err("no such remote".to_owned()),
            // The allocator returns unused memory anyway.
            Command::MemoryTrim if ["on", "off"].contains(&required) => no_output(),
            Command::MemoryTrim => return Err("invalid argument".to_owned()),
            Command::SyncStatus => self.server.sync_status(),
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
    /// pair of a map. Cells are values. Triggers are waiting transactions. The others are of
    /// clusters: entries of their logs, transactions in their histories and atoms of these.
    fn memory(&self) -> String {
        let (mut atoms, mut cells, mut monitors, mut triggers) = (0, 0, 0, 0);
        let (mut log, mut history, mut history_atoms) = (0, 0, 0);
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
            let state = database.state();
            monitors += state.monitors.len();
            if let Some(cluster) = state.cluster() {
                let position = cluster.position();
                log += (position.index + 1 - position.start) as usize;
                let (transactions, atoms) = cluster.history().size();
                history += transactions;
                history_atoms += atoms as usize;
            }
            drop(state);
            triggers += database.waiting_count();
        }
        let usage = [
            ("atoms", atoms),
            ("cells", cells),
            ("monitors", monitors),
            ("raft-log", log),
            ("sessions", self.server.session_count()),
            ("triggers", triggers),
            ("txn-history", history),
            ("txn-history-atoms", history_atoms),
        ];
        usage
            .iter()
            .filter(|(name, count)| *count > 0 || *name == "monitors")
            .map(|(name, count)| format!("{name}:{count}"))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Parses a probe interval in milliseconds. `None`: no probes.
fn probe_interval(text: &str) -> Result<Option<Duration>, String> {
    let milliseconds: i64 = text
        .parse()
        .map_err(|_| "Invalid probe interval, integer value expected")?;
    let milliseconds = u64::try_from(milliseconds).ok();
    let interval = milliseconds.filter(|one| *one > 0);
    Ok(interval.map(|one| Duration::from_millis(one.max(1000))))
}

fn list_commands(commands: impl Iterator<Item = &'static Usage>) -> String {
    let mut text = "The available commands are:\n".to_owned();
    for Usage {
        name, arguments, ..
    } in commands
    {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<23} {arguments}");
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
