//! Nodes of real OVN in a folder: packets between pods, without Kubernetes and without root.
//!
//! ```text
//! node    NB, SB and Open vSwitch's database (this process), ovn-northd, ovs-vswitchd with its
//!         userspace datapath, ovn-controller
//! pod     a dummy device of the switch; a task of this process holds the other end of its wire
//! cable   tasks that hand Geneve packets from node to node
//! ```
//!
//! A lab proves with packets what rows only promise. `docs/lab.md` is its guide.
//!
//! ```no_run
//! use patchbay_reconcile::Cluster;
//! use patchbay_lab::{Lab, Protocol, Release, with_default_pods};
//!
//! # async fn check(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
//! let release = Release::find(Some("ovn/sid".as_ref()))?;
//! let cluster = with_default_pods(cluster)?;
//! let lab = Lab::start(release, &cluster).await?;
//! let (blue, green) = (lab.find_pod("blue-1")?, lab.find_pod("green-3")?);
//! let answer = lab.ask(&blue, &green, Protocol::Icmp, None).await?;
//! assert!(answer.verdict.is_reached(), "{}", answer.verdict);
//! # Ok(())
//! # }
//! ```

mod appctl;
mod check;
mod controls;
mod databases;
mod diagnosis;
mod folder;
mod gateways;
mod lab;
mod node;
mod outside;
mod outside_questions;
mod ovn_trace;
mod patience;
mod pods;
mod policies;
mod probes;
mod process;
mod provider_networks;
mod questions;
mod release;
mod report;
mod row_trace;
mod services;
mod switch_rows;
mod tunnel_port;
mod underlay;
mod wire;

pub use appctl::AppctlError;
pub use check::{CheckedQuestion, Promises, Question, QuestionsError, common_families};
pub use databases::{DatabaseError, DatabaseServer, ServerError};
pub use diagnosis::{Diagnosis, NodeTrace};
pub use folder::FolderError;
pub use gateways::GatewayPort;
pub use lab::{Lab, LabError};
pub use node::NodeError;
pub use outside_questions::{OutsideHost, OutsideHostError};
pub use ovn_trace::{OvnTrace, TraceEnd};
pub use patchbay_ovn_programs::Version;
pub use pods::{Pod, PodName, with_default_pods};
pub use probes::{Connection, ProbeReport, ProbeStream};
pub use process::ProgramError;
pub use questions::{Answer, Passage, Protocol, ProtocolError, QuestionError, Verdict};
pub use release::{Limit, PROGRAMS, Release, ReleaseError};
pub use report::CheckReport;
pub use row_trace::{AddressDiagnosis, AddressEnd, LabRows, Obstacle, RowDiagnosis, RowTrace};
pub use services::ServiceTarget;
pub use wire::cable::CableQuality;
pub use wire::open_questions::{WireFrame, WireLoss};
