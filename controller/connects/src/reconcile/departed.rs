//! Rows of networks that stand for nodes which are gone.

use std::collections::BTreeSet;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::TableRow;
use uuid::Uuid;

use super::holders::Holding;
use crate::index::Marks;

/// External ids by which switch ports, router ports and routes name the other node that they lead to.
const NODE_MARKS: [&str; 3] = ["node", "ic-node", "k8s.ovn.org/node"];

/// The rows of `T`'s table that a row holds, and that lead to a node which is not there any more.
///
/// OVN-Kubernetes removes them, too, whoever has made them: on the removal of a node and on every start.
pub(super) fn departed<'a, T: TableRow>(
    snapshot: &'a Snapshot,
    holder: &'a Row,
    holding: Holding,
    nodes: &'a BTreeSet<String>,
) -> impl Iterator<Item = Uuid> + use<'a, T> {
    let marks = Marks::of::<T>(snapshot.schema());
    let table = snapshot.schema().table_id(T::TABLE);
    let rows = holding
        .held(holder)
        .filter_map(move |row| snapshot.row(table?, row));
    rows.filter(move |row| {
        let mut named = NODE_MARKS
            .into_iter()
            .filter_map(|mark| marks.external_id(row, mark));
        named.any(|node| !nodes.contains(node))
    })
    .map(|row| row.uuid)
}
