//! Members of set columns that parts contribute one by one.
//!
//! A column is compared as a whole when its row is first seen. After that only the members that a
//! part has added or removed, or that have changed in the database, are compared: the *suspects*.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Set};
use patchbay_schemas::wire::Mutator;
use smallvec::SmallVec;
use uuid::Uuid;

use crate::index::{Index, RowKey};
use crate::parts::PartId;
use crate::steps::{Action, Step};
use crate::table::Phases;

/// A member that a part contributes to the row of an identity.
pub(crate) type Contribution = (RowKey, Atom);

/// A row with contributed members, and the part that wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) part: PartId,
    pub(crate) key: RowKey,
    /// `None`: the row is new.
    pub(crate) row: Option<Uuid>,
    pub(crate) phases: Phases,
    pub(crate) together: Option<u32>,
}

/// Contributed members by the identity of their row.
#[derive(Debug, Default)]
pub(crate) struct Members {
    columns: HashMap<RowKey, Column, RandomState>,
    /// Contributions of each part, sorted.
    contributions: HashMap<PartId, Box<[Contribution]>, RandomState>,
    /// Rows that each part wants.
    hosts: HashMap<PartId, SmallVec<[RowKey; 1]>, RandomState>,
    /// Identities of the rows that are there.
    rows: HashMap<Uuid, RowKey, RandomState>,
    /// Columns with suspects whose rows are wanted.
    outdated: BTreeSet<RowKey>,
}

/// Members of one row.
#[derive(Debug, Default)]
struct Column {
    /// Wanted members, and how many parts contribute them.
    wanted: HashMap<Atom, u32, RandomState>,
    host: Option<Host>,
    suspects: Suspects,
}

/// Members that may be missing or too many in the database.
#[derive(Debug, Default)]
enum Suspects {
    #[default]
    All,
    Some(BTreeSet<Atom>),
}

impl Column {
    fn add(&mut self, member: &Atom) {
        if let Some(count) = self.wanted.get_mut(member) {
            *count += 1;
        } else {
            self.wanted.insert(member.clone(), 1);
            self.suspect(member.clone());
        }
    }

    fn remove(&mut self, member: &Atom) {
        let Some(count) = self.wanted.get_mut(member) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.wanted.remove(member);
            self.suspect(member.clone());
        }
    }

    fn suspect(&mut self, member: Atom) {
        if let Suspects::Some(members) = &mut self.suspects {
            members.insert(member);
        }
    }

    fn has_suspects(&self) -> bool {
        match &self.suspects {
            Suspects::All => true,
            Suspects::Some(members) => !members.is_empty(),
        }
    }

    /// All wanted members.
    fn wanted(&self) -> Set {
        Set::from_vec(self.wanted.keys().cloned().collect())
    }

    /// Members that the column of a row lacks, and those that it should not have. They are the
    /// suspects from now on.
    fn compare(&mut self, have: &Set) -> (Vec<Atom>, Vec<Atom>) {
        let (mut gained, mut lost) = (Vec::new(), Vec::new());
        match &self.suspects {
            Suspects::All => {
                let missing = self.wanted.keys().filter(|member| !have.contains(member));
                gained.extend(missing.cloned());
                let unwanted = have.iter().filter(|member| !self.wanted.contains_key(member));
                lost.extend(unwanted.cloned());
            }
            Suspects::Some(members) => {
                for member in members {
                    match (self.wanted.contains_key(member), have.contains(member)) {
                        (true, false) => gained.push(member.clone()),
                        (false, true) => lost.push(member.clone()),
                        _ => {}
                    }
                }
            }
        }
        self.suspects = Suspects::Some(gained.iter().chain(&lost).cloned().collect());
        (gained, lost)
    }
}

impl Members {
    /// `true` if members may be missing or too many in rows.
    pub(crate) fn is_outdated(&self) -> bool {
        !self.outdated.is_empty()
    }

    /// Replaces what a part contributes.
    pub(crate) fn contribute(&mut self, part: PartId, mut members: Vec<Contribution>) {
        if members.is_empty() && self.contributions.is_empty() {
            return;
        }
        members.sort_unstable();
        members.dedup();
        let former = if members.is_empty() {
            self.contributions.remove(&part).unwrap_or_default()
        } else {
            let members = members.as_slice().into();
            let former = self.contributions.insert(part, members);
            former.unwrap_or_default()
        };
        for (key, member) in &members {
            if former.binary_search_by(|have| have.cmp(&(*key, member.clone()))).is_err() {
                self.change(*key, |column| column.add(member));
            }
        }
        for contribution in &former {
            if members.binary_search(contribution).is_err() {
                let (key, member) = contribution;
                self.change(*key, |column| column.remove(member));
            }
        }
    }

