//! Inventories for tests.

use patchbay_resources::manifests::{Inventory, read_manifests};

/// The inventory that this YAML gives.
pub(super) fn inventory(yaml: &str) -> Inventory {
    read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}
