//! Logical routers of a snapshot by name.

use std::collections::HashMap;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::LogicalRouter;
use patchbay_schemas::typed::{TableRow, TypeError};
use uuid::Uuid;

/// Index of the routers of a snapshot, which the output of a zone looks up by the thousand.
pub(super) struct RoutersByName<'a> {
    snapshot: &'a Snapshot,
    /// UUIDs of the routers with each name, in the order of the table.
    uuids: HashMap<String, Vec<Uuid>>,
}

impl<'a> RoutersByName<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut uuids = HashMap::new();
        let schema = snapshot.schema().table_by_name(LogicalRouter::TABLE);
        if let Some(column) = schema.and_then(|(_, table)| table.column_id("name")) {
            for row in snapshot.typed::<LogicalRouter>().rows() {
                let datum = row.get(column);
                let name = datum.as_scalar().and_then(|name| name.as_str());
                let uuids = uuids.entry(name.unwrap_or_default().to_owned());
                uuids.or_insert_with(Vec::new).push(row.uuid);
            }
        }
        Self { snapshot, uuids }
    }

    /// The snapshot of the routers.
    pub(super) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Identity of the router with this name for `patchbay_nbctl_text`: its UUID, or the name if
    /// there is none or more than one.
    pub(super) fn id_of(&self, name: &str) -> String {
        match self.uuids.get(name).map(Vec::as_slice) {
            Some([uuid]) => uuid.to_string(),
            _ => name.to_owned(),
        }
    }

    /// The first router with this name. `None`: there is none.
    ///
    /// # Errors
    /// A column has a value that OVN does not define.
    pub(super) fn first(&self, name: &str) -> Result<Option<LogicalRouter>, TypeError> {
        let uuids = self.uuids.get(name).map_or(&[][..], Vec::as_slice);
        let Some(uuid) = uuids.first() else {
            return Ok(None);
        };
        self.snapshot.typed::<LogicalRouter>().get(*uuid)
    }
}
