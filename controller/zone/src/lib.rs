//! Objects that the rows of one zone follow from, kept once for all capabilities.
//!
//! [`ZoneObjects`] has a persistent map for each kind of object, and indexes that follow the maps.
//! It is the `Inputs` of the capabilities on the row engine (`patchbay-rows`), and [`Cell`] names
//! the pieces that can change on their own. See `docs/design/objects.md`.

mod cell;
mod namespace;
mod node;
mod objects;
mod pods;
mod serving;

pub use cell::{Cell, Kind};
pub use namespace::ZoneNamespace;
pub use node::ZoneNode;
pub use objects::ZoneObjects;
pub use pods::MachineKey;
pub use serving::{ServedPod, Server, UsableEgressIp};
