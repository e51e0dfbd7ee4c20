//! Where objects come from.
//!
//! A source fills an [`Inventory`]: every object by kind, with its origin and its place in the order in which
//! objects were given. Everything after works on inventories and does not know the source. [`read_manifests`]
//! is the one for YAML and JSON files; [`list_inventory`](patchbay_kubernetes::list_inventory()) lists the objects of a cluster.

mod decode;
mod files;
mod inventory;
mod kinds;
mod problem;
mod raw;
mod yaml;

#[cfg(test)]
mod tests;

pub use decode::from_json;
pub use files::{LoadError, read_manifests};
pub use files::{manifest_files, read_state_files};
pub use inventory::{Inventory, Kind, ObjectKey, Objects, Origin, Sourced, describe};
pub use problem::{Place, Problem};
