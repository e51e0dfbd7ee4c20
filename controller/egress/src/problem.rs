//! Reasons why EgressIPs do not apply as their objects specify.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::{EGRESS_IP_MARK, Feature, PodKey};
use patchbay_zone::{UsableEgressIp, ZoneObjects};
use thiserror::Error;

use super::capability::is_on;

/// Reason why an EgressIP does not apply as it specifies. `Display` names the object.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct EgressProblem {
    /// Name of the EgressIP.
    pub egress_ip: Arc<str>,
    /// The reason.
    pub reason: EgressProblemReason,
}

impl fmt::Display for EgressProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EgressIP {}: {}", self.egress_ip, self.reason)
    }
}

/// Reason of an [`EgressProblem`].
#[derive(Clone, Debug, Eq, Error, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum EgressProblemReason {
    /// The feature is off.
    #[error("feature {0} is off, so the object has no effect; see --enable")]
    FeatureOff(Feature),
    /// A selector cannot be read.
    #[error("{0}; no pod is selected")]
    Selector(String),
    /// Packets cannot be marked.
    #[error(
        "metadata.annotations[{EGRESS_IP_MARK}]: no mark in 1..=4294967295, so pods of networks are \
         not served"
    )]
    NoMark,
    /// The address is not one of the network of the node's bridge.
    #[error(
        "status.items: {address} is not in a subnet of node {node}'s primary interface, so pods of \
         networks are not served with it"
    )]
    SecondaryInterface {
        /// The address.
        address: IpAddr,
        /// The node.
        node: Arc<str>,
    },
    /// The database cannot mark replies.
    #[error(
        "the Northbound's schema has no marks of QoS rules, so replies of its pods to clients outside \
         of the cluster leave through the egress node, too"
    )]
    NoReplyMarks,
    /// Another EgressIP serves the pod.
    #[error("pod {pod} is served by EgressIP {other}")]
    Taken {
        /// The pod.
        pod: PodKey,
        /// Name of the EgressIP that serves it.
        other: Arc<str>,
    },
}

/// Reasons why EgressIPs do not apply as their objects specify, as far as the objects alone show
/// them.
pub(super) fn object_problems(objects: &ZoneObjects) -> BTreeSet<EgressProblem> {
    if is_on(objects) {
        objects.usable_egress_ips().flat_map(unusable).collect()
    } else {
        let names = objects.egress_ips().cloned();
        let off = EgressProblemReason::FeatureOff(Feature::EgressIp);
        names
            .map(|egress_ip| EgressProblem {
                egress_ip,
                reason: off.clone(),
            })
            .collect()
    }
}

/// Selectors that cannot be read, and addresses that no node's bridge has.
fn unusable(egress_ip: &UsableEgressIp) -> impl Iterator<Item = EgressProblem> {
    let UsableEgressIp {
        object, unusable, ..
    } = egress_ip;
    let selectors = object.problems.iter().cloned();
    let secondary = unusable
        .iter()
        .map(|assignment| EgressProblemReason::SecondaryInterface {
            address: assignment.address,
            node: assignment.node.clone(),
        });
    selectors
        .map(EgressProblemReason::Selector)
        .chain(secondary)
        .map(|reason| EgressProblem {
            egress_ip: object.name.clone(),
            reason,
        })
}
