//! Database contents as text, for comparison.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::Atom;

/// All rows, with names and external ids in the place of UUIDs.
pub(super) fn dump(snapshot: &Snapshot) -> Vec<String> {
    let schema = snapshot.schema();
    let mut names = BTreeMap::new();
    for table in schema.table_ids() {
        let columns = ["external_ids", "name"].map(|name| schema.table(table).column_id(name));
        for row in snapshot.table(table).iter() {
            let texts = columns.iter().flatten().map(|column| row.get(*column));
            let text: Vec<String> = texts.map(|datum| datum.to_string()).collect();
            names.insert(row.uuid, text.join(" "));
        }
    }
    let mut rows = Vec::new();
    for table in schema.table_ids() {
        let schema = schema.table(table);
        for row in snapshot.table(table).iter() {
            let columns = schema.column_ids().map(|column| {
                let datum = row.get(column);
                let mut atoms: Vec<String> = datum
                    .atoms()
                    .map(|atom| match atom {
                        Atom::Uuid(uuid) => format!("<{}>", names[uuid]),
                        other => other.to_string(),
                    })
                    .collect();
                if datum.as_set().is_some() {
                    atoms.sort();
                }
                atoms.join(",")
            });
            let columns: Vec<String> = columns.collect();
            rows.push(format!("{}: {}", schema.name, columns.join("|")));
        }
    }
    rows.sort();
    rows
}
