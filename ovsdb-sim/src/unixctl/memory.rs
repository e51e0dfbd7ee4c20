//! Usage of memory.

use crate::server::Server;

/// Output of `memory/show`, in ovsdb-server's terms. Atoms are the elements of values, two for a
/// pair of a map. Cells are values. Triggers are waiting transactions. The others are of
/// clusters: entries of their logs, transactions in their histories and atoms of these.
pub(super) fn show(server: &Server) -> String {
    let (mut atoms, mut cells, mut monitors, mut triggers) = (0, 0, 0, 0);
    let (mut log, mut history, mut history_atoms) = (0, 0, 0);
    for database in server.databases().all().values() {
        let snapshot = database.snapshot();
        for table in snapshot.schema().table_ids() {
            for row in snapshot.table(table).iter() {
                // Columns, _uuid and _version.
                cells += row.values.len() + 2;
                atoms += 2;
                atoms += row
                    .values
                    .iter()
                    .map(|value| value.atoms().count())
                    .sum::<usize>();
            }
        }
        let state = database.state();
        monitors += state.monitors.len();
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
        ("raft-log", log),
        ("sessions", server.session_count()),
        ("triggers", triggers),
        ("txn-history", history),
        ("txn-history-atoms", history_atoms),
    ];
    usage
        .iter()
        .filter(|(name, count)| *count > 0 || *name == "monitors")
        .map(|(name, count)| format!("{name}:{count}"))
        .collect::<Vec<_>>()
        .join(" ")
}
