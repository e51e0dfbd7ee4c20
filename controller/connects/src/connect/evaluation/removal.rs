//! Removal of rows and references that no evaluated part needs.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::Evaluation;
use crate::index::{ColumnHolders, TableKind};
use crate::reconcile::{Action, Phase};

impl<'a> Evaluation<'a, '_> {
    /// Plans the removal of all rows of the connect.
    pub(in crate::connect) fn remove_all(&mut self) {
        let owned = self.context.index.owned(self.name);
        self.rest
            .extend(owned.map(|row| (row.part, row.kind, row.uuid)));
        self.remove_stale();
    }

    /// Removes the references to a row from all switches but the wanted ones.
    pub(super) fn detach_others(
        &mut self,
        kind: TableKind,
        row: Uuid,
        wanted: &BTreeSet<Uuid>,
        phase: Phase,
    ) {
        let index = self.context.index;
        let holders = match kind {
            TableKind::Group => &index.groups,
            _ => &index.acls,
        };
        for holder in holders.of(row).filter(|holder| !wanted.contains(holder)) {
            if let Some(holder) = index.get(TableKind::Switch, holder) {
                let held = kind;
                self.step(phase, None, Action::Leave { held, holder, row });
            }
        }
    }

    /// Plans the removal of rows that match no wanted row.
    pub(super) fn remove_stale(&mut self) {
        let index = self.context.index;
        for (part, kind, row) in std::mem::take(&mut self.rest) {
            if self.kept.contains(&row) {
                continue;
            }
            self.part = part;
            let (phase, holders) = match kind {
                TableKind::Policy => (Phase::Disconnect, Some(&index.policies)),
                TableKind::Port => (Phase::Unlink, Some(&index.ports)),
                TableKind::Route => (Phase::Unlink, Some(&index.routes)),
                TableKind::Acl => (Phase::Release, Some(&index.acls)),
                TableKind::Group => (Phase::Disconnect, Some(&index.groups)),
                TableKind::Router => (Phase::Dissolve, None),
                _ => (Phase::Release, None),
            };
            self.remove(kind, row, phase, holders);
        }
    }

    fn remove(
        &mut self,
        kind: TableKind,
        row: Uuid,
        phase: Phase,
        holders: Option<&'a ColumnHolders>,
    ) {
        let held_in = match kind {
            TableKind::Acl | TableKind::Group => TableKind::Switch,
            _ => TableKind::Router,
        };
        for holder in holders.into_iter().flat_map(|holders| holders.of(row)) {
            if let Some(holder) = self.context.index.get(held_in, holder) {
                let held = kind;
                self.step(phase, None, Action::Leave { held, holder, row });
            }
        }
        if matches!(
            kind,
            TableKind::Router | TableKind::AddressSet | TableKind::Group
        ) {
            self.step(phase, None, Action::Delete { kind, row });
        }
    }
}
