//! Event queues of the subscriptions to one client's replica.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use uuid::Uuid;

use super::{ChangeEvent, ChangedRows, FollowedTables, Subscription};
use crate::db::{ChangeSet, RowChange, Snapshot};

/// The queue between the driver and one subscription.
#[derive(Debug)]
pub(super) struct EventQueue {
    follow: FollowedTables,
    waiting: Mutex<QueuedEvents>,
    /// Notified when an event is queued or the queue is closed. There is one reader.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct QueuedEvents {
    /// Delivered before the events, with the id of the last transaction that it shows.
    pub(super) lagged: Option<(Snapshot, Option<Uuid>)>,
    pub(super) events: VecDeque<ChangeEvent>,
    /// Number of changed rows in the events.
    pub(super) rows: usize,
    /// `true` once no further event can come.
    pub(super) closed: bool,
}

impl EventQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        // No code panics while it holds the lock and has changed the queue in part.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, events: &[ReplicaEvent], snapshot: &Snapshot, last: Option<Uuid>) {
        let mut queued = self.lock();
        for event in events {
            let (ReplicaEvent::Committed(changed, transaction)
            | ReplicaEvent::Resynced(changed, transaction)) = event
            else {
                queued.replace_by_snapshot(snapshot, last);
                break;
            };
            let schema = snapshot.schema();
            let followed = |change: &&RowChange| self.follow.follows(schema, change.table);
            let count = changed.rows.iter().filter(followed).count();
            if queued.rows + count > self.follow.capacity {
                queued.replace_by_snapshot(snapshot, last);
                break;
            }
            if count > 0 {
                let rows = changed.rows.iter().filter(followed).cloned().collect();
                let schema = schema.clone();
                let changed = ChangedRows { schema, rows, transaction: *transaction };
                queued.rows += count;
                queued.events.push_back(if matches!(event, ReplicaEvent::Resynced(..)) {
                    ChangeEvent::Resynced(changed)
                } else {
                    ChangeEvent::Committed(changed)
                });
            }
        }
        drop(queued);
        self.changed.notify_one();
    }
}

impl QueuedEvents {
    /// Replaces all queued events by a snapshot that shows them, and the events that are being
    /// queued.
    fn replace_by_snapshot(&mut self, snapshot: &Snapshot, last: Option<Uuid>) {
        *self = Self { lagged: Some((snapshot.clone(), last)), ..Self::default() };
    }
}

/// A change of the replica, in all tables, with the id of the last transaction that it shows.
#[derive(Debug)]
pub(in crate::client) enum ReplicaEvent {
    Committed(ChangeSet, Option<Uuid>),
    Resynced(ChangeSet, Option<Uuid>),
    /// The previous rows cannot be compared, because the schema has changed, or their changes were
    /// not kept.
    Replaced,
}

/// The subscriptions to one client's replica.
#[derive(Debug, Default)]
pub(in crate::client) struct Subscribers {
    list: Mutex<SubscriberList>,
}

#[derive(Debug, Default)]
struct SubscriberList {
    queues: Vec<Weak<EventQueue>>,
    /// `true` once the client is closed; later subscriptions are closed from the beginning.
    closed: bool,
    /// Id of the last transaction that the published snapshot shows.
    transaction: Option<Uuid>,
}

impl Subscribers {
    /// Makes an empty list. `last`: id of the last transaction that the first snapshot shows.
    pub(in crate::client) fn new(last: Option<Uuid>) -> Self {
        let list = SubscriberList { transaction: last, ..SubscriberList::default() };
        Self { list: Mutex::new(list) }
    }

