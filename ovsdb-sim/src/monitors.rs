//! Monitors of one database, and the updates that they get.
//!
//! Monitors with equal requests form a group. A commit is encoded once per group, and the text is
//! shared by the group's members. For slow readers, changes are collected instead.

mod group;

#[cfg(feature = "unixctl")]
use std::collections::HashSet;
use std::collections::btree_map::Entry as BTreeEntry;
use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
#[cfg(feature = "unixctl")]
use patchbay_schemas::wire::MonitorTable;
use patchbay_schemas::wire::MonitorVersion;
use uuid::Uuid;

use crate::reply;
use crate::session::handle::SessionHandle;
use crate::session::id::SessionId;
use crate::update::{
    MonitorSpec, NetChanges, UpdateText, encode_changes, encode_condition_change, encode_initial,
};

use group::{GroupMember, MonitorGroup, MonitoringSession};

/// Content of a database, as monitors report it.
#[derive(Debug)]
pub(crate) struct MonitorView {
    pub(crate) snapshot: Snapshot,
    /// Id of the last transaction. Nil in standalone databases.
    pub(crate) last_id: Uuid,
}

/// Monitors of one database.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    /// Groups by number, in the order in which they began.
    groups: BTreeMap<u64, MonitorGroup>,
    /// Numbers of the groups, by request.
    group_numbers: HashMap<Arc<MonitorSpec>, u64, RandomState>,
    sessions: SessionMap,
    /// Number of the next group or member.
    next_number: u64,
    /// Number of published transactions.
    published: u64,
    /// Number of changes of the monitors.
    revision: u64,
}

type SessionMap = HashMap<SessionId, SessionMonitors, RandomState>;

/// Monitors of one session.
#[derive(Debug)]
struct SessionMonitors {
    session: Arc<MonitoringSession>,
    /// Places of the monitors, by monitor id.
    places: HashMap<Arc<Json>, MonitorPlace, RandomState>,
}

/// Place of a monitor: its group, and its number in the group.
#[derive(Clone, Copy, Debug)]
struct MonitorPlace {
    group: u64,
    member: u64,
}

impl Monitors {
    /// Adds a monitor and returns the result of its request in pieces. The caller sends it before
    /// it lets the next commit in. A client that knows the content up to some transaction gets
    /// `since`, the changes after it.
    pub(crate) fn add(
        &mut self,
        session: &Arc<SessionHandle>,
        id: Arc<Json>,
        spec: MonitorSpec,
        view: &MonitorView,
        since: Option<&NetChanges>,
    ) -> Vec<Vec<u8>> {
        let spec = Arc::new(spec);
        let schema = view.snapshot.schema();
        let mut result = match since {
            Some(changes) => encode_changes(&spec, schema, &changes.by_table())
                .map_or_else(|| vec![b"{}".to_vec()], UpdateText::into_pieces),
            None => encode_initial(&spec, schema, &view.snapshot),
        };
        if spec.version == MonitorVersion::V3 {
            let mut head = format!("[{},", since.is_some()).into_bytes();
            reply::write_transaction_id(&mut head, view.last_id);
            head.push(b',');
            result.insert(0, head);
            result.push(b"]".to_vec());
        }
        self.join_group(session, id, spec);
        result
    }

    /// Adds a monitor to the group of its request.
    fn join_group(&mut self, session: &Arc<SessionHandle>, id: Arc<Json>, spec: Arc<MonitorSpec>) {
        session.outbox().seal();
        let number = self.next_number;
        self.next_number += 1;
        let group = *self.group_numbers.entry(spec.clone()).or_insert(number);
        let monitors = self.sessions.entry(session.id()).or_insert_with(|| SessionMonitors {
            session: Arc::new(MonitoringSession {
                handle: session.clone(),
                behind: AtomicU64::new(0),
                monitors: AtomicUsize::new(0),
            }),
            places: HashMap::default(),
        });
        let place = MonitorPlace { group, member: number };
        monitors.places.insert(id.clone(), place);
        let session = monitors.session.clone();
        session.monitors.store(monitors.places.len(), Ordering::Relaxed);
        self.revision += 1;
        let group = self.groups.entry(group).or_insert_with(|| MonitorGroup::new(spec));
        group.members.insert(number, GroupMember { session, id });
    }

    /// Removes a monitor and returns its request. `None`: there is no such monitor.
    pub(crate) fn remove(&mut self, session: SessionId, id: &Json) -> Option<Arc<MonitorSpec>> {
        let monitors = self.sessions.get_mut(&session)?;
        let place = monitors.places.remove(id)?;
        monitors.session.handle.outbox().seal();
        let left = monitors.places.len();
        monitors.session.monitors.store(left, Ordering::Relaxed);
        if monitors.places.is_empty() {
            self.sessions.remove(&session);
        }
        self.leave_group(place)
    }

