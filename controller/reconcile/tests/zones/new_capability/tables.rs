//! Table of the capability: a row of `DNS` belongs to the namespace that its external id names.

use patchbay_rows::{Identity, Layout, Owner, RowView, Table};
use patchbay_schemas::nb::Dns;

use super::capability::Part;

/// External id with the name of the namespace.
pub(super) const NAMESPACE: &str = "namespace";

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) records: Table<Dns>,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        Self { records: layout.table(Identity::ExternalId(NAMESPACE)).owned_by(owner).declare() }
    }
}

fn owner(row: &RowView<'_>) -> Owner<Part> {
    let namespace = row.external_id(NAMESPACE);
    namespace.map_or(Owner::Unowned, |name| Owner::Part(Part(name.into())))
}
