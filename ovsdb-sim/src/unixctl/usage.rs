//! Commands of ovs-appctl: their names, arguments and order, as `list-commands` shows them.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use patchbay_engine::db::ServerRelease;

/// Command of ovs-appctl.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
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
    ListLoggedTables,
    LogTable,
    SetOptions,
    Version,
    CloseLog,
    RateLimit,
    ListLogLevels,
    ListLogPatterns,
    ReopenLog,
    SetLogLevels,
}

impl Command {
    /// `true`: a configuration file does what the command does, and excludes it.
    pub(super) fn is_configured_by_file(self) -> bool {
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

/// Command as users know it.
pub(super) struct Usage {
    pub(super) name: &'static str,
    /// Arguments as `list-commands` shows them.
    arguments: &'static str,
    /// Allowed numbers of arguments.
    pub(super) counts: RangeInclusive<usize>,
    pub(super) command: Command,
    /// First release of ovsdb-server that has the command.
    pub(super) since: ServerRelease,
}

impl Usage {
    const fn new(
        name: &'static str,
        arguments: &'static str,
        counts: RangeInclusive<usize>,
        command: Command,
    ) -> Self {
        Self { name, arguments, counts, command, since: ServerRelease::V3_1 }
    }

    const fn since(mut self, release: ServerRelease) -> Self {
        self.since = release;
        self
    }
}

/// Commands, sorted by name.
pub(super) const COMMANDS: [Usage; 44] = [
    Usage::new("cluster/change-election-timer", "DB TIME", 2..=2, Command::ChangeElectionTimer),
    Usage::new("cluster/cid", "DB", 1..=1, Command::ClusterId),
    Usage::new(
        "cluster/set-backlog-threshold",
        "DB N_MSGS N_BYTES",
        3..=3,
        Command::SetBacklogThreshold,
    ),
    Usage::new("cluster/sid", "DB", 1..=1, Command::ServerId),
    Usage::new("cluster/status", "DB", 1..=1, Command::ClusterStatus),
    Usage::new("coverage/read-counter", "COUNTER", 1..=1, Command::CoverageCounter),
    Usage::new("coverage/show", "", 0..=0, Command::CoverageShow),
    Usage::new("exit", "", 0..=0, Command::Exit),
    Usage::new("list-commands", "", 0..=0, Command::ListCommands),
    Usage::new("memory/show", "", 0..=0, Command::MemoryShow),
    Usage::new("ovsdb-server/add-db", "DB", 1..=1, Command::AddDatabase),
    Usage::new("ovsdb-server/add-remote", "REMOTE", 1..=1, Command::AddRemote),
    Usage::new("ovsdb-server/compact", "", 0..=1, Command::Compact),
    Usage::new("ovsdb-server/connect-active-ovsdb-server", "", 0..=0, Command::ConnectActive),
    Usage::new("ovsdb-server/disable-monitor-cond", "", 0..=0, Command::DisableMonitorCond),
    Usage::new("ovsdb-server/disconnect-active-ovsdb-server", "", 0..=0, Command::DisconnectActive),
    Usage::new("ovsdb-server/get-active-ovsdb-server", "", 0..=0, Command::ActiveServer),
    Usage::new("ovsdb-server/get-db-storage-status", "DB", 1..=1, Command::StorageStatus),
    Usage::new("ovsdb-server/get-sync-exclude-tables", "", 0..=0, Command::ExcludedTables),
    Usage::new("ovsdb-server/list-dbs", "", 0..=0, Command::ListDatabases),
    Usage::new("ovsdb-server/list-remotes", "", 0..=0, Command::ListRemotes),
    Usage::new("ovsdb-server/memory-trim-on-compaction", "on|off", 1..=1, Command::MemoryTrim),
    Usage::new("ovsdb-server/perf-counters-clear", "", 0..=0, Command::ClearPerformanceCounters),
    Usage::new("ovsdb-server/perf-counters-show", "", 0..=0, Command::ShowPerformanceCounters),
    Usage::new("ovsdb-server/reconnect", "", 0..=0, Command::Reconnect),
    Usage::new("ovsdb-server/reload", "", 0..=0, Command::Reload).since(ServerRelease::V3_5),
    Usage::new("ovsdb-server/remove-db", "DB", 1..=1, Command::RemoveDatabase),
    Usage::new("ovsdb-server/remove-remote", "REMOTE", 1..=1, Command::RemoveRemote),
    Usage::new("ovsdb-server/set-active-ovsdb-server", "", 1..=1, Command::SetActiveServer),
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
    )
    .since(ServerRelease::V3_5),
    Usage::new("ovsdb-server/set-sync-exclude-tables", "", 0..=1, Command::SetExcludedTables),
    Usage::new("ovsdb-server/sync-status", "", 0..=0, Command::SyncStatus),
    Usage::new("ovsdb-server/tlog-list", "", 0..=0, Command::ListLoggedTables),
    Usage::new("ovsdb-server/tlog-set", "DB:TABLE on|off", 2..=2, Command::LogTable),
    Usage::new("set-options", "[--format text|json]", 1..=2, Command::SetOptions)
        .since(ServerRelease::V3_5),
    Usage::new("version", "", 0..=0, Command::Version),
    Usage::new("vlog/close", "", 0..=0, Command::CloseLog),
    Usage::new("vlog/disable-rate-limit", "[module]...", 0..=usize::MAX, Command::RateLimit),
    Usage::new("vlog/enable-rate-limit", "[module]...", 0..=usize::MAX, Command::RateLimit),
    Usage::new("vlog/list", "", 0..=0, Command::ListLogLevels),
    Usage::new("vlog/list-pattern", "", 0..=0, Command::ListLogPatterns),
    Usage::new("vlog/reopen", "", 0..=0, Command::ReopenLog),
    Usage::new(
        "vlog/set",
        "{spec | PATTERN:destination:pattern}",
        0..=usize::MAX,
        Command::SetLogLevels,
    ),
];

/// The names of commands, with their arguments as users see them.
pub(super) fn usage_texts(
    commands: &[&'static Usage],
) -> impl Iterator<Item = (&'static str, &'static str)> {
    commands.iter().map(|usage| (usage.name, usage.arguments))
}

/// Output of `list-commands`.
pub(super) fn list_commands(commands: &[&'static Usage]) -> String {
    let mut text = "The available commands are:\n".to_owned();
    for (name, arguments) in usage_texts(commands) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<23} {arguments}");
    }
    text
}
