//! Execution of commands of ovs-appctl.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use patchbay_engine::db::ServerRelease;
use patchbay_schemas::json::Json;

use crate::following::SourceOptions;
use crate::remotes::Remotes;
use crate::served_database::ServedDatabase;
use crate::server::Server;
use crate::target::parse_relay;

use super::Configuration;
use super::cluster;
use super::error_text;
use super::memory;
use super::reply_format::ReplyFormat;
use super::transaction_log;
use super::usage::{COMMANDS, Command, Usage};
use super::vlog::{self, Log};

/// Output of `coverage/show`: there are no counters.
const NO_COVERAGE: &str = "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  \
                           hash=00000000:\n0 events never hit";

/// Success of a command.
pub(super) enum CommandResult {
    /// The output.
    Text(String),
    /// Commands that `list-commands` lists.
    Commands(Vec<&'static Usage>),
    /// Another format of the replies on the connection. `None`: it stays.
    Options(Option<ReplyFormat>),
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
        Self { server, remotes, log, version: version.to_owned(), configuration }
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
        let Some(Usage { counts: allowed, command, .. }) = found else {
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
            return Err(format!("\"{name}\" command requires at least {least} arguments"));
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

    /// Release of ovsdb-server whose commands these are.
    pub(super) fn release(&self) -> ServerRelease {
        self.server.settings().release
    }

    /// The commands of the server. Those of clusters are unknown to a server that had none.
    fn known(&self) -> impl Iterator<Item = &'static Usage> {
        let is_clustered = self.server.has_had_cluster();
        let release = self.release();
        COMMANDS
            .iter()
            .filter(move |usage| is_clustered || !usage.name.starts_with("cluster/"))
            .filter(move |usage| usage.since <= release)
    }

    /// Executes a command, unless a configuration file excludes it, and keeps its change.
    async fn run(&self, command: Command, arguments: &[&str]) -> Result<CommandResult, String> {
        if command.is_configured_by_file()
            && let Configuration::File(file) = &self.configuration
        {
            let path = file.path().display();
            return Err(format!("Update the {path} and use ovsdb-server/reload instead"));
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
                Err(error) => format!("{error}\n"),
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
                "performance counter is not supported on this platform\n".to_owned()
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
            Command::ListCommands => {
                return Ok(CommandResult::Commands(self.known().collect()));
            }
            Command::SetOptions => {
                return ReplyFormat::from_options(arguments).map(CommandResult::Options);
            }
            Command::MemoryShow => memory::show(&self.server),
            Command::AddDatabase => {
                let added = match parse_relay(required) {
                    Some((name, remotes)) => {
                        self.server.add_relay(name, SourceOptions::of_relay(remotes))
                    }
                    None => self.server.open_database(Path::new(required), None),
                };
                added.map_err(|error| error_text::add_error(&error))?;
                no_output()
            }
            Command::AddRemote => {
                self.remotes.add_or_retry(required).await.map_err(|error| error.to_string())?;
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
            Command::ListLoggedTables => transaction_log::list(&self.server),
            Command::LogTable => {
                transaction_log::set(&self.server, arguments)?;
                no_output()
            }
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
            Command::ListLogPatterns => self.log.list_patterns(),
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
        let all = self.server.databases();
        let databases: Vec<Arc<ServedDatabase>> = match name {
            Some(name) => all.get(name).into_iter().collect(),
            None => all
                .names_in_hash_order()
                .iter()
                .filter(|name| !name.starts_with('_'))
                .filter_map(|name| all.get(name))
                .collect(),
        };
        if databases.is_empty() {
            return Err("no database by that name".to_owned());
        }
        let compact = |database: Arc<ServedDatabase>| {
            let name = database.name();
            // The text is ovsdb-server's.
            tracing::info!(target: "ovsdb_server", "compacting {name} database by user request");
            Some(database.compact().err()?.to_string())
        };
        let failures = lines(databases.into_iter().filter_map(compact));
        if failures.is_empty() { Ok(()) } else { Err(failures) }
    }
}

/// Parses a probe interval in milliseconds. `None`: no probes.
fn probe_interval(text: &str) -> Result<Option<Duration>, String> {
    // As `strtol` reads it.
    let milliseconds: i32 =
        text.trim_start().parse().map_err(|_| "Invalid probe interval, integer value expected")?;
    let milliseconds = u64::try_from(milliseconds).ok();
    let interval = milliseconds.filter(|one| *one > 0);
    Ok(interval.map(|one| Duration::from_millis(one.max(1000))))
}

fn lines(texts: impl IntoIterator<Item: AsRef<str>>) -> String {
    texts.into_iter().fold(String::new(), |mut lines, text| {
        lines.push_str(text.as_ref());
        lines.push('\n');
        lines
    })
}
