//! The queues of those who follow a client's replica.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::{ChangeEvent, Changed, Follow, Subscription};
use crate::db::{ChangeSet, RowChange, Snapshot};

/// What a reader has not read yet.
#[derive(Debug)]
pub(super) struct Queue {
    follow: Follow,
    waiting: Mutex<Waiting>,
    /// There is something in the queue; there is one reader.
    pub(super) told: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Comes before the events.
    pub(super) lagged: Option<Snapshot>,
    pub(super) events: VecDeque<ChangeEvent>,
    /// How many rows the events have.
    pub(super) rows: usize,
    /// Nothing comes after them.
    pub(super) ended: bool,
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
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
pub(in crate::client) enum News {
    Committed(ChangeSet),
    Resynced(ChangeSet),
    /// The rows of before cannot be compared, since the database has another schema, or are not kept.
    Replaced,
}

/// Those who follow one client's replica.
#[derive(Debug, Default)]
pub(in crate::client) struct Followers {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    queues: Vec<Weak<Queue>>,
    /// Nothing is told any more, to those who begin to follow now neither.
    ended: bool,
}

impl Followers {
    /// A new reader; `snapshot` gives the state that its first event is to follow from.
    pub(in crate::client) fn add(
        &self,
        follow: Follow,
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Subscription {
        let mut list = self.lock();
        let waiting = Waiting {
            ended: list.ended,
            ..Waiting::default()
        };
        let queue = Arc::new(Queue {
            follow,
            waiting: Mutex::new(waiting),
            told: Notify::new(),
        });
        list.queues.push(Arc::downgrade(&queue));
        Subscription {
            snapshot: snapshot(),
            queue,
        }
    }

    /// Publishes a snapshot by `publish`, and tells what led to it. Nobody begins to follow in between.
    pub(in crate::client) fn tell(
        &self,
        news: &[News],
        snapshot: &Snapshot,
        publish: impl FnOnce(),
    ) {
        let mut list = self.lock();
        publish();
        list.queues.retain(|queue| {
            let queue = queue.upgrade();
            if let Some(queue) = &queue {
                queue.push(news, snapshot);
            }
            queue.is_some()
        });
    }

    /// Nothing is told any more: the client has ended.
    pub(in crate::client) fn end(&self) {
        let mut list = self.lock();
        list.ended = true;
        for queue in list.queues.drain(..).filter_map(|queue| queue.upgrade()) {
            queue.lock().ended = true;
            queue.told.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb::{self, LogicalRouter, LogicalSwitch};
    use patchbay_schemas::typed::TableRow;

    use super::*;
    use crate::client::subscription::Change;
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
        assert!(scene.followers.lock().queues.is_empty());
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
