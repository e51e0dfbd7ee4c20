//! The controller on a Kubernetes API: a server in this process, or the one that `PATCHBAY_TEST_KUBECONFIG` names.
//!
//! On a real server the definitions of ClusterNetworkConnect and NetworkAttachmentDefinition must be installed and no
//! controller of them may run. Tests then run one after the other, make the objects of the documents' example (and
//! delete them), and leave out what only our own server can be made to do.

#[path = "../support/apiserver/mod.rs"]
mod apiserver;
mod bed;
mod connecting;
mod failures;
mod leading;
mod server;
mod zone;
