//! The controller on a Kubernetes API: a server in this process, or the one that `PATCHBAY_TEST_KUBECONFIG` names.
//!
//! On a real server the definitions of ClusterNetworkConnect and of attachment definitions must be installed and no
//! controller of them may run. Tests then run one after the other, make the objects of the documents' example (and
//! delete them), and leave out what only our own server can be made to do.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

#[path = "../support/apiserver/mod.rs"]
mod apiserver;
mod bed;
mod command;
mod connecting;
mod database;
mod failures;
mod leading;
mod relay;
mod scale;
mod server;
mod zone;