    /// Adds a subscription. `snapshot` returns the state from which its first event follows.
    pub(in crate::client) fn subscribe(
        &self,
        follow: FollowedTables,
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Subscription {
        let mut list = self.lock();
        let waiting = QueuedEvents { closed: list.closed, ..QueuedEvents::default() };
        let queue =
            Arc::new(EventQueue { follow, waiting: Mutex::new(waiting), changed: Notify::new() });
        list.queues.push(Arc::downgrade(&queue));
        Subscription { snapshot: snapshot(), queue, transaction: list.transaction }
    }

    /// Calls `publish`, which publishes the snapshot, and queues the events that led to it; `last`
    /// is the id of the last transaction that it shows. No subscription begins in between.
    pub(in crate::client) fn publish(
        &self,
        events: &[ReplicaEvent],
        snapshot: &Snapshot,
        last: Option<Uuid>,
        publish: impl FnOnce(),
    ) {
        let mut list = self.lock();
        publish();
        list.transaction = last;
        list.queues.retain(|queue| {
            let queue = queue.upgrade();
            if let Some(queue) = &queue {
                queue.push(events, snapshot, last);
            }
            queue.is_some()
        });
    }

    /// Closes all queues, because the client is closed.
    pub(in crate::client) fn close(&self) {
        let mut list = self.lock();
        list.closed = true;
        for queue in list.queues.drain(..).filter_map(|queue| queue.upgrade()) {
            queue.lock().closed = true;
            queue.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SubscriberList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.close();
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

    /// A database whose changes are published as a client's driver does.
    struct Scene {
        database: Database,
        subscribers: Subscribers,
    }

    impl Scene {
        fn new() -> Self {
            Self { database: Database::new(nb::schema()), subscribers: Subscribers::default() }
        }

        fn follow(&self, follow: FollowedTables) -> Subscription {
            self.subscribers.subscribe(follow, || self.database.snapshot())
        }

        fn commit(&mut self, change: impl FnOnce(&mut TxnBuilder)) {
            let mut txn = TxnBuilder::new(&self.database.snapshot());
            change(&mut txn);
            let changes = self.database.transact(txn.finish().operations()).unwrap();
            let snapshot = self.database.snapshot();
            self.subscribers.publish(
                &[ReplicaEvent::Committed(changes, None)],
                &snapshot,
                None,
                || {},
            );
        }
    }

    fn switch(name: &str) -> LogicalSwitch {
        LogicalSwitch { name: name.into(), ..Default::default() }
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
        let mut events = scene.follow(FollowedTables::table::<LogicalSwitch>());
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
        let inserted = Change::Inserted { row, new: a.clone() };
        assert_eq!(committed(&mut events).await, [inserted]);
        // The insert of a router is not reported.
        let modified = Change::Modified { row, old: a, new: b.clone() };
        assert_eq!(committed(&mut events).await, [modified]);
        let deleted = committed::<LogicalSwitch>(&mut events).await;
        assert_eq!((deleted[0].row(), deleted[0].now()), (row, None));
        assert_eq!(deleted, [Change::Deleted { row, old: b }]);
        assert_eq!(events.queued_rows(), 0);

        drop(scene);
        assert!(events.next().await.is_err());
    }

    #[tokio::test]
    async fn a_slow_reader_continues_from_a_snapshot() {
        let mut scene = Scene::new();
        let mut slow = scene.follow(FollowedTables::all().with_capacity(2));
        let mut quick = scene.follow(FollowedTables::all());
        for name in ["a", "b", "c", "d"] {
            scene.commit(|txn| {
                txn.insert(&switch(name)).unwrap();
            });
        }
        assert!(slow.queued_rows() <= 2);
        let ChangeEvent::Lagged(snapshot) = slow.next().await.unwrap() else {
            panic!("four rows do not fit into two")
        };
        // The third row exceeded the capacity; the fourth event follows from the snapshot.
        assert_eq!(snapshot.typed::<LogicalSwitch>().len(), 3);
        let fourth = committed::<LogicalSwitch>(&mut slow).await;
        assert_eq!(fourth[0].now(), Some(&switch("d")));

        for name in ["a", "b", "c", "d"] {
            let change = committed::<LogicalSwitch>(&mut quick).await;
            assert_eq!(change[0].now(), Some(&switch(name)));
        }
        // The queue of a dropped subscription is removed.
        drop((slow, quick));
        scene.commit(|txn| {
            txn.insert(&switch("e")).unwrap();
        });
        assert!(scene.subscribers.lock().queues.is_empty());
    }

    #[tokio::test]
    async fn a_lagged_snapshot_shows_all_events_published_with_it() {
        let mut scene = Scene::new();
        let mut events = scene.follow(FollowedTables::all().with_capacity(1));
        let published: Vec<ReplicaEvent> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let mut txn = TxnBuilder::new(&scene.database.snapshot());
                txn.insert(&switch(name)).unwrap();
                let changes = scene.database.transact(txn.finish().operations());
                ReplicaEvent::Committed(changes.unwrap(), None)
            })
            .collect();
        scene.subscribers.publish(&published, &scene.database.snapshot(), None, || {});
        let ChangeEvent::Lagged(snapshot) = events.next().await.unwrap() else {
            panic!("three rows do not fit into one")
        };
        assert_eq!(snapshot.row_count(), 3);
        assert_eq!(events.queued_rows(), 0);
    }
}
