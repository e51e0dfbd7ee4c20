//! The line of waiting transactions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::RandomState;
use std::ops::RangeBounds;

use patchbay_schemas::json::Json;
use patchbay_schemas::schema::TableId;

use crate::session::SessionId;

use super::Blocked;

/// Waiting transactions in order of arrival. Places are numbers that grow and are never given twice.
///
/// What a transaction waits for tells which ones a change concerns, so that a commit costs nothing for the others.
#[derive(Debug, Default)]
pub(in crate::hosted) struct Line {
    waiting: BTreeMap<u64, Blocked>,
    places: HashMap<SessionId, HashMap<Json, u64, RandomState>, RandomState>,
    by_table: BTreeMap<TableId, BTreeSet<u64>>,
    /// Those that any change may concern.
    by_any: BTreeSet<u64>,
    next: u64,
}

impl Line {
    /// Adds a transaction at the end.
    pub(super) fn join(&mut self, blocked: Blocked) {
        let place = self.next;
        self.next += 1;
        self.put_back(place, blocked);
    }

    /// Adds a transaction where it was.
    pub(super) fn put_back(&mut self, place: u64, blocked: Blocked) {
        self.places
            .entry(blocked.session.id())
            .or_default()
            .insert(blocked.id.clone(), place);
        match blocked.tables() {
            None => {
                self.by_any.insert(place);
            }
            Some(tables) => {
                for table in tables {
                    self.by_table.entry(table).or_default().insert(place);
                }
            }
        }
        self.waiting.insert(place, blocked);
    }

    /// How many transactions of a session wait.
    pub(super) fn count(&self, session: SessionId) -> usize {
        self.places.get(&session).map_or(0, HashMap::len)
    }

    /// Where a session's transaction stands.
    pub(super) fn place(&self, session: SessionId, id: &Json) -> Option<u64> {
        self.places.get(&session)?.get(id).copied()
    }

    /// Removes the transaction at a place.
    pub(super) fn leave(&mut self, place: u64) -> Option<Blocked> {
        let blocked = self.waiting.remove(&place)?;
        let session = blocked.session.id();
        if let Some(ids) = self.places.get_mut(&session) {
            ids.remove(&blocked.id);
            if ids.is_empty() {
                self.places.remove(&session);
            }
        }
        match blocked.tables() {
            None => {
                self.by_any.remove(&place);
            }
            Some(tables) => {
                for table in tables {
                    if let Some(places) = self.by_table.get_mut(&table) {
                        places.remove(&place);
                    }
                }
            }
        }
        Some(blocked)
    }

    /// Removes all transactions of a session.
    pub(in crate::hosted) fn leave_all(&mut self, session: SessionId) {
        let places = self.places.get(&session).into_iter().flatten();
        let places: Vec<u64> = places.map(|(_, place)| *place).collect();
        for place in places {
            self.leave(place);
        }
    }

    /// How many there are.
    pub(in crate::hosted) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The transactions in their order.
    pub(in crate::hosted) fn into_transactions(self) -> impl Iterator<Item = Blocked> {
        self.waiting.into_values()
    }

    /// The places, among these, of those that changes to a table concern.
    pub(super) fn waiting_for(
        &self,
        table: TableId,
        places: impl RangeBounds<u64> + Clone,
    ) -> impl Iterator<Item = u64> {
        let by_table = self.by_table.get(&table);
        let by_table = by_table.map(|all| all.range(places.clone()));
        let by_any = self.by_any.range(places);
        by_table.into_iter().flatten().chain(by_any).copied()
    }
}
