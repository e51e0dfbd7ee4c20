//! What changed, transaction by transaction, for those who follow tables.
//!
//! Each [`Subscription`] has a queue of its own, bounded by rows. Who is too slow for it loses what waits, is told so,
//! and is given the snapshot from which the next changes follow.

mod followers;

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};

use crate::db::{RowChange, Snapshot};

use super::error::Ended;
use followers::Queue;
pub(super) use followers::{Followers, News};

/// Which tables to follow, and how many changed rows may wait for a slow reader.
///
/// ```
/// use patchbay_engine::client::Follow;
/// use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
///
/// let routers = Follow::table::<LogicalRouter>().and::<LogicalRouterPort>().with_capacity(1000);
/// let everything = Follow::all();
/// # let _ = (routers, everything);
/// ```
#[derive(Clone, Debug)]
pub struct Follow {
    /// None for all tables.
    tables: Option<Vec<Arc<str>>>,
    capacity: usize,
}

impl Follow {
    /// How many changed rows may wait when nothing else is said.
    pub const CAPACITY: usize = 100_000;

    /// All tables of the replica.
    pub fn all() -> Self {
        Self {
            tables: None,
            capacity: Self::CAPACITY,
        }
    }

    /// The tables of these names.
    pub fn tables<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            tables: Some(names.into_iter().map(Arc::from).collect()),
            ..Self::all()
        }
    }

    /// The table of `T`.
    pub fn table<T: TableRow>() -> Self {
        Self::tables([T::TABLE])
    }

    /// And the table of `T`.
    #[must_use]
    pub fn and<T: TableRow>(mut self) -> Self {
        if let Some(tables) = &mut self.tables {
            tables.push(T::TABLE.into());
        }
        self
    }

    /// So many changed rows may wait. A transaction that changes more is never waited for: it is told by
    /// [`ChangeEvent::Lagged`] at once, because reading the snapshot is less work than reading all the changes.
    #[must_use]
    pub fn with_capacity(self, rows: usize) -> Self {
        Self {
            capacity: rows,
            ..self
        }
    }

    fn follows(&self, schema: &DatabaseSchema, table: TableId) -> bool {
        let Some(tables) = &self.tables else {
            return true;
        };
        let name = &schema.table(table).name;
        tables.iter().any(|followed| followed == name)
    }
}

/// A database in this process does not say what its transactions change: compare snapshots, see
/// [`Client::changes`](super::Client::changes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an embedded database tells no changes")]
pub struct NotFollowed;

/// What a [`Subscription`] tells.
#[derive(Clone, Debug)]
pub enum ChangeEvent {
    /// A transaction was committed, by whomever.
    Committed(Changed),
    /// After a lost connection the replica holds the database again; this is what is different, by however many
    /// transactions.
    Resynced(Changed),
    /// Changes were lost, because too many waited, because the database's schema is another now, or because several
    /// connections in a row were of no use. Nothing of the lost ones is to be had: read this snapshot, from which the next
    /// event follows.
    Lagged(Snapshot),
}

/// The changed rows of one event, in the tables that are followed.
#[derive(Clone, Debug)]
pub struct Changed {
    schema: Arc<DatabaseSchema>,
    rows: Arc<[RowChange]>,
}

impl Changed {
    /// The changed rows, each once, in no particular order.
    pub fn rows(&self) -> &[RowChange] {
        &self.rows
    }

    /// The schema that the rows' tables and columns are of.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// The changed rows of one table.
    ///
    /// # Errors
    /// Of each row: it holds values that `T` cannot.
    pub fn of<T: TableRow>(&self) -> impl Iterator<Item = Result<Change<T>, TypeError>> {
        let table = self.schema.table_by_name(T::TABLE);
        let columns: Vec<_> = table.map_or_else(Vec::new, |(_, table)| {
            T::COLUMNS
                .iter()
                .map(|name| table.column_id(name))
                .collect()
        });
        let id = table.map(|(id, _)| id);
        self.rows
            .iter()
            .filter(move |change| Some(change.table) == id)
            .filter_map(move |change| {
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
                    // No row was and none is: that is no change.
                    (Ok(None), Ok(None)) => None,
                }
            })
    }
}

/// What happened to one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<T> {
    /// It is new.
    Inserted {
        /// Which row.
        row: Ref<T>,
        /// What it is.
        new: T,
    },
    /// It is another than before.
    Modified {
        /// Which row.
        row: Ref<T>,
        /// What it was.
        old: T,
        /// What it is.
        new: T,
    },
    /// It is gone.
    Deleted {
        /// Which row.
        row: Ref<T>,
        /// What it was.
        old: T,
    },
}

impl<T> Change<T> {
    /// Which row.
    pub fn row(&self) -> Ref<T> {
        match self {
            Self::Inserted { row, .. } | Self::Modified { row, .. } | Self::Deleted { row, .. } => {
                *row
            }
        }
    }

    /// The row as it is now; none when it is gone.
    pub fn now(&self) -> Option<&T> {
        match self {
            Self::Inserted { new, .. } | Self::Modified { new, .. } => Some(new),
            Self::Deleted { .. } => None,
        }
    }
}

/// A reader of changes; see [`Client::follow`](super::Client::follow).
#[derive(Debug)]
pub struct Subscription {
    snapshot: Snapshot,
    queue: Arc<Queue>,
}

impl Subscription {
    /// The database as it was when the subscription began: the first event follows from here.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The next event. The client's snapshot is as new as the event, or newer.
    ///
    /// # Errors
    /// The client has ended, and all events have been told.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<ChangeEvent, Ended> {
        loop {
            let told = self.queue.told.notified();
            {
                let mut waiting = self.queue.lock();
                if let Some(snapshot) = waiting.lagged.take() {
                    return Ok(ChangeEvent::Lagged(snapshot));
                }
                if let Some(event) = waiting.events.pop_front() {
                    waiting.rows -= event.len();
                    return Ok(event);
                }
                if waiting.ended {
                    return Err(Ended);
                }
            }
            told.await;
        }
    }

    /// How many changed rows wait to be read.
    pub fn waiting(&self) -> usize {
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
