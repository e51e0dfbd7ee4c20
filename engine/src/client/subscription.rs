//! What changed, transaction by transaction, for those who follow tables.
//!
//! Each [`Subscription`] has a queue of its own, bounded by rows. Who is too slow for it loses what waits, is told so,
//! and is given the snapshot from which the next changes follow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use tokio::sync::Notify;

use crate::db::{ChangeSet, RowChange, Snapshot};

use super::error::Ended;

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
    /// Changes were lost, because too many waited or because the database's schema is another now. Nothing of the lost ones is to be had: read this snapshot, from which
    /// the next event follows.
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

#[derive(Debug)]
struct Queue {
    follow: Follow,
    waiting: Mutex<Waiting>,
    /// There is something in the queue; there is one reader.
    told: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Comes before the events.
    lagged: Option<Snapshot>,
    events: VecDeque<ChangeEvent>,
    /// How many rows the events have.
    rows: usize,
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that is done under the lock can leave the queue in two minds.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, news: &[News], snapshot: &Snapshot) {
        let mut waiting = self.lock();
        for news in news {
            let (News::Committed(changed) | News::Resynced(changed)) = news else {
                waiting.lose(snapshot);
                break;
            };
            let schema = snapshot.schema();
            let followed = |change: &&RowChange| self.follow.follows(schema, change.table);
            let count = changed.rows.iter().filter(followed).count();
            if waiting.rows + count > self.follow.capacity {
                waiting.lose(snapshot);
                break;
            }
            if count > 0 {
                let rows = changed.rows.iter().filter(followed).cloned().collect();
                let schema = schema.clone();
                let changed = Changed { schema, rows };
                waiting.rows += count;
                waiting
                    .events
                    .push_back(if matches!(news, News::Resynced(_)) {
                        ChangeEvent::Resynced(changed)
                    } else {
                        ChangeEvent::Committed(changed)
                    });
            }
        }
        drop(waiting);
        self.told.notify_one();
    }
}

impl Waiting {
    /// All that waits is lost. The snapshot shows it, and all news that the queue is being told.
    fn lose(&mut self, snapshot: &Snapshot) {
        *self = Self {
            lagged: Some(snapshot.clone()),
            ..Self::default()
        };
    }
}

/// What the replica has come to know, not yet filtered.
#[derive(Debug)]
pub(super) enum News {
    Committed(ChangeSet),
    Resynced(ChangeSet),
    /// The database has another schema: rows of before cannot be compared.
    Replaced,
}

/// Those who follow one client's replica.
#[derive(Debug, Default)]
pub(super) struct Followers {
    queues: Mutex<Vec<Weak<Queue>>>,
}

impl Followers {
    /// A new reader; `snapshot` gives the state that its first event is to follow from.
    pub(super) fn add(&self, follow: Follow, snapshot: impl FnOnce() -> Snapshot) -> Subscription {
        let mut queues = self.lock();
        let queue = Arc::new(Queue {
            follow,
            waiting: Mutex::default(),
            told: Notify::new(),
        });
        queues.push(Arc::downgrade(&queue));
        Subscription {
            snapshot: snapshot(),
            queue,
        }
    }

