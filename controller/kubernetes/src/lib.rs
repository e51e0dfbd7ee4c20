//! Source and sink of a cluster: the Kubernetes API.
//!
//! ```text
//! watches -> stores -+-> cluster-wide half -> annotations, status        (one process of the cluster: the leader)
//!                    |          ^ what zones report
//!                    +-> zone half         -> Northbound transactions    (one process for each zone)
//!                    (the leader -> events)
//! ```
//!
//! Both halves are level-triggered: a change wakes them, they wait until it is quiet, look at everything there is, and
//! write what differs. A missed event, a restart and an edit by others are all the same case. What cannot be written is
//! tried again, for ever, after waits that grow to a limit.
//!
//! # What is watched
//!
//! | kind | half | kept of it |
//! |---|---|---|
//! | `ClusterNetworkConnect` | both | spec, status, two annotations |
//! | `NetworkAttachmentDefinition` | both | configuration, ids, labels, owner |
//! | Namespace | both | labels |
//! | Node | both | id, chassis and subnets; in the cluster-wide half the id |
//! | `ConfigMap`, those that zones write | cluster-wide | what a zone reports |
//! | Service | zone | protocols, if it has a cluster IP |
//! | Pod, with dynamic allocation of networks | zone | its node; otherwise every network counts as rendered on all nodes |
//! | `EgressIP`, with dynamic allocation of networks | zone | namespaces and nodes; the cluster may not have the kind |
//!
//! `UserDefinedNetwork`s and `ClusterUserDefinedNetwork`s are not: what counts of them is in the attachment definitions that
//! their own controller makes, as are the networks' routers and switches in the Northbound database. A router that is not
//! there yet is waited for. `EndpointSlice`s are not: load balancers belong to the controller of services. Nothing has a
//! finalizer: a connect that is gone is seen by its absence.
//!
//! # Tasks
//!
//! | task | ends when |
//! |---|---|
//! | a watch for each kind | never |
//! | elector: gets, renews and gives back the lease | it is told to stop, then the lease is given back |
//! | cluster-wide half | never; without the lease it waits |
//! | zone half | the Northbound client has ended |
//! | Northbound session, of the engine's client | its last handle is gone |
//! | reports of the zone half | it has ended |
//! | events | nobody can tell any more |
//!
//! If one of them but the last ends although it was not told to, [`run`] ends, and the process should. Dropping the future of [`run`]
//! stops all of them; what is under way in the API server or the database is completed there or not, and looked at again
//! by the next process.

mod activity;
mod api;
mod client;
mod cluster;
mod config;
mod egress_ips;
mod events;
mod failure;
mod inventory;
mod known;
mod lease;
mod news;
mod node_subnets;
mod objects;
mod pace;
mod publisher;
mod reach;
mod received;
mod reports;
mod revision;
mod run;
mod store;
mod verdicts;
mod watches;
mod writes;
mod zone;
mod zone_inputs;
mod zone_log;

pub use client::client;
pub use config::{ClusterHalf, Config, Lease, Timing, ZoneHalf};
pub use inventory::{ListError, inventory};
pub use run::{RunError, run};
