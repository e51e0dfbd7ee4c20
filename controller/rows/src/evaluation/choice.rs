//! The row of the database that is to be a wanted one.

use patchbay_schemas::row::Row;

use super::{Current, Evaluation, Refused};
use crate::capability::Capability;
use crate::index::{Index, OwnRows, RowKey};
use crate::part_rows::WantedRow;
use crate::table::Owner;

impl<C: Capability> Evaluation<C> {
    /// Row of the part that is to be the wanted one: of several the one that is right already.
    pub(super) fn choose_in_part<'a>(
        &self,
        own: &OwnRows<'a>,
        wanted: &WantedRow,
        index: &Index<C::Part>,
    ) -> Option<&'a Row> {
        let table = index.layout.table(wanted.table);
        let id = table.wanted_external_id(&wanted.data);
        let candidates = own
            .iter()
            .filter(|own| own.owned.table == wanted.table && table.external_id(own.row) == id)
            .map(|own| own.row)
            .filter(|row| !self.kept.contains(&row.uuid));
        candidates.min_by_key(|row| (table.differs(row, &wanted.data), row.uuid))
    }

    /// Row of an identity that is to be the wanted one: of several the one that is right already.
    pub(super) fn choose<'a>(
        &self,
        current: &Current<'a, C::Part>,
        key: RowKey,
        wanted: &WantedRow,
        index: &'a Index<C::Part>,
    ) -> Result<Option<&'a Row>, Refused<C::Part>> {
        let own = current.own.find(key);
        if let Some(row) = own.filter(|row| !self.kept.contains(&row.uuid)) {
            return Ok(Some(row));
        }
        let table = index.layout.table(wanted.table);
        let values = || table.identity.values(&wanted.data);
        let mut is_taken = false;
        let mut candidates: Vec<&Row> = Vec::new();
        for row in index.find(key, values) {
            let is_same = table.identity.is_in_holder
                || index.layout.row_key(wanted.table, row) == Some(key.hash);
            if !is_same || self.kept.contains(&row.uuid) {
                continue;
            }
            let is_own = current.own.contains((wanted.table, row.uuid));
            if !is_own && matches!(index.owner(wanted.table, row), Owner::Other) {
                is_taken = true;
            } else {
                candidates.push(row);
            }
        }
        let chosen = match *candidates {
            [row] => Some(row),
            _ => candidates
                .into_iter()
                .min_by_key(|row| (table.differs(row, &wanted.data), row.uuid)),
        };
        if chosen.is_none() && is_taken && !table.identity.is_in_holder {
            return Err(Refused { table: table.name, first: None });
        }
        Ok(chosen)
    }
}
