//! The application service: from manifests to the Northbound databases of zones.
//!
//! ```text
//! manifests -> Cluster (networks, ids, subnets, connects) -> ZoneReconciler (one zone's database)
//! ```
//!
//! [`Cluster`] completes the objects as the managers of a cluster would: it allocates ids, subnets
//! and tunnel keys and writes annotations and status. [`zone::ZoneReconciler`] makes the rows of
//! one zone's database what these objects define, through a handle of [`northbound`].
//!
//! ```
//! use std::path::Path;
//!
//! use jiff::Timestamp;
//! use patchbay_reconcile::Cluster;
//! use patchbay_reconcile::northbound::{Embedded, Northbound as _};
//! use patchbay_reconcile::zone::ZoneReconciler;
//! use patchbay_model::ClusterSettings;
//! use patchbay_resources::object::Time;
//! use patchbay_schemas::nb::LogicalRouter;
//! use patchbay_schemas::uuids::UuidSource;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blue-green");
//! let cluster = Cluster::from_manifests(
//!     &[folder],
//!     &mut std::io::empty(),
//!     None,
//!     ClusterSettings::default(),
//!     Time(Timestamp::now()),
//! )?;
//! let mut zone =
//!     ZoneReconciler::new("ovn-worker2", Embedded::new(0)?, UuidSource::seeded(0));
//! let outcome = zone.reconcile(&cluster).await?;
//! assert_eq!(outcome.reports["blue-green-connect"].connected.len(), 2);
//!
//! let snapshot = zone.northbound().snapshot();
//! let routers = snapshot.typed::<LogicalRouter>();
//! assert!(routers.iter().any(|router| {
//!     router.is_ok_and(|(_, router)| router.name == "connect_router_blue-green-connect")
//! }));
//! # Ok(())
//! # }
//! ```

pub mod activity;
mod central;
mod cluster;
mod connects;
mod default_pods;
mod equal_keys;
mod ignored;
pub mod northbound;
mod object_names;
mod pods;
mod range_warnings;
mod refused;
mod warnings;
pub mod zone;
mod zone_inputs;

pub use cluster::{Cluster, load};
