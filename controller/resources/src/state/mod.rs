//! State folder: allocations and status between runs on manifests.
//!
//! A cluster stores ids, subnets, tunnel keys and conditions in annotations and status of its
//! objects. Manifests do not contain them. After a run, [`StateFolder`] writes each such object
//! into a file. The next run reads the files, and [`restore`] adds annotations and status that the
//! manifests lack:
//!
//! ```text
//! DIR/nodes/ovn-worker.yaml
//! DIR/pods/...
//! DIR/ipamclaims/...
//! DIR/network-attachment-definitions/blue_blue-network.yaml
//! DIR/userdefinednetworks/...
//! DIR/clusteruserdefinednetworks/...
//! DIR/clusternetworkconnects/...
//! DIR/applied/ovn-worker.yaml              names of the objects applied in this zone
//! ```
//!
//! The folders are named by the plurals of the kinds, and the files `<name>.yaml` or
//! `<namespace>_<name>.yaml`. No name of an object contains `_`.
//!
//! Each file is replaced atomically. Runs that share a folder must
//! [lock](StateFolder::try_lock) it.

mod applied;
mod folder;
mod lock;
mod restore;

pub use folder::{StateError, StateFolder};
pub use lock::StateLock;
pub use restore::restore;
