//! EgressIPs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::label_selector::Selector;
use super::object_problem::FieldProblem;

/// Annotation of an EgressIP: mark of packets of user-defined networks.
pub const EGRESS_IP_MARK: &str = "k8s.ovn.org/egressip-mark";

/// Addresses with which packets of chosen pods leave the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EgressIp {
    /// Name.
    pub name: Arc<str>,
    /// Mark of packets of user-defined networks. `None`: there is none, or it cannot be read.
    pub mark: Option<u32>,
    /// Namespaces of the pods. `None`: the selector cannot be read, and no pod is selected.
    pub namespaces: Option<Selector>,
    /// The pods. `None`: the selector cannot be read, and no pod is selected.
    pub pods: Option<Selector>,
    /// The nodes that have the addresses.
    pub assignments: Vec<EgressAssignment>,
    /// Reasons why selectors cannot be read.
    pub problems: Vec<FieldProblem>,
}

/// An address of an [`EgressIp`], and the node that has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EgressAssignment {
    /// Name of the node.
    pub node: Arc<str>,
    /// The address.
    pub address: IpAddr,
}

impl EgressIp {
    /// Returns `true` if a pod with these labels, in a namespace with these labels, is selected.
    pub fn selects(
        &self,
        namespace: &BTreeMap<String, String>,
        pod: &BTreeMap<String, String>,
    ) -> bool {
        let matches = |selector: &Option<Selector>, labels| {
            selector.as_ref().is_some_and(|selector| selector.matches(labels))
        };
        matches(&self.namespaces, namespace) && matches(&self.pods, pod)
    }
}
