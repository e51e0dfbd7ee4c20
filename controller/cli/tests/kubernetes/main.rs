//! The controller on a Kubernetes API: a real control plane that the tests start, the server that
//! `PATCHBAY_TEST_KUBECONFIG` names, or without both an API server in this process.
//!
//! On a real server no controller of `ClusterNetworkConnect`s or networks may run. Missing resource
//! definitions are created. The tests then run one after the other, and delete what they create.
//! Faults can be injected into the in-process server only, so tests that need them call
//! `Testbed::simulated`. That server allows only what the roles in `deploy/rbac.yaml` allow.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

mod admin_port;
mod api_failures;
mod api_server;
#[path = "../support/apiserver/mod.rs"]
mod apiserver;
mod chart;
mod chart_installation;
mod check;
mod check_installation;
mod cluster_manager;
mod command;
#[path = "../support/control_plane.rs"]
mod control_plane;
mod deploy;
mod egress_ips;
mod explain;
mod first_installation;
mod leader_election;
mod missing_rights;
mod network_lifetime;
mod network_objects;
mod networks;
mod next_leader;
mod operator_mistakes;
mod persistent_errors;
mod prometheus;
mod real_installation;
mod refused_writes;
mod relay;
mod restored_server;
mod rights;
mod scale;
mod settings;
mod slow_writes;
mod stored;
#[cfg(feature = "lab")]
mod story;
mod testbed;
mod undecodable_objects;
mod unresponsive_server;
mod upgrade;
mod zone_controller;
mod zone_database;
mod zone_liveness;
mod zone_reports;
