//! Subscriptions to the changes of followed tables, transaction by transaction.
//!
//! Each [`Subscription`] has its own queue, bounded by rows. A reader that is too slow loses its
//! queued events and receives the snapshot from which the next event follows.

mod queue;

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use crate::db::{RowChange, Snapshot};

use super::error::ClientClosed;
use queue::EventQueue;
pub(super) use queue::{ReplicaEvent, Subscribers};

/// The tables of a [`Subscription`], and the capacity of its queue.
///
/// ```
/// use patchbay_engine::client::FollowedTables;
/// use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
///
/// let routers = FollowedTables::table::<LogicalRouter>()
///     .and::<LogicalRouterPort>()
///     .with_capacity(1000);
/// let everything = FollowedTables::all();
/// # let _ = (routers, everything);
/// ```
#[derive(Clone, Debug)]
pub struct FollowedTables {
    /// `None`: all tables.
    tables: Option<Vec<Arc<str>>>,
    capacity: usize,
}

impl FollowedTables {
    /// Default capacity of the queue, in changed rows. Large enough for a bulk change of a whole
    /// network.
    pub const DEFAULT_CAPACITY: usize = 100_000;

    /// Follows all tables of the replica.
    pub fn all() -> Self {
        Self { tables: None, capacity: Self::DEFAULT_CAPACITY }
    }

    /// Follows the tables with these names.
    pub fn tables<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { tables: Some(names.into_iter().map(Arc::from).collect()), ..Self::all() }
    }

    /// Follows the table of `T`.
    pub fn table<T: TableRow>() -> Self {
        Self::tables([T::TABLE])
    }

    /// Adds the table of `T`.
    #[must_use]
    pub fn and<T: TableRow>(mut self) -> Self {
        if let Some(tables) = &mut self.tables {
            tables.push(T::TABLE.into());
        }
        self
    }

    /// Sets the maximum number of changed rows in the queue.
    ///
    /// A transaction that changes more rows than that is reported as [`ChangeEvent::Lagged`] at
    /// once, because reading the snapshot is less work than reading all its changes.
    #[must_use]
    pub fn with_capacity(self, rows: usize) -> Self {
        Self { capacity: rows, ..self }
    }

    fn follows(&self, schema: &DatabaseSchema, table: TableId) -> bool {
        let Some(tables) = &self.tables else {
            return true;
        };
        let name = &schema.table(table).name;
        tables.iter().any(|followed| followed == name)
    }
}

/// An embedded client has no subscriptions. Compare snapshots instead: see
/// [`Client::changes`](super::Client::changes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an embedded client has no subscriptions")]
pub struct FollowUnsupported;

/// An event of a [`Subscription`].
#[derive(Clone, Debug)]
pub enum ChangeEvent {
    /// A transaction was committed, by this client or another.
    Committed(ChangedRows),
    /// The replica was brought up to date after a lost connection. Holds all differences, however
    /// many transactions made them.
    Resynced(ChangedRows),
    /// Changes were lost, because the queue was full, the schema has changed, or several
    /// connections in a row failed during setup. Read this snapshot; the next event follows from
    /// it.
    Lagged(Snapshot),
}

/// The changed rows of one event, in the followed tables.
#[derive(Clone, Debug)]
pub struct ChangedRows {
    schema: Arc<DatabaseSchema>,
    rows: Arc<[RowChange]>,
    /// `None`: the server keeps no history.
    transaction: Option<Uuid>,
}