    /// Replaces the rows that a part wants.
    pub(crate) fn host(&mut self, part: PartId, hosts: &[Host]) {
        if hosts.is_empty() && self.hosts.is_empty() {
            return;
        }
        let keys: SmallVec<[RowKey; 1]> = hosts.iter().map(|host| host.key).collect();
        let former = if keys.is_empty() {
            self.hosts.remove(&part)
        } else {
            self.hosts.insert(part, keys.clone())
        };
        for key in former.into_iter().flatten() {
            if !keys.contains(&key) {
                self.leave(part, key);
            }
        }
        for host in hosts {
            let column = self.columns.entry(host.key).or_default();
            let former = column.host.replace(*host);
            let row = former.and_then(|former| former.row);
            if row.is_none() || row != host.row {
                column.suspects = Suspects::All;
                if let Some(row) = row.filter(|row| self.rows.get(row) == Some(&host.key)) {
                    self.rows.remove(&row);
                }
                self.rows.extend(host.row.map(|row| (row, host.key)));
            }
            if column.has_suspects() {
                self.outdated.insert(host.key);
            }
        }
    }

    /// Notes that members of a row have changed in the database.
    pub(crate) fn touch(&mut self, row: Uuid, members: Vec<Atom>) {
        let Some(key) = self.rows.get(&row).copied() else {
            return;
        };
        self.change(key, |column| {
            for member in members {
                column.suspect(member);
            }
        });
    }

    /// Puts the members into the new rows of a plan, and adds the steps that make those of other
    /// rows right.
    /// `keeps` returns `true` for a member that stays in a row of a part although no part
    /// contributes it.
    pub(crate) fn finish<P: Clone + Eq + Hash>(
        &mut self,
        index: &Index<P>,
        steps: &mut Vec<Step>,
        keeps: impl Fn(PartId, &Atom) -> bool,
    ) {
        let mut new = Vec::new();
        let columns = &mut self.columns;
        self.outdated.retain(|key| {
            let Some(column) = columns.get_mut(key) else {
                return false;
            };
            let Some(host) = column.host else {
                return false;
            };
            let Some(uuid) = host.row else {
                new.push(*key);
                return true;
            };
            let table = index.layout.table(key.table);
            let Some((members, row)) = table.members.zip(index.row(key.table, uuid)) else {
                return true;
            };
            let have = members.column.and_then(|column| row.values.get(column)?.as_set());
            let (gained, mut lost) = column.compare(have.unwrap_or(&Set::EMPTY));
            lost.retain(|member| !keeps(host.part, member));
            let places = [
                (Mutator::Insert, gained, (host.phases.change, host.together)),
                (Mutator::Delete, lost, (host.phases.go, None)),
            ];
            for (mutator, members, (phase, together)) in places {
                if members.is_empty() {
                    continue;
                }
                let action = Action::Mutate { table: key.table, row: uuid, mutator, members };
                steps.push(Step { phase, together, part: host.part, action });
            }
            column.has_suspects()
        });
        if new.is_empty() {
            return;
        }
        for step in steps {
            if let Action::Insert(row) = &mut step.action
                && let Some(key) = row.key.filter(|key| new.binary_search(key).is_ok())
                && let Some(column) = self.columns.get(&key)
                && let Some(members) = index.layout.table(key.table).members
            {
                row.data[members.place] = Datum::Set(column.wanted());
            }
        }
    }

    fn change(&mut self, key: RowKey, change: impl FnOnce(&mut Column)) {
        let column = self.columns.entry(key).or_default();
        change(column);
        if column.host.is_some() {
            if column.has_suspects() {
                self.outdated.insert(key);
            }
        } else if column.wanted.is_empty() {
            self.columns.remove(&key);
        }
    }

    /// Follows a part that does not want a row any more.
    fn leave(&mut self, part: PartId, key: RowKey) {
        let Some(column) = self.columns.get_mut(&key) else {
            return;
        };
        // Another part may want it by now.
        let Some(host) = column.host.take_if(|host| host.part == part) else {
            return;
        };
        if let Some(row) = host.row.filter(|row| self.rows.get(row) == Some(&key)) {
            self.rows.remove(&row);
        }
        column.suspects = Suspects::All;
        if column.wanted.is_empty() {
            self.columns.remove(&key);
        }
        self.outdated.remove(&key);
    }
}
