//! Monitors with equal requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use patchbay_engine::db::RowChange;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use uuid::Uuid;

use crate::outbox::SharedUpdates;
use crate::reply;
use crate::session::handle::SessionHandle;
use crate::session::id::SessionId;
use crate::update::{MonitorSpec, UpdateText, encode_changes};

use super::SessionMap;

/// Number of monitors of a group for each millisecond by which its updates are delayed in a stream
/// of changes. A write to one client costs several microseconds, so that writing takes a small
/// part of the server's time however many clients there are.
const MONITORS_PER_MILLISECOND: usize = 16;
/// Least number of monitors that share updates. For fewer it is not worth while.
const MIN_SHARING_MONITORS: usize = 8;
/// Number of monitors that few clients have in one session, but hostile ones may.
const MANY_MONITORS: usize = 16;
/// Number of rows in the updates of one session for a transaction, each row counted for each
/// monitor, from which they are collected instead and encoded one after the other.
const MANY_ROW_UPDATES: usize = 100_000;
/// Largest delay of updates in a stream of changes.
const MAX_UPDATE_DELAY: Duration = Duration::from_millis(8);

/// Session with monitors.
#[derive(Debug)]
pub(super) struct MonitoringSession {
    pub(super) handle: Arc<SessionHandle>,
    /// Memo of `Outbox::is_behind`: bits 1.. are the transaction it was asked for, bit 0 the
    /// answer.
    pub(super) behind: AtomicU64,
    /// Number of its monitors of the database.
    pub(super) monitors: AtomicUsize,
}

impl MonitoringSession {
    /// `true` if the session is a slow reader when a transaction of `rows` changed rows is published,
    /// or if its many monitors would get many updates at once. The answer is the same for all of
    /// them; otherwise some would report the transaction twice.
    fn is_behind(&self, transaction: u64, rows: usize) -> bool {
        let memo = self.behind.load(Ordering::Relaxed);
        if memo >> 1 == transaction {
            return memo & 1 == 1;
        }
        let monitors = self.monitors.load(Ordering::Relaxed);
        let is_much = monitors > MANY_MONITORS && monitors * rows > MANY_ROW_UPDATES;
        let is_behind = self.handle.outbox().is_behind() || is_much;
        let memo = transaction << 1 | u64::from(is_behind);
        self.behind.store(memo, Ordering::Relaxed);
        is_behind
    }
}

/// Monitors with equal requests.
#[derive(Debug)]
pub(super) struct MonitorGroup {
    pub(super) spec: Arc<MonitorSpec>,
    /// Members by number, in the order in which they joined.
    pub(super) members: BTreeMap<u64, GroupMember>,
    /// Updates in the outboxes of all members. `None`: the next update goes into each outbox.
    pub(super) shared: Option<Arc<SharedUpdates>>,
    /// Number of the change of monitors after which `is_uniform` was found.
    pub(super) revision: u64,
    /// `true` if the members can share updates: they are many, have one id, and are the only
    /// monitors of their sessions, none of which gets updates in another way.
    pub(super) is_uniform: bool,
}

#[derive(Debug)]
pub(super) struct GroupMember {
    pub(super) session: Arc<MonitoringSession>,
    /// The monitor's id.
    pub(super) id: Arc<Json>,
}

/// Sessions that are slow readers, by id.
type SlowReaders = Vec<(SessionId, Arc<MonitoringSession>)>;

impl MonitorGroup {
    pub(super) fn new(spec: Arc<MonitorSpec>) -> Self {
        Self { spec, members: BTreeMap::new(), shared: None, revision: 0, is_uniform: false }
    }

    /// Ends the sharing of updates if monitors have changed, and finds whether new ones can be
    /// shared.
    pub(super) fn follow(&mut self, revision: u64, sessions: &SessionMap) {
        if self.revision == revision {
            return;
        }
        self.revision = revision;
        self.shared = None;
        let mut members = self.members.values();
        let first = members.next().map(|member| &member.id);
        let is_alone = |member: &GroupMember| {
            let monitors = sessions.get(&member.session.handle.id());
            monitors.is_some_and(|monitors| monitors.places.len() == 1)
        };
        self.is_uniform = self.members.len() >= MIN_SHARING_MONITORS
            && self.members.values().all(is_alone)
            && members.all(|member| Some(&member.id) == first);
    }

    /// Sends the changes of a published transaction to all members, if any of them is reported.
    /// Returns the slow readers, which do not get it.
    pub(super) fn publish(
        &mut self,
        schema: &Arc<DatabaseSchema>,
        rows: &[&RowChange],
        id: Uuid,
        transaction: u64,
    ) -> SlowReaders {
        let Self { spec, members, .. } = self;
        let version = spec.version;
        let encode = || encode_changes(spec, schema, rows).map(Arc::new);
        let whole =
            |monitor: &Json, body: &UpdateText| reply::whole_update(monitor, version, id, body);
        let mut body = None;
        if let Some((shared, member)) = self.shared.as_ref().zip(members.values().next()) {
            let encoded = body.insert(encode());
            let is_added =
                |body: &UpdateText| body.is_whole() && shared.add(&whole(&member.id, body));
            if encoded.as_deref().is_none_or(is_added) {
                return SlowReaders::new();
            }
        }
        let (delay, mut behind) = (update_delay(members.len()), SlowReaders::new());
        // Most clients of one kind give their monitors one id, so they share its text.
        let mut of_id: Option<(&Arc<Json>, Arc<SharedUpdates>)> = None;
        for GroupMember { session, id: monitor } in members.values() {
            if session.is_behind(transaction, rows.len()) {
                behind.push((session.handle.id(), session.clone()));
                continue;
            }
            let Some(body) = body.get_or_insert_with(encode) else {
                break;
            };
            let outbox = session.handle.outbox();
            if body.is_whole() {
                let begin = || (monitor, SharedUpdates::new(whole(monitor, body)));
                let (id, shared) = of_id.get_or_insert_with(begin);
                if *id == monitor {
                    outbox.push_shared(shared, delay);
                    continue;
                }
            }
            let update = reply::update(monitor, version, id, body.clone());
            outbox.push_update(update, delay);
        }
        // A slow reader would miss the updates that are added.
        let shared = of_id.filter(|_| self.is_uniform && behind.is_empty());
        self.shared = shared.map(|(_, shared)| shared);
        behind
    }
}

/// Delay of the updates of a group in a stream of changes: a millisecond, and more if there are many
/// monitors.
fn update_delay(monitors: usize) -> Duration {
    let milliseconds = 1 + monitors / MONITORS_PER_MILLISECOND;
    Duration::from_millis(milliseconds as u64).min(MAX_UPDATE_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_the_monitors_up_to_a_limit() {
        let delays = [1, 15, 16, 50, 10_000].map(|monitors| update_delay(monitors).as_millis());
        assert_eq!(delays, [1, 1, 2, 4, 8]);
    }
}
