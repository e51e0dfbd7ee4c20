//! The controller on a Kubernetes API: a server in this process, or the one that `PATCHBAY_TEST_KUBECONFIG` names.
//!
//! On a real server no controller of connects or networks may run. Definitions of resources that are missing are made. Tests
//! then run one after the other, make the objects of the documents' example (and delete them), and leave out what only our
//! own server can be made to do. That the controller may do all this with the roles in `deploy/rbac.yaml` is what our own
//! server sees to: it allows nothing else.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

#[path = "../support/apiserver/mod.rs"]
mod apiserver;
mod bed;
mod command;
mod connecting;
mod database;
mod deploy;
mod explain;
mod failures;
mod leading;
mod relay;
mod scale;
mod server;
mod zone;
