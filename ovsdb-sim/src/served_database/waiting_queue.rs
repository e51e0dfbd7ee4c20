//! Queue of waiting transactions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::RandomState;
use std::ops::RangeBounds;
use std::sync::Arc;

use patchbay_schemas::json::Json;
use patchbay_schemas::schema::TableId;

use crate::session::id::SessionId;

use super::waiting::WaitingTransaction;

/// Waiting transactions in order of arrival. Places are increasing numbers, each used once.
///
/// Transactions are indexed by the tables that they wait for, so that a commit costs nothing for
/// the others.
#[derive(Debug, Default)]
pub(super) struct WaitingQueue {
    transactions: BTreeMap<u64, WaitingTransaction>,
    /// Places by session and request id.
    places: HashMap<SessionId, HashMap<Arc<Json>, u64, RandomState>, RandomState>,
    /// Places by table.
    by_table: BTreeMap<TableId, BTreeSet<u64>>,
    /// Places of transactions that are executed again after any change.
    by_any: BTreeSet<u64>,
    next_place: u64,
}

impl WaitingQueue {
    /// Adds a transaction at the end.
    pub(super) fn push(&mut self, waiting: WaitingTransaction) {
        let place = self.next_place;
        self.next_place += 1;
        self.put_back(place, waiting);
    }

    /// Puts a transaction back at its place.
    pub(super) fn put_back(&mut self, place: u64, waiting: WaitingTransaction) {
        self.places
            .entry(waiting.client.session.id())
            .or_default()
            .insert(waiting.client.id.clone(), place);
        match waiting.tables() {
            None => {
                self.by_any.insert(place);
            }
            Some(tables) => {
                for table in tables {
                    self.by_table.entry(table).or_default().insert(place);
                }
            }
        }
        self.transactions.insert(place, waiting);
    }

    /// The number of a session's transactions.
    pub(super) fn count(&self, session: SessionId) -> usize {
        self.places.get(&session).map_or(0, HashMap::len)
    }

    /// The place of a session's transaction.
    pub(super) fn place(&self, session: SessionId, id: &Json) -> Option<u64> {
        self.places.get(&session)?.get(id).copied()
    }

    /// Removes the transaction at a place.
    pub(super) fn remove(&mut self, place: u64) -> Option<WaitingTransaction> {
        let waiting = self.transactions.remove(&place)?;
        let session = waiting.client.session.id();
        if let Some(ids) = self.places.get_mut(&session) {
            ids.remove(&waiting.client.id);
            if ids.is_empty() {
                self.places.remove(&session);
            }
        }
        match waiting.tables() {
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
        Some(waiting)
    }

    /// Removes all transactions of a session.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let places: Vec<u64> =
            self.places.get(&session).into_iter().flat_map(HashMap::values).copied().collect();
        for place in places {
            if let Some(waiting) = self.remove(place) {
                waiting.client.free_id();
            }
        }
    }

    /// The number of transactions.
    pub(super) fn count_all(&self) -> usize {
        self.transactions.len()
    }

    /// The transactions in order of arrival.
    pub(super) fn into_transactions(self) -> impl Iterator<Item = WaitingTransaction> {
        self.transactions.into_values()
    }

    /// The places within a range whose transactions wait for changes to a table.
    pub(super) fn places_for(
        &self,
        table: TableId,
        places: impl RangeBounds<u64> + Clone,
    ) -> impl Iterator<Item = u64> {
        self.by_table
            .get(&table)
            .map(|all| all.range(places.clone()))
            .into_iter()
            .flatten()
            .chain(self.by_any.range(places))
            .copied()
    }
}