    fn leave_group(&mut self, place: MonitorPlace) -> Option<Arc<MonitorSpec>> {
        self.revision += 1;
        let BTreeEntry::Occupied(mut entry) = self.groups.entry(place.group) else {
            return None;
        };
        entry.get_mut().members.remove(&place.member);
        let spec = entry.get().spec.clone();
        if entry.get().members.is_empty() {
            entry.remove();
            self.group_numbers.remove(&spec);
        }
        Some(spec)
    }

    /// Removes all monitors of a session.
    pub(crate) fn remove_session(&mut self, session: SessionId) {
        let removed = self.sessions.remove(&session);
        for place in removed.into_iter().flat_map(|monitors| monitors.places.into_values()) {
            self.leave_group(place);
        }
    }

    /// Removes all monitors and returns their sessions and ids.
    pub(crate) fn remove_all(&mut self) -> Vec<(Arc<SessionHandle>, Arc<Json>)> {
        let removed: Vec<_> = std::mem::take(self)
            .groups
            .into_values()
            .flat_map(|group| group.members.into_values())
            .map(|member| (member.session.handle.clone(), member.id))
            .collect();
        for (session, _) in &removed {
            session.outbox().seal();
        }
        removed
    }

    /// The number of different requests of monitors.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The number of monitors as ovsdb-server counts them: those of equal columns and kinds of
    /// changes are one, whatever their conditions and versions.
    #[cfg(feature = "unixctl")]
    pub(crate) fn shared_count(&self) -> usize {
        let columns = |table: &MonitorTable| {
            let mut columns = table.columns.clone();
            columns.sort_by_key(|(column, _)| *column);
            (columns, table.select)
        };
        let requests = self.groups.values().map(|group| {
            let tables = group.spec.requests.tables.iter().map(|(id, table)| (*id, columns(table)));
            tables.collect::<BTreeMap<_, _>>()
        });
        requests.collect::<HashSet<_>>().len()
    }

    /// The number of monitors.
    #[cfg(feature = "control-api")]
    pub(crate) fn len(&self) -> usize {
        self.sessions.values().map(|monitors| monitors.places.len()).sum()
    }

    /// The request of a monitor. `None`: there is no such monitor.
    pub(crate) fn spec(&self, session: SessionId, id: &Json) -> Option<&MonitorSpec> {
        let place = self.sessions.get(&session)?.places.get(id)?;
        Some(&self.groups.get(&place.group)?.spec)
    }

    /// Replaces a monitor's id and conditions. Rows that come into view or leave it are sent under
    /// the new id.
    pub(crate) fn change(
        &mut self,
        session: &Arc<SessionHandle>,
        (old_id, new_id): (&Json, Arc<Json>),
        new: MonitorSpec,
        view: &MonitorView,
    ) {
        let Some(old) = self.remove(session.id(), old_id) else {
            return;
        };
        let schema = view.snapshot.schema();
        if let Some(body) = encode_condition_change(&old, &new, schema, &view.snapshot) {
            let body = Arc::new(body.into());
            let update = reply::update(&new_id, new.version, view.last_id, body);
            session.outbox().push(update);
        }
        self.join_group(session, new_id, Arc::new(new));
    }

    /// Sends the changes of the transaction `id` to all monitors that report any of them.
    pub(crate) fn publish(&mut self, schema: &Arc<DatabaseSchema>, changes: &ChangeSet, id: Uuid) {
        if self.groups.is_empty() {
            return;
        }
        self.published += 1;
        let mut rows: Vec<&RowChange> = changes.rows.iter().collect();
        rows.sort_by_key(|change| change.table);
        let mut slow_readers = BTreeMap::new();
        for group in self.groups.values_mut() {
            group.follow(self.revision, &self.sessions);
            slow_readers.extend(group.publish(schema, &rows, id, self.published));
        }
        for (id_of_session, session) in slow_readers {
            let monitors = self.specs_of(id_of_session);
            let rows = reported_changes(&monitors, &rows);
            if !rows.is_empty() {
                let outbox = session.handle.outbox();
                outbox.collect(|collected| collected.add(schema, monitors, &rows, id));
            }
        }
    }

    /// The ids and requests of a session's monitors.
    fn specs_of(&self, session: SessionId) -> Vec<(Arc<Json>, Arc<MonitorSpec>)> {
        self.sessions
            .get(&session)
            .into_iter()
            .flat_map(|monitors| &monitors.places)
            .filter_map(|(id, place)| {
                Some((id.clone(), self.groups.get(&place.group)?.spec.clone()))
            })
            .collect()
    }
}

/// Selects the changes that at least one of the monitors reports.
fn reported_changes<'a>(
    monitors: &[(Arc<Json>, Arc<MonitorSpec>)],
    changes: &[&'a RowChange],
) -> Vec<&'a RowChange> {
    let is_reported =
        |change: &RowChange| monitors.iter().any(|(_, spec)| spec.event(change).is_some());
    changes.iter().copied().filter(|change| is_reported(change)).collect()
}
