//! What a cluster would keep in its objects, kept in a folder.
//!
//! A cluster keeps ids, subnets, keys and conditions in annotations and status of its objects. Manifests do not, so
//! [`StateFolder`] writes every such object into a file of its own after a run, and the next run reads them back and
//! [`restore`]s what the manifests do not say themselves:
//!
//! ```text
//! DIR/nodes/ovn-worker.yaml
//! DIR/network-attachment-definitions/blue_blue-network.yaml      (<namespace>_<name>; neither has a `_`)
//! DIR/userdefinednetworks/...   DIR/clusteruserdefinednetworks/...   DIR/clusternetworkconnects/...
//! ```
//!
//! Each file is replaced as a whole or not at all. Runs on one folder keep out of each other's way if they
//! [lock](StateFolder::try_lock) it.

mod folder;
mod lock;
mod restore;

pub use folder::{StateError, StateFolder};
pub use lock::StateLock;
pub use restore::restore;
