//! Monitors: who watches what, and the updates that commits become.
//!
//! Monitors that ask for the same are one group. A commit is encoded once per group, and the text is
//! shared by all its members. For those who are behind with reading, changes are collected instead.

mod encode;
mod initial;
mod net_changes;
mod pending;
mod update_text;

use std::collections::btree_map::Entry as BTreeEntry;
use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{MonitorRequests, MonitorTable, MonitorVersion, RowEvent};
use uuid::Uuid;

use crate::outbox::Chunk;
use crate::reply;
use crate::session::{Session, SessionId};

use initial::initial;

pub(crate) use net_changes::NetChanges;
pub(crate) use pending::PendingUpdates;
pub(crate) use update_text::UpdateText;

/// What a monitor asks for, in which version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub(crate) version: MonitorVersion,
    pub(crate) requests: MonitorRequests,
}

impl Spec {
    /// What a change of a row is to a monitor, and what it asks for of the row's table; none when it is nothing.
    fn event<'a>(&self, change: &'a RowChange) -> Option<(&MonitorTable, RowEvent<'a>)> {
        let request = self.requests.tables.get(&change.table)?;
        let event = request.event(change.old.as_deref(), change.new.as_deref())?;
        Some((request, event))
    }
}

/// A database as monitors see it: its content and the id of the transaction that led to it, nil where transactions
/// have none.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) snapshot: Snapshot,
    pub(crate) last_id: Uuid,
}

/// The monitors of one database.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    /// In order of their beginning.
    groups: BTreeMap<u64, Group>,
    /// The group of those who ask for the same.
    group_of: HashMap<Arc<Spec>, u64, RandomState>,
    subscribers: HashMap<SessionId, Subscriptions, RandomState>,
    /// The number of the next group or member.
    next: u64,
    /// How many transactions were published.
    published: u64,
}

/// What a session monitors.
#[derive(Debug)]
struct Subscriptions {
    subscriber: Arc<Subscriber>,
    /// Where each monitor is: its group, and its place there.
    places: HashMap<Json, (u64, u64), RandomState>,
}

/// A session with monitors.
#[derive(Debug)]
struct Subscriber {
    session: Arc<Session>,
    /// Whether it is behind, the lowest bit, as found for a transaction, the others.
    behind: AtomicU64,
}

impl Subscriber {
    /// Whether the session is behind when a transaction is published: the same for all its monitors, or some of them would
    /// hear of it twice.
    fn is_behind(&self, transaction: u64) -> bool {
        let known = self.behind.load(Ordering::Relaxed);
        if known >> 1 == transaction {
            return known & 1 == 1;
        }
        let is_behind = self.session.outbox().is_behind();
        let known = transaction << 1 | u64::from(is_behind);
        self.behind.store(known, Ordering::Relaxed);
        is_behind
    }
}

#[derive(Debug)]
struct Group {
    spec: Arc<Spec>,
    /// In order of their joining.
    members: BTreeMap<u64, Member>,
}

#[derive(Debug)]
struct Member {
    subscriber: Arc<Subscriber>,
    id: Json,
}

impl Monitors {
    /// Begins a monitor: the result of the request in pieces, which the caller sends before it lets the next commit in. A client
    /// that knows the content up to some transaction gets the changes since then, if these are known.
    pub(crate) fn add(
        &mut self,
        session: &Arc<Session>,
        id: Json,
        spec: Spec,
        view: &View,
        since: Option<&NetChanges>,
    ) -> Vec<Vec<u8>> {
        let spec = Arc::new(spec);
        let schema = view.snapshot.schema();
        let mut result = match since {
            Some(changes) => {
                let changes = encode::changes(&spec, schema, &changes.by_table());
                changes.map_or_else(|| vec![b"{}".to_vec()], UpdateText::into_pieces)
            }
            None => initial(&spec, schema, &view.snapshot),
        };
        if spec.version == MonitorVersion::V3 {
            let mut head = format!("[{},", since.is_some()).into_bytes();
            write_id(&mut head, view.last_id);
            head.push(b',');
            result.insert(0, head);
            result.push(b"]".to_vec());
        }
        self.join(session, id, spec);
        result
    }

    fn join(&mut self, session: &Arc<Session>, id: Json, spec: Arc<Spec>) {
        session.outbox().seal();
        let number = self.next;
        self.next += 1;
        let group = *self.group_of.entry(spec.clone()).or_insert(number);
        let subscriptions = self.subscribers.entry(session.id());
        let subscriptions = subscriptions.or_insert_with(|| Subscriptions {
            subscriber: Arc::new(Subscriber {
                session: session.clone(),
                behind: AtomicU64::new(0),
            }),
            places: HashMap::default(),
        });
        subscriptions.places.insert(id.clone(), (group, number));
        let subscriber = subscriptions.subscriber.clone();
        let group = self.groups.entry(group).or_insert_with(|| Group {
            spec,
            members: BTreeMap::new(),
        });
        group.members.insert(number, Member { subscriber, id });
    }

