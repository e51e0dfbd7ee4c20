//! Pods, as far as their ports and addresses in networks are derived from them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;

use super::object_problem::FieldProblem;
use super::pod_networks::{DEFAULT_NETWORK_KEY, POD_NETWORKS, PodNetworks};
use super::service::{EndpointState, Protocol};

/// Annotation of a pod: its secondary networks, of the Network Plumbing Working Group.
pub const NETWORK_SELECTIONS: &str = "k8s.v1.cni.cncf.io/networks";
/// Annotation of a pod, defined by Multus: request in the primary network.
pub const DEFAULT_NETWORK_SELECTION: &str = "v1.multus-cni.io/default-network";
/// Annotation of a pod: ports that isolation from the default network leaves open, as YAML.
pub const OPEN_PORTS: &str = "k8s.ovn.org/open-default-ports";
/// Annotation of a pod of KubeVirt: name of the virtual machine that runs in it.
pub const VIRTUAL_MACHINE_NAME: &str = "kubevirt.io/domain";
/// Annotation of a pod: name of the IPAMClaim of its primary network.
pub const PRIMARY_IPAM_CLAIM: &str = "k8s.ovn.org/primary-udn-ipamclaim";

/// Namespace and name of a pod. `Display` prints `<namespace>/<name>`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PodKey {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the pod.
    pub name: Arc<str>,
}

impl PodKey {
    /// Key of the pod with this name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Name of the pod's port in the default network.
    pub fn default_port(&self) -> String {
        format!("{}_{}", self.namespace, self.name)
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Pod with its networks and addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// UID; empty if the pod comes from a manifest without one.
    pub uid: Arc<str>,
    /// Time of creation. `None`: the pod comes from a manifest.
    pub created: Option<Timestamp>,
    /// Name of the node. `None`: the pod is not scheduled.
    pub node: Option<Arc<str>>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// `true` if the pod uses the network of its node.
    pub has_host_network: bool,
    /// `true` if all containers have ended for good, so that the pod has no ports and addresses.
    pub is_completed: bool,
    /// State of the pod as an endpoint of services; a pod from a manifest without status is ready.
    pub endpoint_state: EndpointState,
    /// Ports of the containers.
    pub container_ports: Vec<ContainerPort>,
    /// Addresses in the default network, or of the node for a pod on its network.
    pub default_addresses: Vec<IpAddr>,
    /// Addresses by network: the annotation [`POD_NETWORKS`](super::POD_NETWORKS).
    pub networks: PodNetworks,
    /// Secondary networks. `None`: the annotation cannot be read, so the pod is on no network.
    pub selections: Option<Vec<NetworkSelection>>,
    /// Request of the pod in its primary network. The error is the reason why it cannot be met.
    pub primary_request: Result<AddressRequest, Box<str>>,
    /// Virtual machine that runs in the pod.
    pub machine: Option<VirtualMachine>,
    /// Ports that isolation from the default network leaves open.
    pub open_ports: Vec<OpenPort>,
    /// Fields that cannot be used. The rest of the pod is used.
    pub problems: Vec<FieldProblem>,
}

impl Pod {
    /// `true` if the pod should have ports: it is scheduled, has a network of its own, and has not
    /// completed.
    pub fn is_wired(&self) -> bool {
        self.node.is_some() && !self.has_host_network && !self.is_completed
    }

    /// `true` if the annotation [`POD_NETWORKS`](super::POD_NETWORKS) can be read. Otherwise it is
    /// not written, so that nothing that another program wrote gets lost.
    pub fn has_readable_networks(&self) -> bool {
        let mut problems = self.problems.iter();
        !problems.any(|problem| problem.is_of_annotation(POD_NETWORKS))
    }

    /// Addresses in the default network. They are in the status, or else in the annotation
    /// [`POD_NETWORKS`](super::POD_NETWORKS).
    pub fn addresses_in_default_network(&self) -> Vec<IpAddr> {
        if !self.default_addresses.is_empty() {
            return self.default_addresses.clone();
        }
        let network = self.networks.get(DEFAULT_NETWORK_KEY);
        let addresses = network.into_iter().flat_map(|network| &network.addresses);
        addresses.map(IpNet::addr).collect()
    }

    /// Number of the container port with this name.
    pub fn named_port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        let mut ports = self.container_ports.iter();
        let port = ports.find(|port| port.name == name && port.protocol == protocol)?;
        Some(port.number)
    }
}

/// Port of a container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ContainerPort {
    /// Name; empty: the port has none.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number.
    pub number: u16,
}

/// Element of the annotation [`NETWORK_SELECTIONS`]: attachment of a pod to a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NetworkSelection {
    /// Namespace of the attachment definition.
    pub namespace: String,
    /// Name of the attachment definition.
    pub name: String,
    /// Name of the pod's interface. `None`: Multus numbers it.
    pub interface: Option<String>,
    /// Requested addresses. The error is the reason why they cannot be used.
    pub request: Result<AddressRequest, Box<str>>,
}

/// Request of a pod for a port in a network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AddressRequest {
    /// Addresses, with the length of the subnet. Empty: any.
    pub addresses: Vec<IpNet>,
    /// MAC address. `None`: any.
    pub mac: Option<String>,
    /// Gateways in place of the network's gateways.
    pub gateways: Vec<IpAddr>,
    /// Name of the IPAMClaim that keeps the addresses.
    pub claim: Option<String>,
}

/// Virtual machine of KubeVirt in a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VirtualMachine {
    /// Name in the namespace of the pod.
    pub name: Arc<str>,
    /// `true` if a live migration to the pod has reached it.
    pub is_target_ready: bool,
}

/// Port that isolation from the default network leaves open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OpenPort {
    /// Port of a transport protocol.
    Port(Protocol, u16),
    /// ICMP.
    Icmp,
}
