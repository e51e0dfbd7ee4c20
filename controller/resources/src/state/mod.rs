//! State folder: allocations and status between runs on manifests.
//!
//! A cluster stores ids, subnets, tunnel keys and conditions in annotations and status of its
//! objects. Manifests do not contain them. After a run, [`StateFolder`] writes each such object
//! into a file. The next run reads the files, and [`restore`] adds annotations and status that the
//! manifests lack:
//!
//! ```text
//! DIR/nodes/ovn-worker.yaml
//! DIR/network-attachment-definitions/blue_blue-network.yaml      (<namespace>_<name>, neither contains `_`)
//! DIR/userdefinednetworks/...   DIR/clusteruserdefinednetworks/...   DIR/clusternetworkconnects/...
//! ```
//!
//! Each file is replaced atomically. Runs that share a folder must
//! [lock](StateFolder::try_lock) it.

mod folder;
mod lock;
mod restore;

pub use folder::{StateError, StateFolder};
pub use lock::StateLock;
pub use restore::restore;
