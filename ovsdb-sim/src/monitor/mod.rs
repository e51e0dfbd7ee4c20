//! Monitors: who watches what, and the updates that commits become.
//!
//! Monitors that ask for the same are one group. A commit is encoded once per group, and the text is
//! shared by all its members.

mod encode;
mod net_changes;

use std::collections::btree_map::Entry as BTreeEntry;
use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};
use uuid::Uuid;

use crate::reply;
use crate::session::{Session, SessionId};

pub(crate) use net_changes::NetChanges;

/// What a monitor asks for, in which version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub(crate) version: MonitorVersion,
    pub(crate) requests: MonitorRequests,
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
    /// Where each monitor is: its group, and its place there.
    places: HashMap<SessionId, HashMap<Json, (u64, u64), RandomState>, RandomState>,
    /// The number of the next group or member.
    next: u64,
}

#[derive(Debug)]
struct Group {
    spec: Arc<Spec>,
    /// In order of their joining.
    members: BTreeMap<u64, Member>,
}

#[derive(Debug)]
struct Member {
    session: Arc<Session>,
    id: Json,
}

impl Monitors {
    /// Begins a monitor: the result of the request, which the caller sends before it lets the next commit in. A client
    /// that knows the content up to some transaction gets the changes since then, if these are known.
    pub(crate) fn add(
        &mut self,
        session: &Arc<Session>,
        id: Json,
        spec: Spec,
        view: &View,
        since: Option<&NetChanges>,
    ) -> Vec<u8> {
        let schema = view.snapshot.schema();
        let content = match since {
            Some(changes) => encode::changes(&spec, schema, &changes.by_table())
                .unwrap_or_else(|| b"{}".to_vec()),
            None => encode::initial(&spec, schema, &view.snapshot),
        };
        let result = match spec.version {
            MonitorVersion::V3 => {
                let mut result = format!("[{},", since.is_some()).into_bytes();
                write_id(&mut result, view.last_id);
                result.push(b',');
                result.extend_from_slice(&content);
                result.push(b']');
                result
            }
            MonitorVersion::V1 | MonitorVersion::V2 => content,
        };
        self.join(
            spec,
            Member {
                session: session.clone(),
                id,
            },
        );
        result
    }

    fn join(&mut self, spec: Spec, member: Member) {
        let number = self.next;
        self.next += 1;
        let spec = Arc::new(spec);
        let group = *self.group_of.entry(spec.clone()).or_insert(number);
        self.places
            .entry(member.session.id())
            .or_default()
            .insert(member.id.clone(), (group, number));
        let group = self.groups.entry(group).or_insert_with(|| Group {
            spec,
            members: BTreeMap::new(),
        });
        group.members.insert(number, member);
    }

    /// Ends a monitor and returns what it asked for.
    pub(crate) fn remove(&mut self, session: SessionId, id: &Json) -> Option<Arc<Spec>> {
        let names = self.places.get_mut(&session)?;
        let place = names.remove(id)?;
        if names.is_empty() {
            self.places.remove(&session);
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
        for place in self
            .places
            .remove(&session)
            .unwrap_or_default()
            .into_values()
        {
            self.leave(place);
        }
    }

    /// Ends all monitors and tells whose they were.
    pub(crate) fn remove_all(&mut self) -> Vec<(Arc<Session>, Json)> {
        let groups = std::mem::take(self).groups.into_values();
        let members = groups.flat_map(|group| group.members.into_values());
        members.map(|member| (member.session, member.id)).collect()
    }

    /// How many monitors there are.
    pub(crate) fn len(&self) -> usize {
        self.places.values().map(HashMap::len).sum()
    }

    /// What a monitor asks for.
    pub(crate) fn spec(&self, session: SessionId, id: &Json) -> Option<&Spec> {
        let (group, _) = self.places.get(&session)?.get(id)?;
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
            send(session, &new_id, new.version, view.last_id, Arc::new(body));
        }
        self.join(
            new,
            Member {
                session: session.clone(),
                id: new_id,
            },
        );
    }

    /// Tells everybody what the transaction of this id changed.
    pub(crate) fn publish(&self, schema: &DatabaseSchema, changes: &ChangeSet, id: Uuid) {
        if self.groups.is_empty() {
            return;
        }
        let mut rows: Vec<&RowChange> = changes.rows.iter().collect();
        rows.sort_by_key(|change| change.table);
        for group in self.groups.values() {
            if let Some(body) = encode::changes(&group.spec, schema, &rows) {
                let body = Arc::new(body);
                for member in group.members.values() {
                    send(
                        &member.session,
                        &member.id,
                        group.spec.version,
                        id,
                        body.clone(),
                    );
                }
            }
        }
    }
}

fn send(session: &Session, id: &Json, version: MonitorVersion, last_id: Uuid, body: Arc<Vec<u8>>) {
    let update = reply::update(version.update_method(), body, |head| {
        id.write(head);
        if version == MonitorVersion::V3 {
            head.push(b',');
            write_id(head, last_id);
        }
    });
    session.outbox().push_update(update);
}

/// Appends a transaction's id.
fn write_id(out: &mut Vec<u8>, id: Uuid) {
    out.push(b'"');
    write_uuid(out, id);
    out.push(b'"');
}
