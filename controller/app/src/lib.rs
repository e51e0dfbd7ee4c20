//! From manifests to the Northbound databases of zones.
//!
//! ```text
//! manifests -> cluster (networks, ids, subnets, connects) -> zone (rows of each zone's database)
//! ```

mod cluster;
pub mod northbound;
mod warnings;
pub mod zone;

pub use cluster::{Cluster, load};
