//! Kubernetes services, as far as load balancers of networks are derived from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use super::object_problem::FieldProblem;

/// Label of a mirrored slice: name of its service.
pub const MIRRORED_SERVICE_LABEL: &str = "k8s.ovn.org/service-name";
/// Label of a service that another program than the cluster's service proxy forwards. Its value
/// names the program.
pub const SERVICE_PROXY_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// Label of a slice of a headless service.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Annotation of a mirrored slice: name of the network that its addresses belong to.
pub const ENDPOINT_NETWORK: &str = "k8s.ovn.org/endpointslice-network";

/// Namespace and name of a service. `Display` prints `<namespace>/<name>`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServiceKey {
    /// Namespace of the service.
    pub namespace: Arc<str>,
    /// Name of the service.
    pub name: Arc<str>,
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Transport protocol of a service's port.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Name in Kubernetes objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error: a text is none of the protocols' names.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0:?} is none of TCP, UDP and SCTP")]
pub struct UnknownProtocol(pub String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownProtocol> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|protocol| protocol.as_str() == text);
        found.ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

/// Service with its addresses and ports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Cluster IPs, `spec.clusterIP` first. Empty: the service is headless, has no address yet,
    /// names another host, or is that of another service proxy.
    pub cluster_ips: Vec<IpAddr>,
    /// Addresses outside of the cluster: `spec.externalIPs`, then the load balancer's addresses.
    pub external_ips: Vec<IpAddr>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// Seconds for which a client's connections go to one endpoint. `None`: no affinity.
    pub affinity_timeout: Option<u32>,
    /// `true` if the cluster IP leads to endpoints on the client's node only.
    pub is_internal_local: bool,
    /// `true` if node ports and external addresses lead to endpoints on the receiving node only.
    pub is_external_local: bool,
    /// `true` if endpoints count whatever their conditions are.
    pub publishes_unready: bool,
    /// Labels of the service's pods. Empty: the service selects none.
    pub selector: BTreeMap<String, String>,
    /// Fields that cannot be used.
    pub problems: Vec<FieldProblem>,
}

impl Service {
    /// Number of load balancers that the service needs: one for each protocol of its ports, if it
    /// has a cluster IP.
    pub fn load_balancer_count(&self) -> usize {
        if self.cluster_ips.is_empty() {
            return 0;
        }
        let protocols = self.ports.iter().map(|port| port.protocol);
        protocols.collect::<BTreeSet<_>>().len()
    }
}

/// Port of a service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServicePort {
    /// Name; empty if the service has only one port.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Port of cluster IPs and external addresses.
    pub port: u16,
    /// Port of the nodes' addresses. `None`: the service has no node port.
    pub node_port: Option<u16>,
    /// Port of the pods.
    pub target: TargetPort,
}

/// Port of a service's pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TargetPort {
    /// A number.
    Number(u16),
    /// Name of a container's port.
    Name(String),
}

/// Endpoints of a service, of one IP family.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointSlice {
    /// The service.
    pub service: ServiceKey,
    /// Name of the slice.
    pub name: Arc<str>,
    /// Name of the network of a mirrored slice. `None`: the addresses are those of the default
    /// network.
    pub network: Option<String>,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Ports of all endpoints.
    pub ports: Vec<EndpointPort>,
}

/// An endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Node. `None`: not known.
    pub node: Option<Arc<str>>,
    /// State.
    pub state: EndpointState,
}

/// State of an endpoint, as its conditions show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndpointState {
    /// The endpoint takes new connections.
    Ready,
    /// The endpoint is terminating, and still answers.
    ServingTerminating,
    /// The endpoint takes no connections.
    Unready,
}

impl EndpointState {
    /// The state that these conditions show. `None`: the condition is not set.
    pub fn from_conditions(
        ready: Option<bool>,
        serving: Option<bool>,
        terminating: Option<bool>,
    ) -> Self {
        let is_ready = ready.unwrap_or(true);
        match (is_ready, serving.unwrap_or(is_ready), terminating) {
            (true, ..) => Self::Ready,
            (false, true, Some(true)) => Self::ServingTerminating,
            _ => Self::Unready,
        }
    }
}

/// A port of the endpoints of a slice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointPort {
    /// Name of the service's port.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number.
    pub port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_conditions_mean_ready() {
        use EndpointState::{Ready, ServingTerminating, Unready};
        let cases = [
            ((None, None, None), Ready),
            ((Some(true), Some(true), Some(true)), Ready),
            ((Some(false), Some(true), Some(true)), ServingTerminating),
            ((Some(false), Some(true), None), Unready),
            ((Some(false), None, Some(true)), Unready),
        ];
        for ((ready, serving, terminating), state) in cases {
            let found = EndpointState::from_conditions(ready, serving, terminating);
            assert_eq!(found, state, "{ready:?} {serving:?} {terminating:?}");
        }
    }
}
