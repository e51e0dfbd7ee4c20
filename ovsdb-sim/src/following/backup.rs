//! Task of a backup.

use std::convert::Infallible;

use patchbay_engine::client::{
    ChangeEvent, Client, ClientClosed, Config, FollowedTables, ForwardOutcome, RemoteError,
};
use patchbay_engine::db::{DatabaseError, Snapshot};
use patchbay_schemas::wire::Operation;
use tokio::sync::watch;

use crate::long_work::run_long;

use super::changes::{adopt_content, repeat_changes};
use super::schema_map::{SchemaMap, SchemaMismatch};
use super::{FollowPhase, FollowTarget, MAX_WAITING_ROWS, SourceOptions};

/// Reason why a database cannot be the backup of its source. It is active then.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error("Self replicating is not allowed")]
    OwnServer,
    #[error("{0} cannot be replicated.")]
    Schema(String, #[source] SchemaMismatch),
    #[error("cannot commit what the source has committed: {0}")]
    Commit(#[from] DatabaseError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Closed(#[from] ClientClosed),
}

/// Follows the source until the task is dropped, or until that is impossible. Then the database
/// becomes active, as in ovsdb-server.
pub(super) async fn follow(
    target: FollowTarget,
    source: SourceOptions,
    excluded_tables: Vec<String>,
    phase: watch::Sender<FollowPhase>,
) {
    let backup = Backup { target: &target, excluded_tables: &excluded_tables, phase: &phase };
    let Err(error) = backup.run(&source).await;
    let name = target.database.name();
    if let BackupError::Schema(_, mismatch) = &error {
        tracing::info!(target: "replication", "{mismatch}");
    }
    match error {
        BackupError::OwnServer | BackupError::Schema(..) => {
            tracing::info!(target: "replication", "{name}: {error}");
        }
        // As in ovsdb-server, which takes any text for a remote that cannot be reached: the
        // database stays a backup.
        BackupError::Remote(error) => {
            tracing::warn!(target: "reconnect", "{}: connection attempt failed ({error})", source.remotes);
            phase.send_replace(FollowPhase::Retrying);
            return;
        }
        BackupError::Commit(_) | BackupError::Closed(_) => {
            tracing::error!(target: "replication", "{name}: {error}");
        }
    }
    phase.send_replace(FollowPhase::Failed);
    target.database.set_backup(false);
}

struct Backup<'a> {
    target: &'a FollowTarget,
    excluded_tables: &'a [String],
    phase: &'a watch::Sender<FollowPhase>,
}

impl Backup<'_> {
    async fn run(&self, source: &SourceOptions) -> Result<Infallible, BackupError> {
        let config = self.client_config(source)?;
        let client = source.connect(&config, self.target, self.phase).await;
        self.check_server(&client).await?;
        let mut changes = client
            .follow(FollowedTables::all().with_capacity(MAX_WAITING_ROWS))
            .map_err(|_| ClientClosed)?;
        let content = changes.snapshot().clone();
        let mut map = self.adopt(&content).await?;
        self.phase.send_replace(FollowPhase::Following);
        let attended = self.target.attend_client(&client);
        let mut attended = std::pin::pin!(attended);
        loop {
            tokio::select! {
                event = changes.next() => self.apply(event?, &mut map).await?,
                never = &mut attended => match never {},
            }
        }
    }

    /// The configuration of a client of all tables that are not excluded.
    fn client_config(&self, source: &SourceOptions) -> Result<Config, BackupError> {
        let server = self.target.server.upgrade().ok_or(ClientClosed)?;
        let name = self.target.database.name();
        let config = source.client_config(name, &server)?;
        if self.excluded_tables.is_empty() {
            return Ok(config);
        }
        let own = self.target.database.schema();
        let tables = own.table_ids().map(|id| own.table(id));
        Ok(tables.filter(|table| !self.is_excluded(&table.name)).fold(config, |config, table| {
            let columns = table.column_ids().map(|column| table.column_name(column));
            config.with_columns(&table.name, columns)
        }))
    }

    fn is_excluded(&self, table: &str) -> bool {
        self.excluded_tables.iter().any(|name| name == table)
    }

    /// Checks that the source is another server.
    async fn check_server(&self, client: &Client) -> Result<(), BackupError> {
        loop {
            let (forwarder, mut replies) = client.forwarder();
            let sent = forwarder.send(0, "get_server_id", b"[]".to_vec());
            sent.map_err(|_| ClientClosed)?;
            let reply = replies.next().await.ok_or(ClientClosed)?;
            let server = self.target.server.upgrade().ok_or(ClientClosed)?;
            match reply.outcome {
                ForwardOutcome::Result(text)
                    if text == format!("\"{}\"", server.id()).into_bytes() =>
                {
                    return Err(BackupError::OwnServer);
                }
                // A server without ids is another one.
                ForwardOutcome::Result(_) | ForwardOutcome::Error(_) => return Ok(()),
                ForwardOutcome::NotSent(_) | ForwardOutcome::Lost => {
                    let mut events = client.connection_events()?;
                    if !client.is_live() {
                        events.next().await?;
                    }
                }
            }
        }
    }

    async fn apply(&self, event: ChangeEvent, map: &mut SchemaMap) -> Result<(), BackupError> {
        match event {
            ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) => {
                let own = self.target.database.schema();
                let operations = repeat_changes(changed.rows(), map, &own);
                self.commit(operations).await
            }
            ChangeEvent::Lagged(content) => {
                *map = self.adopt(&content).await?;
                Ok(())
            }
        }
    }

    /// Gives the database the content of the source.
    async fn adopt(&self, content: &Snapshot) -> Result<SchemaMap, BackupError> {
        let database = &self.target.database;
        let _turn = database.turn().await;
        let own = database.snapshot();
        let name = database.name();
        let is_same = own.schema().to_json() == content.schema().to_json();
        if !is_same {
            tracing::info!(
                target: "replication",
                "Schema version mismatch, checking if {name} can still be replicated or not."
            );
        }
        let is_excluded = |table: &str| self.is_excluded(table);
        let map = SchemaMap::new(content.schema(), own.schema(), is_excluded)
            .map_err(|mismatch| BackupError::Schema(name.to_owned(), mismatch))?;
        if !is_same {
            tracing::info!(target: "replication", "{name} can be replicated.");
        }
        run_long(|| {
            let operations = adopt_content(content, &map, &own);
            database.apply_followed(operations, None)
        })?;
        Ok(map)
    }

    async fn commit(&self, operations: Vec<Operation>) -> Result<(), BackupError> {
        let database = &self.target.database;
        let _turn = database.turn().await;
        run_long(|| database.apply_followed(operations, None))?;
        Ok(())
    }
}
