//! Usage of memory.

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, RefType, TableSchema};

use crate::server::Server;

/// Output of `memory/show`, in ovsdb-server's terms. Atoms are the elements of values, two for a
/// pair of a map. Cells are values. Weak references are those to other rows. Triggers are waiting
/// transactions. The others are of clusters: entries of their logs, transactions in their histories
/// and atoms of these.
pub(super) fn show(server: &Server) -> String {
    let (mut atoms, mut cells, mut monitors, mut triggers) = (0, 0, 0, 0);
    let mut weak_references = 0;
    let (mut log, mut history, mut history_atoms) = (0, 0, 0);
    for database in server.databases().all().values() {
        let snapshot = database.snapshot();
        for table in snapshot.schema().table_ids() {
            let schema = snapshot.schema().table(table);
            for row in snapshot.table(table).iter() {
                weak_references += weak_reference_count(row, schema);
                // Columns, _uuid and _version.
                cells += row.values.len() + 2;
                atoms += 2;
                atoms += row.values.iter().map(|value| value.atoms().count()).sum::<usize>();
            }
        }
        let state = database.state();
        monitors += state.monitors.shared_count();
        if let Some(cluster) = state.cluster() {
            let position = cluster.position();
            log += (position.index + 1 - position.start) as usize;
            let (transactions, atoms) = cluster.history().size();
            history += transactions;
            history_atoms += atoms as usize;
        }
        drop(state);
        triggers += database.waiting_count();
    }
    let usage = [
        ("atoms", atoms),
        ("cells", cells),
        ("monitors", monitors),
        ("n-weak-refs", weak_references),
        ("raft-log", log),
        ("sessions", server.session_count()),
        ("triggers", triggers),
        ("txn-history", history),
        ("txn-history-atoms", history_atoms),
    ];
    usage
        .iter()
        .filter(|(name, count)| *count > 0 || ["monitors", "n-weak-refs"].contains(name))
        .map(|(name, count)| format!("{name}:{count}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The number of a row's weak references to other rows.
fn weak_reference_count(row: &Row, schema: &TableSchema) -> usize {
    let is_weak = |base: &BaseType| {
        let reference = base.reference();
        reference.is_some_and(|reference| reference.ref_type == RefType::Weak)
    };
    let columns = schema.column_ids().map(|column| {
        let ty = schema.column_type(column);
        let weak: Vec<bool> = ty.base_types().map(is_weak).collect();
        if !weak.contains(&true) {
            return 0;
        }
        let value = row.get(column);
        let atoms = value.atoms().zip(weak.iter().cycle());
        atoms.filter(|(atom, is_weak)| **is_weak && atom.as_uuid() != Some(row.uuid)).count()
    });
    columns.sum()
}
