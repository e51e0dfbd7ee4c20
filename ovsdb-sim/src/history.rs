//! The transactions that a clustered database remembers, so that clients that come back get what they missed.

use std::collections::VecDeque;

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::uuids::UuidSource;
use uuid::Uuid;

use crate::monitor::NetChanges;

/// How many transactions are remembered at most.
const MAX_TRANSACTIONS: usize = 100;
/// The RAFT log of a new cluster: its first content and the election of its leader.
const FIRST_INDEX: u64 = 2;

/// The latest transactions, bounded as in ovsdb-server: at most a hundred, and at most as many atoms in their rows as
/// the database holds, beyond which everything anew is cheaper. The last one always stays, whose id is the database's.
#[derive(Debug)]
pub(crate) struct History {
    ids: UuidSource,
    /// The oldest first; never empty.
    transactions: VecDeque<Transaction>,
    /// Atoms in the transactions.
    atoms: u64,
    /// Atoms in the database.
    database_atoms: u64,
    /// The number of the last entry of the RAFT log.
    index: u64,
}

#[derive(Debug)]
struct Transaction {
    id: Uuid,
    changes: Vec<RowChange>,
    atoms: u64,
}

impl History {
    /// Begins with a database's content, as one transaction.
    pub(crate) fn new(ids: UuidSource, snapshot: &Snapshot) -> Self {
        let mut history = Self {
            ids,
            transactions: VecDeque::new(),
            atoms: 0,
            database_atoms: 0,
            index: FIRST_INDEX - 1,
        };
        history.restart(snapshot);
        history
    }

    /// Begins anew, with a content that nothing before leads to.
    pub(crate) fn restart(&mut self, snapshot: &Snapshot) {
        let tables = snapshot.schema().table_ids();
        let rows = tables.flat_map(|table| snapshot.table(table).iter());
        self.transactions.clear();
        self.atoms = 0;
        self.database_atoms = rows.map(|row| atoms(row)).sum();
        // Nobody can ask for the changes of the first transaction.
        self.push(Vec::new(), self.database_atoms);
    }

    /// Remembers a commit and forgets what is too old.
    pub(crate) fn record(&mut self, changes: &ChangeSet) {
        let count = |row: &Option<_>| row.as_deref().map_or(0, atoms);
        let (mut old, mut new) = (0, 0);
        for change in &changes.rows {
            old += count(&change.old);
            new += count(&change.new);
        }
        self.database_atoms = (self.database_atoms + new).saturating_sub(old);
        self.push(changes.rows.clone(), old + new);
        while self.transactions.len() > 1
            && (self.transactions.len() > MAX_TRANSACTIONS || self.atoms > self.database_atoms)
        {
            self.forget_oldest();
        }
    }

    /// Forgets all but the last transaction.
    pub(crate) fn truncate(&mut self) {
        while self.transactions.len() > 1 {
            self.forget_oldest();
        }
    }

    /// The RAFT log gets an entry without a transaction: a leader is elected.
    pub(crate) fn elect(&mut self) {
        self.index += 1;
    }

    /// The id of the last transaction.
    pub(crate) fn last_id(&self) -> Uuid {
        self.transactions.back().map_or(Uuid::nil(), |last| last.id)
    }

    /// The number of the last entry of the RAFT log.
    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// What changed after a transaction; none when it is not remembered.
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

    fn push(&mut self, changes: Vec<RowChange>, atoms: u64) {
        self.index += 1;
        self.atoms += atoms;
        let id = self.ids.next_uuid();
        self.transactions
            .push_back(Transaction { id, changes, atoms });
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.transactions.pop_front() {
            self.atoms -= oldest.atoms;
        }
    }
}

/// How many atoms a row holds, its UUID and its version included.
fn atoms(row: &Row) -> u64 {
    let atoms = |datum: &Datum| match datum {
        Datum::Set(set) => set.len(),
        Datum::Map(map) => 2 * map.len(),
    };
    2 + row.values.iter().map(atoms).sum::<usize>() as u64
}