impl ChangedRows {
    /// The changed rows, each once, in no particular order.
    pub fn rows(&self) -> &[RowChange] {
        &self.rows
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Id of the transaction that made the changes, or of the last one that did. `None`: the server
    /// keeps no history.
    pub fn transaction(&self) -> Option<Uuid> {
        self.transaction
    }

    /// The changed rows of one table.
    ///
    /// # Errors
    /// A row has a value that `T` cannot hold.
    pub fn of<T: TableRow>(&self) -> impl Iterator<Item = Result<Change<T>, TypeError>> {
        let table = self.schema.table_by_name(T::TABLE);
        let columns: Vec<_> = table.map_or_else(Vec::new, |(_, table)| {
            T::COLUMNS.iter().map(|name| table.column_id(name)).collect()
        });
        let id = table.map(|(id, _)| id);
        self.rows.iter().filter(move |change| Some(change.table) == id).filter_map(move |change| {
            let read = |row: &Row| {
                T::from_data(|place| {
                    let column = columns.get(place).copied().flatten()?;
                    row.values.get(column)
                })
            };
            let row = Ref::new(change.uuid());
            let old = change.old.as_deref().map(read).transpose();
            let new = change.new.as_deref().map(read).transpose();
            match (old, new) {
                (Err(error), _) | (_, Err(error)) => Some(Err(error)),
                (Ok(None), Ok(Some(new))) => Some(Ok(Change::Inserted { row, new })),
                (Ok(Some(old)), Ok(Some(new))) => Some(Ok(Change::Modified { row, old, new })),
                (Ok(Some(old)), Ok(None)) => Some(Ok(Change::Deleted { row, old })),
                // A change has at least one version of the row.
                (Ok(None), Ok(None)) => None,
            }
        })
    }
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<T> {
    /// The row was inserted.
    Inserted {
        /// UUID of the row.
        row: Ref<T>,
        /// The inserted row.
        new: T,
    },
    /// The row was modified.
    Modified {
        /// UUID of the row.
        row: Ref<T>,
        /// The row before the change.
        old: T,
        /// The row after the change.
        new: T,
    },
    /// The row was deleted.
    Deleted {
        /// UUID of the row.
        row: Ref<T>,
        /// The deleted row.
        old: T,
    },
}

impl<T> Change<T> {
    /// UUID of the row.
    pub fn row(&self) -> Ref<T> {
        match self {
            Self::Inserted { row, .. } | Self::Modified { row, .. } | Self::Deleted { row, .. } => {
                *row
            }
        }
    }

    /// The row after the change. `None`: it was deleted.
    pub fn now(&self) -> Option<&T> {
        match self {
            Self::Inserted { new, .. } | Self::Modified { new, .. } => Some(new),
            Self::Deleted { .. } => None,
        }
    }
}

/// A reader of changes: see [`Client::follow`](super::Client::follow).
#[derive(Debug)]
pub struct Subscription {
    snapshot: Snapshot,
    queue: Arc<EventQueue>,
    /// Id of the last transaction that the returned events show.
    transaction: Option<Uuid>,
}

impl Subscription {
    /// The snapshot from which the first event follows.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Waits for the next event. The client's snapshot is at least as new as the event.
    ///
    /// # Errors
    /// The client is closed, and all events have been read.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<ChangeEvent, ClientClosed> {
        loop {
            let queue = self.queue.clone();
            let changed = queue.changed.notified();
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            changed.await;
        }
    }

    /// Returns the next event if there is one already.
    ///
    /// # Errors
    /// The client is closed, and all events have been read.
    pub fn try_next(&mut self) -> Result<Option<ChangeEvent>, ClientClosed> {
        let mut queued = self.queue.lock();
        if let Some((snapshot, transaction)) = queued.lagged.take() {
            self.transaction = transaction;
            return Ok(Some(ChangeEvent::Lagged(snapshot)));
        }
        if let Some(event) = queued.events.pop_front() {
            queued.rows -= event.len();
            if let ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) = &event {
                self.transaction = changed.transaction;
            }
            return Ok(Some(event));
        }
        if queued.closed {
            return Err(ClientClosed);
        }
        Ok(None)
    }

    /// Id of the last transaction that [`snapshot`](Self::snapshot) and the events returned so far
    /// show. `None`: the server keeps no history.
    pub fn last_transaction(&self) -> Option<Uuid> {
        self.transaction
    }

    /// Number of changed rows in the queue.
    pub fn queued_rows(&self) -> usize {
        self.queue.lock().rows
    }
}

impl ChangeEvent {
    fn len(&self) -> usize {
        match self {
            Self::Committed(changed) | Self::Resynced(changed) => changed.rows.len(),
            Self::Lagged(_) => 0,
        }
    }
}
