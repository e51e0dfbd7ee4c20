//! Monitors: who watches what, and the updates that commits become.
//!
//! Monitors that ask for the same are one group. A commit is encoded once per group, and the text is
//! shared by all its members.

mod encode;

use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};

use crate::reply;
use crate::session::{Session, SessionId};

/// The transaction id of a database without history.
const NO_TRANSACTION: &[u8] = b"\"00000000-0000-0000-0000-000000000000\"";

/// What a monitor asks for, in which version of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) version: MonitorVersion,
    pub(crate) requests: MonitorRequests,
}

/// The monitors of one database.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    spec: Spec,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    session: Arc<Session>,
    id: Json,
}

impl Monitors {
    /// Begins a monitor: the result of the request, which the caller sends before it lets the next commit in.
    pub(crate) fn add(
        &mut self,
        session: &Arc<Session>,
        id: Json,
        spec: Spec,
        schema: &DatabaseSchema,
        snapshot: &Snapshot,
    ) -> Vec<u8> {
        let initial = encode::initial(&spec, schema, snapshot);
        let result = match spec.version {
            MonitorVersion::V3 => [b"[false,", NO_TRANSACTION, b",", &initial[..], b"]"].concat(),
            MonitorVersion::V1 | MonitorVersion::V2 => initial,
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
        match self.groups.iter_mut().find(|group| group.spec == spec) {
            Some(group) => group.members.push(member),
            None => self.groups.push(Group {
                spec,
                members: vec![member],
            }),
        }
    }

    /// Ends a monitor and returns what it asked for.
    pub(crate) fn remove(&mut self, session: SessionId, id: &Json) -> Option<Spec> {
        let mut found = None;
        for group in &mut self.groups {
            let before = group.members.len();
            group
                .members
                .retain(|member| member.session.id() != session || member.id != *id);
            if group.members.len() < before {
                found = Some(group.spec.clone());
            }
        }
        self.groups.retain(|group| !group.members.is_empty());
        found
    }

    /// Ends all monitors of a session.
    pub(crate) fn remove_session(&mut self, session: SessionId) {
        for group in &mut self.groups {
            group
                .members
                .retain(|member| member.session.id() != session);
        }
        self.groups.retain(|group| !group.members.is_empty());
    }

    /// Ends all monitors and tells whose they were.
    pub(crate) fn remove_all(&mut self) -> Vec<(Arc<Session>, Json)> {
        let groups = std::mem::take(&mut self.groups).into_iter();
        let members = groups.flat_map(|group| group.members);
        members.map(|member| (member.session, member.id)).collect()
    }

    /// How many monitors there are.
    pub(crate) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }

    /// What a monitor asks for.
    pub(crate) fn spec(&self, session: SessionId, id: &Json) -> Option<&Spec> {
        let is_it = |member: &Member| member.session.id() == session && member.id == *id;
        Some(
            &self
                .groups
                .iter()
                .find(|group| group.members.iter().any(is_it))?
                .spec,
        )
    }

    /// Replaces a monitor's name and conditions; the rows that come into view or leave it are sent under the new name.
    pub(crate) fn change(
        &mut self,
        session: &Arc<Session>,
        (old_id, new_id): (&Json, Json),
        new: Spec,
        schema: &DatabaseSchema,
        snapshot: &Snapshot,
    ) {
        let Some(old) = self.remove(session.id(), old_id) else {
            return;
        };
        if let Some(body) = encode::condition_change(&old, &new, schema, snapshot) {
            send(session, &new_id, new.version, Arc::new(body));
        }
        self.join(
            new,
            Member {
                session: session.clone(),
                id: new_id,
            },
        );
    }

    /// Tells everybody what a transaction changed.
    pub(crate) fn publish(&self, schema: &DatabaseSchema, changes: &ChangeSet) {
        if self.groups.is_empty() {
            return;
        }
        let mut rows: Vec<&RowChange> = changes.rows.iter().collect();
        rows.sort_by_key(|change| change.table);
        for group in &self.groups {
            if let Some(body) = encode::changes(&group.spec, schema, &rows) {
                let body = Arc::new(body);
                for member in &group.members {
                    send(
                        &member.session,
                        &member.id,
                        group.spec.version,
                        body.clone(),
                    );
                }
            }
        }
    }
}

fn send(session: &Session, id: &Json, version: MonitorVersion, body: Arc<Vec<u8>>) {
    let mut id_text = Vec::new();
    id.write(&mut id_text);
    let head: &[&[u8]] = match version {
        MonitorVersion::V3 => &[&id_text, NO_TRANSACTION],
        MonitorVersion::V1 | MonitorVersion::V2 => &[&id_text],
    };
    session
        .outbox()
        .push(reply::update(version.update_method(), head, body));
}