    /// Ends a monitor and returns what it asked for.
    pub(crate) fn remove(&mut self, session: SessionId, id: &Json) -> Option<Arc<Spec>> {
        let subscriptions = self.subscribers.get_mut(&session)?;
        let place = subscriptions.places.remove(id)?;
        subscriptions.subscriber.session.outbox().seal();
        if subscriptions.places.is_empty() {
            self.subscribers.remove(&session);
        }
        self.leave(place)
    }

    fn leave(&mut self, (group, place): (u64, u64)) -> Option<Arc<Spec>> {
        let BTreeEntry::Occupied(mut entry) = self.groups.entry(group) else {
            return None;
        };
        entry.get_mut().members.remove(&place);
        let spec = entry.get().spec.clone();
        if entry.get().members.is_empty() {
            entry.remove();
            self.group_of.remove(&spec);
        }
        Some(spec)
    }

    /// Ends all monitors of a session.
    pub(crate) fn remove_session(&mut self, session: SessionId) {
        let left = self.subscribers.remove(&session);
        for place in left.into_iter().flat_map(|left| left.places.into_values()) {
            self.leave(place);
        }
    }

    /// Ends all monitors and tells whose they were.
    pub(crate) fn remove_all(&mut self) -> Vec<(Arc<Session>, Json)> {
        let groups = std::mem::take(self).groups.into_values();
        let members = groups.flat_map(|group| group.members.into_values());
        let ended = members.map(|member| (member.subscriber.session.clone(), member.id));
        let ended: Vec<_> = ended.collect();
        for (session, _) in &ended {
            session.outbox().seal();
        }
        ended
    }

    /// How many monitors there are.
    pub(crate) fn len(&self) -> usize {
        let subscribers = self.subscribers.values();
        subscribers
            .map(|subscriptions| subscriptions.places.len())
            .sum()
    }

    /// What a monitor asks for.
    pub(crate) fn spec(&self, session: SessionId, id: &Json) -> Option<&Spec> {
        let (group, _) = self.subscribers.get(&session)?.places.get(id)?;
        Some(&self.groups.get(group)?.spec)
    }

    /// Replaces a monitor's name and conditions; the rows that come into view or leave it are sent under the new name.
    pub(crate) fn change(
        &mut self,
        session: &Arc<Session>,
        (old_id, new_id): (&Json, Json),
        new: Spec,
        view: &View,
    ) {
        let Some(old) = self.remove(session.id(), old_id) else {
            return;
        };
        let schema = view.snapshot.schema();
        if let Some(body) = encode::condition_change(&old, &new, schema, &view.snapshot) {
            let update = update(&new_id, new.version, view.last_id, Arc::new(body.into()));
            session.outbox().push(update);
        }
        self.join(session, new_id, Arc::new(new));
    }

    /// Tells everybody what the transaction of this id changed.
    pub(crate) fn publish(&mut self, schema: &Arc<DatabaseSchema>, changes: &ChangeSet, id: Uuid) {
        if self.groups.is_empty() {
            return;
        }
        self.published += 1;
        let mut rows: Vec<&RowChange> = changes.rows.iter().collect();
        rows.sort_by_key(|change| change.table);
        let mut behind = BTreeMap::new();
        for Group { spec, members } in self.groups.values() {
            let mut body = None;
            for Member {
                subscriber,
                id: name,
            } in members.values()
            {
                if subscriber.is_behind(self.published) {
                    behind.insert(subscriber.session.id(), subscriber);
                    continue;
                }
                let encode = || encode::changes(spec, schema, &rows).map(Arc::new);
                let Some(body) = body.get_or_insert_with(encode) else {
                    break;
                };
                let update = update(name, spec.version, id, body.clone());
                subscriber.session.outbox().push_update(update);
            }
        }
        for (session, subscriber) in behind {
            let monitors = self.monitored_by(session);
            let rows = pending::seen_by(&monitors, &rows);
            if !rows.is_empty() {
                let outbox = subscriber.session.outbox();
                outbox.collect(|pending| pending.add(schema, monitors, &rows, id));
            }
        }
    }

    /// What a session monitors.
    fn monitored_by(&self, session: SessionId) -> pending::Monitored {
        let places = self.subscribers.get(&session).map(|found| &found.places);
        let places = places.into_iter().flatten();
        places
            .filter_map(|(id, (group, _))| Some((id.clone(), self.groups.get(group)?.spec.clone())))
            .collect()
    }
}

fn update(id: &Json, version: MonitorVersion, last_id: Uuid, body: Arc<UpdateText>) -> [Chunk; 3] {
    reply::update(version.update_method(), body, |head| {
        id.write(head);
        if version == MonitorVersion::V3 {
            head.push(b',');
            write_id(head, last_id);
        }
    })
}

/// Appends a transaction's id.
fn write_id(out: &mut Vec<u8>, id: Uuid) {
    out.push(b'"');
    write_uuid(out, id);
    out.push(b'"');
}
