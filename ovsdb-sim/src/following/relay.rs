//! Task of a relay.

use std::convert::Infallible;
use std::time::Duration;

use patchbay_engine::client::{
    ChangeEvent, Client, ClientClosed, ConnectionEvents, FollowedTables, ForwardOutcome,
    ForwardedReplies, ForwardedReply, Forwarder, Subscription,
};
use patchbay_engine::db::{DatabaseError, Snapshot};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use crate::long_work::run_long;

use super::changes::{adopt_content, repeat_changes};
use super::schema_map::{SchemaMap, SchemaMismatch};
use super::{FollowPhase, FollowTarget, MAX_WAITING_ROWS, SourceOptions};

/// Time without a connection after which a relay reports that it has none, as in ovsdb-server.
const REPORT_AFTER: Duration = Duration::from_secs(30);
/// Pause after content that cannot be served, before it is requested again.
const RETRY_INTERVAL: Duration = Duration::from_secs(8);

/// Reason why a relay cannot serve what its source has sent.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Content(#[from] DatabaseError),
    #[error(transparent)]
    Schema(#[from] SchemaMismatch),
    #[error(transparent)]
    Closed(#[from] ClientClosed),
}

/// Follows the source until the task is dropped.
pub(super) async fn follow(
    target: FollowTarget,
    source: SourceOptions,
    phase: watch::Sender<FollowPhase>,
) {
    let Some(server) = target.server.upgrade() else {
        return;
    };
    let name = target.database.name().to_owned();
    let config = source.client_config(&name, &server);
    drop(server);
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            // As in ovsdb-server, which takes any text for a remote that cannot be reached.
            tracing::warn!(target: "reconnect", "{}: connection attempt failed ({error})", source.remotes);
            phase.send_replace(FollowPhase::Failed);
            return;
        }
    };
    loop {
        let client = source.connect(&config, &target, &phase).await;
        let Err(error) = tokio::select! {
            ended = follow_client(&target, &client, &phase) => ended,
            never = target.attend_client(&client) => match never {},
        };
        target.database.set_link(None);
        phase.send_if_modified(FollowPhase::retry);
        tracing::error!(target: "relay", database = name, %error, "cannot serve what the source has sent");
        drop(client);
        sleep(RETRY_INTERVAL).await;
    }
}

/// Relay with a client of its source.
struct Relay<'a> {
    target: &'a FollowTarget,
    client: &'a Client,
    forwarder: Forwarder,
    replies: ForwardedReplies,
    changes: Subscription,
    events: ConnectionEvents,
    /// `None`: the content was not adopted yet.
    map: Option<SchemaMap>,
}

async fn follow_client(
    target: &FollowTarget,
    client: &Client,
    phase: &watch::Sender<FollowPhase>,
) -> Result<Infallible, RelayError> {
    let (forwarder, replies) = client.forwarder();
    let changes = client.follow(FollowedTables::all().with_capacity(MAX_WAITING_ROWS));
    let mut relay = Relay {
        target,
        client,
        forwarder,
        replies,
        changes: changes.map_err(|_| ClientClosed)?,
        events: client.connection_events()?,
        map: None,
    };
    let content = relay.changes.snapshot().clone();
    relay.adopt(&content).await?;
    relay.update_link().await;
    phase.send_replace(FollowPhase::Following);
    relay.run().await
}

impl Relay<'_> {
    async fn run(&mut self) -> Result<Infallible, RelayError> {
        let mut lost_at: Option<Instant> = None;
        loop {
            let report_at = lost_at.and_then(|lost| lost.checked_add(REPORT_AFTER));
            tokio::select! {
                event = self.changes.next() => self.apply(event?).await?,
                reply = self.replies.next() => match reply {
                    Some(reply) => self.deliver(reply).await?,
                    None => return Err(ClientClosed.into()),
                },
                event = self.events.next() => {
                    event?;
                    // The content of a new connection comes before the transactions that waited.
                    self.apply_queued().await?;
                    self.update_link().await;
                    lost_at = if self.client.is_live() {
                        None
                    } else {
                        lost_at.or_else(|| Some(Instant::now()))
                    };
                }
                () = sleep_until(report_at.unwrap_or_else(Instant::now)), if report_at.is_some() => {
                    self.target.database.report_disconnected();
                    // Reported once.
                    lost_at = None;
                }
            }
        }
    }

    /// Reports the connection, or its loss, to the database.
    async fn update_link(&self) {
        let link = self.client.is_live().then(|| self.forwarder.clone());
        let _turn = self.target.database.turn().await;
        run_long(|| self.target.database.set_link(link));
    }

    /// Delivers a reply. The changes that the source has reported before it come first.
    async fn deliver(&mut self, reply: ForwardedReply) -> Result<(), RelayError> {
        self.apply_queued().await?;
        let was_sent = !matches!(reply.outcome, ForwardOutcome::NotSent(_));
        let database = &self.target.database;
        database.in_turn(|_| false, || database.finish_forwarded(reply)).await;
        if !was_sent {
            // The transaction waits now, and is executed again if there is a connection.
            self.update_link().await;
        }
        Ok(())
    }

    async fn apply_queued(&mut self) -> Result<(), RelayError> {
        while let Some(event) = self.changes.try_next()? {
            self.apply(event).await?;
        }
        Ok(())
    }

    async fn apply(&mut self, event: ChangeEvent) -> Result<(), RelayError> {
        let changed = match event {
            ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) => changed,
            ChangeEvent::Lagged(content) => return self.adopt(&content).await,
        };
        let database = &self.target.database;
        let Some(map) = &self.map else {
            return Ok(());
        };
        let operations = repeat_changes(changed.rows(), map, &database.schema());
        self.commit(operations, changed.transaction()).await
    }

    /// Gives the database the content of the source.
    async fn adopt(&mut self, content: &Snapshot) -> Result<(), RelayError> {
        let last = self.changes.last_transaction();
        let database = &self.target.database;
        let turn = database.turn().await;
        let own = database.snapshot();
        let is_same_schema = own.schema().to_json() == content.schema().to_json();
        if database.is_available() && is_same_schema {
            let map = SchemaMap::new(content.schema(), own.schema(), |_| false)?;
            run_long(|| {
                let operations = adopt_content(content, &map, &own);
                database.apply_followed(operations, last)
            })?;
            self.map = Some(map);
            return Ok(());
        }
        let Some(server) = self.target.server.upgrade() else {
            return Err(ClientClosed.into());
        };
        let uuids = server.owner_uuids();
        let installed = run_long(|| database.install(content, last, uuids));
        drop(turn);
        let canceled = installed?;
        self.map = Some(SchemaMap::new(content.schema(), &database.schema(), |_| false)?);
        tracing::info!(target: "relay", database = database.name(), rows = content.row_count(), "has the schema of its source");
        // As when a database is added or converted.
        server.close_unaware_sessions();
        canceled.reply_to_transactions();
        Ok(())
    }

    async fn commit(
        &self,
        operations: Vec<patchbay_schemas::wire::Operation>,
        last: Option<Uuid>,
    ) -> Result<(), RelayError> {
        let database = &self.target.database;
        let _turn = database.turn().await;
        run_long(|| database.apply_followed(operations, last))?;
        Ok(())
    }
}
