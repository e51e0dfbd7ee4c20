//! Cluster manager and zone controller on a Kubernetes API: watches, leader election, writes and
//! events.
//!
//! ```text
//! watches -> stores -> inventory -+-> cluster manager -> annotations, status, events  (the leader)
//!                                 |         ^ zones' reports (ConfigMaps) and renewals (leases)
//!                                 +-> zone controller -> Northbound transactions      (one per zone)
//! ```
//!
//! Both controllers are level-triggered. A change wakes them; they wait until changes pause,
//! compare all objects with what they should be, and write the differences. A missed event, a
//! restart and an edit by others are the same case. Failed writes are retried forever, with growing
//! delays. A write that waits for its answer, such as one of a webhook that does not respond, goes on
//! beside later passes and delays no other object.
//!
//! A pass of the cluster manager computes networks first, if it manages them, and then connects. A
//! pass of the zone controller commits the rows of all capabilities, or those of connects only.
//!
//! # Watched kinds
//!
//! A process watches each kind once, in the order of `watch/watched_kinds.rs`.
//!
//! | kind | connects | with networks, also |
//! |---|---|---|
//! | `ClusterNetworkConnect`, `NetworkAttachmentDefinition`, `Namespace`, `Node` | both | |
//! | `Service` | zone | |
//! | `Pod`, with dynamic allocation of networks | zone | both, always |
//! | `EgressIP` with its feature, with dynamic allocation | zone | cluster manager; zone, always |
//! | `EndpointSlice` | | both |
//! | `UserDefinedNetwork`, `ClusterUserDefinedNetwork`, `IPAMClaim` | | cluster manager |
//! | `RouteAdvertisements` | | zone; cluster manager with the feature |
//! | `VTEP`, with the feature `evpn` | | cluster manager |
//! | `NetworkPolicy`, `MultiNetworkPolicy`, `AdminNetworkPolicy`, `BaselineAdminNetworkPolicy`, `EgressFirewall` | | zone |
//! | `ConfigMap` and `Lease`, with the label of zones | cluster manager | |
//!
//! A process that writes no networks keeps few fields: of namespaces the labels, of pods the node
//! and the requested networks, of nodes the ids and the packed subnets. The inventory then has the
//! subnets of connected networks only, and the pods that may use these. Objects that are not
//! written are kept without their resource version, so that heartbeats are no changes. Without
//! dynamic allocation every network counts as rendered on all nodes.
//!
//! Without networks, `UserDefinedNetwork` and `ClusterUserDefinedNetwork` are not watched: their own
//! controller makes attachment definitions, and the routers and switches in the Northbound database.
//! A network without its router is connected as soon as the router exists.
//!
//! No ClusterNetworkConnect gets a finalizer. A deleted ClusterNetworkConnect is recognised by its
//! absence.
//!
//! # Tasks
//!
//! | task | ends |
//! |---|---|
//! | one watch per kind | never |
//! | leader election: gets and renews the lease | on `stop`, after releasing the lease |
//! | cluster manager | never; it waits while another process leads |
//! | zone controller | when the Northbound client is closed |
//! | Northbound session of the engine's client | with its last handle |
//! | writer of the zone's report | with the zone controller |
//! | renewal of the zone's lease | with the zone controller |
//! | events about watches that fail, one task for each controller | never |
//! | writer of events | with the last controller that emits events |
//! | admin port, on a thread of its own | after all others |
//!
//! [`run()`] fails if the zone controller or a task that never ends has ended, or a writer has
//! panicked. Dropping its future stops all tasks. Requests and transactions in progress are then
//! executed or not; the next process reconciles either case.

mod admin;
mod api;
mod check;
mod config;
mod debounce;
mod election;
mod events;
mod inventory;
mod manager;
mod metrics;
mod reports;
mod run;
mod watch;
mod write;
mod zone;

pub use admin::{
    AdminAddress, AdminAddressError, AdminPort, AdminPortError, LogFilter, LogFilterError,
};
pub use api::client::client;
pub use check::{
    Check, CheckConfig, CheckGroup, ClusterChecks, Definition, Right, Verdict, check_cluster,
};
pub use config::{
    ClusterManagerConfig, ControllerConfig, LeaseConfig, Timing, ZoneControllerConfig,
    ZoneLeaseTiming,
};
pub use inventory::{ListError, ListedKinds, list_inventory};
pub use metrics::names::{Metric, MetricKind, all_metrics};
pub use metrics::recorder::RecorderError;
pub use run::{RunError, run};
