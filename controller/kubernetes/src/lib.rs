//! Cluster manager and zone controller on a Kubernetes API: watches, leader election, writes and
//! events.
//!
//! ```text
//! watches -> stores -+-> cluster manager -> annotations, status, events  (the leader)
//!                    |         ^ zones' reports (ConfigMaps) and renewals (leases)
//!                    +-> zone controller -> Northbound transactions      (one process per zone)
//! ```
//!
//! Both controllers are level-triggered. A change wakes them; they wait until changes pause,
//! compare all objects with what they should be, and write the differences. A missed event, a
//! restart and an edit by others are the same case. Failed writes are retried forever, with growing
//! delays. A write that waits for its answer, such as one of a webhook that does not respond, goes on
//! beside later passes and delays no other object.
//!
//! # Watched kinds
//!
//! | kind | controller | kept fields |
//! |---|---|---|
//! | `ClusterNetworkConnect` | both | spec, status, two annotations |
//! | `NetworkAttachmentDefinition` | both | configuration, ids, labels, owner |
//! | `Namespace` | both | labels |
//! | `Node` | both | id, chassis and subnets |
//! | `ConfigMap`, with the label of zones | cluster manager | a zone's report |
//! | `Lease`, with the label of zones | cluster manager | the time of its renewal |
//! | `Service` | zone | protocols, if it has a cluster IP |
//! | `Pod`, with dynamic allocation of networks | zone | its node |
//! | `EgressIP`, with dynamic allocation of networks | zone | namespaces and nodes; optional kind |
//!
//! Without dynamic allocation every network counts as rendered on all nodes.
//!
//! Some kinds are not watched:
//!
//! * `UserDefinedNetwork` and `ClusterUserDefinedNetwork`: their own controller makes attachment
//!   definitions, and the routers and switches in the Northbound database. A network without its
//!   router is connected as soon as the router exists.
//! * `EndpointSlice`: the controller of services owns the load balancers.
//!
//! With [`ClusterManagerConfig::manages_networks`] and [`ZoneControllerConfig::networks`], the
//! networks themselves are written, too. These watches are separate, because they keep objects as
//! they are:
//!
//! | kind | controller |
//! |---|---|
//! | `Namespace`, `Node`, `NetworkAttachmentDefinition`, `Pod`, `EndpointSlice` | both |
//! | `UserDefinedNetwork`, `ClusterUserDefinedNetwork`, `ClusterNetworkConnect`, `IPAMClaim` | cluster manager |
//! | `RouteAdvertisements`, `VTEP`, with the feature of that name (`evpn`) | cluster manager |
//! | `EgressIP` with its feature, with dynamic allocation | cluster manager |
//! | `Service`, `NetworkPolicy`, `MultiNetworkPolicy`, `AdminNetworkPolicy`, `BaselineAdminNetworkPolicy` | zone |
//! | `EgressFirewall`, `EgressIP`, `RouteAdvertisements` | zone |
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
//! | cluster manager of networks | never; it waits while another process leads |
//! | zone controller of networks | when the Northbound client is closed |
//! | Northbound session of the engine's client | with its last handle |
//! | writer of the zone's report | with the zone controller |
//! | renewal of the zone's lease | with the zone controller |
//! | events about watches that fail | never |
//! | writer of events | with the last controller that emits events |
//!
//! [`run()`] fails if the zone controller or a task that never ends has ended, or a writer has
//! panicked. Dropping its future stops all tasks. Requests and transactions in progress are then
//! executed or not; the next process reconciles either case.

mod api;
mod api_error;
mod api_object;
mod client;
mod condition_events;
mod config;
mod connect_log;
mod connect_revision;
mod connected_networks;
mod credential_files;
mod debounce;
mod etcd_restores;
mod event_throttle;
mod events;
mod input_digest;
mod inventory;
mod kept_fields;
mod leader_election;
mod list_pages;
mod list_requests;
mod list_watch;
mod manager_connects;
mod manager_task;
mod networks;
mod node_subnets;
mod northbound_client;
mod northbound_reachability;
mod object_sink;
mod observed_zones;
mod other_managers;
mod read_failure;
mod read_failure_events;
mod readable_nodes;
mod report_publisher;
mod request_pool;
mod response_limit;
mod run;
mod store;
mod task_set;
mod tolerant_object;
mod watch_backoff;
mod watch_error;
mod watch_position;
mod watched_kinds;
mod write_error;
mod write_retries;
mod zone_connects;
mod zone_lease;
mod zone_liveness;
mod zone_reports;
mod zone_task;

pub use client::client;
pub use config::{
    ClusterManagerConfig, ControllerConfig, LeaseConfig, Timing, ZoneControllerConfig,
    ZoneLeaseTiming,
};
pub use inventory::{ListError, list_inventory};
pub use run::{RunError, run};
