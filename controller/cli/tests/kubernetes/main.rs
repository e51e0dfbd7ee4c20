//! The controller on a Kubernetes API: a server in this process, or the one that `PATCHBAY_TEST_KUBECONFIG` names.
//!
//! On a real server no controller of connects or networks may run. Definitions of resources that are missing are made. Tests
//! then run one after the other, and delete what they make. What only our own server can be made to do is tested with it
//! all the same: those tests ask for `Bed::simulated`. That the controller may do all this with the roles in
//! `deploy/rbac.yaml` is what our own server sees to: it allows nothing else.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

#[path = "../support/apiserver/mod.rs"]
mod apiserver;
mod bed;
mod command;
mod connecting;
mod database;
mod deploy;
mod egress;
mod explain;
mod failures;
mod half_dead;
mod lasting;
mod leading;
mod mistakes;
mod relay;
mod reporting;
mod scale;
mod server;
mod stored;
mod zone;
