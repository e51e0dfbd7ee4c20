//! Objects of a run, and their decoding from manifests in YAML or JSON.
//!
//! An [`Inventory`] holds every object by kind, with its origin and its position in the order of
//! the input. It does not depend on the source: [`read_manifests`] fills one from files,
//! [`ObservedObjects`] from an archive of a cluster, and `patchbay_kubernetes::inventory` from the
//! objects of a cluster.

mod admission;
mod decode;
mod field_lines;
mod files;
mod from_json;
mod inventory;
mod located;
mod manifest_object;
mod misspelled_kind;
mod observed;
mod problem;
mod words;
mod yaml;

#[cfg(test)]
mod kube_ovn_tests;
#[cfg(test)]
mod tests;

pub use field_lines::FieldLines;
pub use files::{
    DEFAULT_MAX_MANIFEST_BYTES, LoadError, manifest_files, read_manifests, read_manifests_within,
    read_state_files,
};
pub use from_json::{UnknownFields, from_json};
pub use inventory::{
    Inventory, InventoryKind, ObjectChange, ObjectKey, Objects, Origin, RefusedObject, Sourced,
    describe,
};
pub use observed::{ObservedObjects, decode_observed};
pub use problem::{Problem, SourceLocation};
