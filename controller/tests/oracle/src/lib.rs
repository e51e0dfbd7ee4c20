//! Patchbay's rows and answers, compared with OVN's own programs.
//!
//! ```text
//! rows ──> Northd        the real ovn-northd: a Southbound database, and warnings in its log
//!      ├─> TraceServer   the real ovn-trace: where a packet goes
//!      └─> patchbay_reach, whose answers `compare` counts
//! ```
//!
//! Only tests and the benchmark `comparison` use this package. Questions are those of
//! [`patchbay_reach`], and random ones come from a seed, so that a difference can be asked again.

mod arp;
mod cluster_text;
mod compare;
mod deciding;
mod flows;
mod free_topology;
mod headers;
mod json_rpc;
mod neighbor;
mod neutron;
mod northd;
mod outcome;
mod ovn;
mod questions;
mod random;
mod recorded;
mod spoiled;
mod trace_server;
mod vpc_text;
mod vpcs;
mod wiring;
mod zone;

pub use arp::ArpRequest;
pub use cluster_text::ClusterText;
pub use compare::{Asked, Tally, TracedPacket, compare};
pub use free_topology::{Rows, map, references, set};
pub use northd::Northd;
pub use outcome::{MacRequest, TraceOutcome};
pub use ovn::{LearnedNeighbor, Ovn, add_chassis, read_northbound, start_server};
pub use questions::{ask_clouds, ask_clusters, ask_free_topologies, ask_recorded};
pub use random::Random;
pub use recorded::RecordedState;
pub use spoiled::ask_spoiled;
pub use trace_server::TraceServer;
pub use vpc_text::{ForeignRow, TenantText, VpcText};
pub use vpcs::{ExternalOwners, ask_vpcs};
pub use wiring::{Frame, Wiring};
pub use zone::{read_cluster, write_zone};
