//! Source of a database that follows another.

use std::sync::Arc;
use std::time::Duration;

use patchbay_engine::backoff::Backoff;
use patchbay_engine::client::{Client, Config, ConnectError, Remote, RemoteError, Remotes, Tls};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::dial::{MAX_BACKOFF, MIN_BACKOFF};
use crate::remotes::column;
use crate::server::Server;
use crate::target::PassiveTarget;

use super::source_log::SourceLog;
use super::{FollowPhase, FollowTarget, source_listener};

/// Probe interval of the sources of relays, as in ovsdb-server.
const RELAY_PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Probe interval of the sources of backups, as in ovsdb-server.
const BACKUP_PROBE_INTERVAL: Duration = Duration::from_secs(60);

/// Source of a database that follows another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceOptions {
    /// Remotes in ovsdb-server's notation, separated by commas.
    pub(crate) remotes: String,
    /// `None`: the source is not probed.
    pub(crate) probe_interval: Option<Duration>,
    /// Longest pause between two attempts to connect.
    pub(crate) max_backoff: Duration,
}

impl SourceOptions {
    /// The source of a relay.
    pub(crate) fn of_relay(remotes: impl Into<String>) -> Self {
        Self {
            remotes: remotes.into(),
            probe_interval: Some(RELAY_PROBE_INTERVAL),
            max_backoff: MAX_BACKOFF,
        }
    }

    /// The source of backups.
    pub(crate) fn of_backup(remotes: impl Into<String>) -> Self {
        Self { probe_interval: Some(BACKUP_PROBE_INTERVAL), ..Self::of_relay(remotes) }
    }

    /// The configuration of a client of the source's database.
    ///
    /// # Errors
    /// The remotes are malformed.
    pub(super) fn client_config(
        &self,
        database: &str,
        server: &Arc<Server>,
    ) -> Result<Config, RemoteError> {
        let remotes = self.remotes(server)?;
        let is_passive = |remote: &Remote| matches!(remote, Remote::Connector(_));
        let waits = remotes.as_slice().iter().all(is_passive);
        let mut config = Config::new(remotes, database);
        if waits {
            // The source connects when it likes.
            config.connect_timeout = Duration::MAX;
        }
        // Relays and followers of a cluster forward transactions.
        config.leader_only = false;
        config.probe_interval = self.probe_interval;
        // ovsdb-server probes sources on unix sockets, too.
        config.unix_probe_interval = self.probe_interval;
        config.backoff = (self.min_backoff(), self.max_backoff);
        Ok(config)
    }

    /// The remotes, those of sources that connect last.
    fn remotes(&self, server: &Arc<Server>) -> Result<Remotes, RemoteError> {
        let settings = server.settings();
        let mut active = Vec::new();
        let mut passive = Vec::new();
        for text in self.remotes.split(',').map(str::trim) {
            if let Some(target) = PassiveTarget::parse(text) {
                let target = settings.locate_socket(target);
                passive.push(source_listener::connector(text, target, server));
            } else if let Some(path) = text.strip_prefix("unix:") {
                let path = settings.socket_path(path.into());
                active.push(format!("unix:{}", path.display()));
            } else {
                active.push(text.to_owned());
            }
        }
        let mut passive = passive.into_iter();
        let first = match passive.next() {
            Some(connector) if active.is_empty() => connector.into(),
            Some(connector) => active.join(",").parse::<Remotes>()?.or(connector),
            None => active.join(",").parse()?,
        };
        Ok(passive.fold(first, Remotes::or))
    }

    /// Connects, again and again until it succeeds. The keys are looked up for each attempt.
    pub(super) async fn connect(
        &self,
        config: &Config,
        target: &FollowTarget,
        phase: &watch::Sender<FollowPhase>,
    ) -> Client {
        let mut backoff = Backoff::new(self.min_backoff(), self.max_backoff);
        let mut log = SourceLog::default();
        loop {
            let mut config = config.clone();
            config.tls = target.server.upgrade().as_deref().and_then(client_keys);
            let error = match Client::connect(config).await {
                Ok(client) => {
                    log.connected(&self.remotes);
                    return client;
                }
                Err(error) => error,
            };
            for failure in &error.attempts {
                log.failed(failure);
            }
            phase.send_if_modified(FollowPhase::retry);
            // A source that is not connected to its own source will be soon.
            let delay =
                if is_coming(&error) { self.min_backoff() / 4 } else { backoff.next_delay() };
            log.waiting(&self.remotes, delay);
            sleep(delay).await;
        }
    }

    fn min_backoff(&self) -> Duration {
        MIN_BACKOFF.min(self.max_backoff)
    }
}

/// `true` if a source answered that it is not connected to its cluster or its source.
fn is_coming(error: &ConnectError) -> bool {
    use patchbay_engine::client::SessionError;
    error.attempts.iter().any(|attempt| matches!(attempt.error, SessionError::NotConnected))
}

/// The keys for `ssl:` remotes of sources, as the options' columns name them now. `None`: there are
/// no keys.
fn client_keys(server: &Server) -> Option<Tls> {
    let options = &server.settings().tls;
    let file = |option: &Option<String>| column::read_option(option.as_deref(), server.databases());
    let mut keys = Tls::new(
        file(&options.private_key)?,
        file(&options.certificate)?,
        file(&options.ca_certificate)?,
    );
    // As Open vSwitch, which sends the name of a host.
    keys.send_server_name = true;
    keys.server_name.clone_from(&options.server_name);
    Some(keys)
}
