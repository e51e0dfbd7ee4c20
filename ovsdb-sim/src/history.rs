//! History of a clustered database: the last transactions, from which returning clients get what
//! they missed.

use std::collections::VecDeque;

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use uuid::Uuid;

use crate::update::NetChanges;

/// Maximum number of transactions in the history, as in ovsdb-server.
const MAX_TRANSACTIONS: usize = 100;

/// Last transactions of a database, bounded as in ovsdb-server: at most a hundred, with at most as
/// many atoms in their rows as the database has. Beyond that, the full content is cheaper. The last
/// transaction always stays, because its id is the database's.
#[derive(Debug)]
pub(crate) struct History {
    /// In order of commit; never empty.
    transactions: VecDeque<PastTransaction>,
    /// Number of atoms in the transactions.
    atoms: u64,
    /// Number of atoms in the database.
    database_atoms: u64,
}

#[derive(Debug)]
struct PastTransaction {
    id: Uuid,
    changes: Vec<RowChange>,
    atoms: u64,
}

impl History {
    /// Makes a history whose only transaction is the content of `snapshot`.
    pub(crate) fn new(id: Uuid, snapshot: &Snapshot) -> Self {
        let mut history = Self { transactions: VecDeque::new(), atoms: 0, database_atoms: 0 };
        history.restart(id, snapshot);
        history
    }

    /// Replaces the history by one transaction with the content of `snapshot`, which does not
    /// follow from the transactions before.
    pub(crate) fn restart(&mut self, id: Uuid, snapshot: &Snapshot) {
        let tables = snapshot.schema().table_ids();
        let rows = tables.flat_map(|table| snapshot.table(table).iter());
        self.transactions.clear();
        self.atoms = 0;
        self.database_atoms = rows.map(|row| atoms(row)).sum();
        // No client can request the changes of the first transaction.
        self.push(id, Vec::new(), self.database_atoms);
    }

    /// Adds a commit, and removes the transactions beyond the bounds.
    pub(crate) fn record(&mut self, id: Uuid, changes: &ChangeSet) {
        let count = |row: &Option<_>| row.as_deref().map_or(0, atoms);
        let (mut old, mut new) = (0, 0);
        for change in &changes.rows {
            old += count(&change.old);
            new += count(&change.new);
        }
        self.database_atoms = (self.database_atoms + new).saturating_sub(old);
        self.push(id, changes.rows.clone(), old + new);
        while self.transactions.len() > 1
            && (self.transactions.len() > MAX_TRANSACTIONS || self.atoms > self.database_atoms)
        {
            self.remove_oldest();
        }
    }

    /// Removes all transactions but the last.
    pub(crate) fn truncate(&mut self) {
        while self.transactions.len() > 1 {
            self.remove_oldest();
        }
    }

    /// The id of the last transaction.
    pub(crate) fn last_id(&self) -> Uuid {
        self.transactions.back().map_or(Uuid::nil(), |last| last.id)
    }

    /// The number of transactions, and of the atoms in their rows.
    #[cfg(feature = "unixctl")]
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.transactions.len(), self.atoms)
    }

    /// The net changes after the transaction `id`. `None`: the history does not reach it.
    pub(crate) fn changes_since(&self, id: Uuid) -> Option<NetChanges> {
        let place = self.transactions.iter().position(|this| this.id == id)?;
        let mut net = NetChanges::default();
        for transaction in self.transactions.iter().skip(place + 1) {
            for change in &transaction.changes {
                net.add(change);
            }
        }
        Some(net)
    }

    fn push(&mut self, id: Uuid, changes: Vec<RowChange>, atoms: u64) {
        self.atoms += atoms;
        self.transactions.push_back(PastTransaction { id, changes, atoms });
    }

    fn remove_oldest(&mut self) {
        if let Some(oldest) = self.transactions.pop_front() {
            self.atoms -= oldest.atoms;
        }
    }
}

/// The number of atoms of a row, with its UUID and its version.
fn atoms(row: &Row) -> u64 {
    let atoms = |datum: &Datum| match datum {
        Datum::Set(set) => set.len(),
        Datum::Map(map) => 2 * map.len(),
    };
    2 + row.values.iter().map(atoms).sum::<usize>() as u64
}
