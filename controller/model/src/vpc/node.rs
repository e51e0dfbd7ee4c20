//! Nodes, as VPCs need them.

use std::net::IpAddr;
use std::sync::Arc;

/// Label of nodes that may host external ports of VPCs, with the value `true`.
pub const GATEWAY_NODE: &str = "ovn.kubernetes.io/external-gw";
/// Annotation of a node: name of its chassis, of Kube-OVN.
pub const CHASSIS: &str = "ovn.kubernetes.io/chassis";
/// Annotation of a node: interface of tunnels, in place of that of the cluster.
pub const TUNNEL_INTERFACE: &str = "ovn.kubernetes.io/tunnel_interface";

/// A node, as VPCs need it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VpcNode {
    /// Name.
    pub name: Arc<str>,
    /// `true` if the node may host external ports of VPCs.
    pub is_gateway: bool,
    /// Name of the node's chassis. `None`: it is not known.
    pub chassis: Option<Arc<str>>,
    /// Name of the chassis in the annotation of OVN-Kubernetes, where that of Kube-OVN differs.
    pub other_chassis: Option<Arc<str>>,
    /// Interface of tunnels. `None`: that of the cluster.
    pub tunnel_interface: Option<String>,
    /// Addresses of the node (`InternalIP`).
    pub addresses: Vec<IpAddr>,
}