    /// Publishes a snapshot by `publish`, and tells what led to it. Nobody begins to follow in between.
    pub(super) fn tell(&self, news: &[News], snapshot: &Snapshot, publish: impl FnOnce()) {
        let mut queues = self.lock();
        publish();
        queues.retain(|queue| {
            let queue = queue.upgrade();
            if let Some(queue) = &queue {
                queue.push(news, snapshot);
            }
            queue.is_some()
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client has ended.
impl Drop for Followers {
    fn drop(&mut self) {
        for queue in self.lock().drain(..).filter_map(|queue| queue.upgrade()) {
            queue.lock().ended = true;
            queue.told.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb::{self, LogicalRouter, LogicalSwitch};

    use super::*;
    use crate::db::Database;
    use crate::txn::TxnBuilder;

    /// A database whose changes are told as a client's driver tells them.
    struct Scene {
        database: Database,
        followers: Followers,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                database: Database::new(nb::schema()),
                followers: Followers::default(),
            }
        }

        fn follow(&self, follow: Follow) -> Subscription {
            self.followers.add(follow, || self.database.snapshot())
        }

        fn commit(&mut self, change: impl FnOnce(&mut TxnBuilder)) {
            let mut txn = TxnBuilder::new(&self.database.snapshot());
            change(&mut txn);
            let changes = self.database.transact(txn.finish().operations()).unwrap();
            let snapshot = self.database.snapshot();
            self.followers
                .tell(&[News::Committed(changes)], &snapshot, || {});
        }
    }

    fn switch(name: &str) -> LogicalSwitch {
        LogicalSwitch {
            name: name.into(),
            ..Default::default()
        }
    }

    async fn committed<T: TableRow>(events: &mut Subscription) -> Vec<Change<T>> {
        match events.next().await.unwrap() {
            ChangeEvent::Committed(changed) => changed.of().collect::<Result<_, _>>().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn each_transaction_is_one_typed_event() {
        let mut scene = Scene::new();
        let mut events = scene.follow(Follow::table::<LogicalSwitch>());
        let mut row = None;
        scene.commit(|txn| row = Some(txn.insert(&switch("a")).unwrap()));
        let row = row.unwrap();
        scene.commit(|txn| {
            txn.insert(&LogicalRouter::default()).unwrap();
        });
        scene.commit(|txn| {
            txn.update(row, &switch("a"), &switch("b")).unwrap();
        });
        scene.commit(|txn| txn.delete(row).unwrap());

        let (a, b) = (switch("a"), switch("b"));
        let inserted = Change::Inserted {
            row,
            new: a.clone(),
        };
        assert_eq!(committed(&mut events).await, [inserted]);
        // Of the router nobody hears who does not follow routers.
        let modified = Change::Modified {
            row,
            old: a,
            new: b.clone(),
        };
        assert_eq!(committed(&mut events).await, [modified]);
        let deleted = committed::<LogicalSwitch>(&mut events).await;
        assert_eq!((deleted[0].row(), deleted[0].now()), (row, None));
        assert_eq!(deleted, [Change::Deleted { row, old: b }]);
        assert_eq!(events.waiting(), 0);

        drop(scene);
        assert!(events.next().await.is_err());
    }

    #[tokio::test]
    async fn who_is_slow_loses_its_place_and_goes_on_from_a_snapshot() {
        let mut scene = Scene::new();
        let mut slow = scene.follow(Follow::all().with_capacity(2));
        let mut quick = scene.follow(Follow::all());
        for name in ["a", "b", "c", "d"] {
            scene.commit(|txn| {
                txn.insert(&switch(name)).unwrap();
            });
        }
        assert!(slow.waiting() <= 2);
        let ChangeEvent::Lagged(snapshot) = slow.next().await.unwrap() else {
            panic!("four rows do not fit into two")
        };
        // The third was one too many; the fourth follows from there.
        assert_eq!(snapshot.typed::<LogicalSwitch>().len(), 3);
        let fourth = committed::<LogicalSwitch>(&mut slow).await;
        assert_eq!(fourth[0].now(), Some(&switch("d")));

        for name in ["a", "b", "c", "d"] {
            let change = committed::<LogicalSwitch>(&mut quick).await;
            assert_eq!(change[0].now(), Some(&switch(name)));
        }
        // What nobody reads any more is not kept.
        drop((slow, quick));
        scene.commit(|txn| {
            txn.insert(&switch("e")).unwrap();
        });
        assert!(scene.followers.lock().is_empty());
    }

    #[tokio::test]
    async fn a_snapshot_shows_all_news_that_it_is_told_with() {
        let mut scene = Scene::new();
        let mut events = scene.follow(Follow::all().with_capacity(1));
        let news: Vec<News> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let mut txn = TxnBuilder::new(&scene.database.snapshot());
                txn.insert(&switch(name)).unwrap();
                News::Committed(scene.database.transact(txn.finish().operations()).unwrap())
            })
            .collect();
        scene
            .followers
            .tell(&news, &scene.database.snapshot(), || {});
        let ChangeEvent::Lagged(snapshot) = events.next().await.unwrap() else {
            panic!("three rows do not fit into one")
        };
        assert_eq!(snapshot.row_count(), 3);
        assert_eq!(events.waiting(), 0);
    }
}
