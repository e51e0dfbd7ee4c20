//! Names of pods and services, as OVN-Kubernetes and Kube-OVN write them into the database.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::address::Mac;
use crate::northbound::{LoadBalancer, Northbound, PortId, SwitchPort, SwitchPortId};
use crate::question::{Destination, Protocol, Question, Sender};
use crate::similar;

/// Key of the network of a switch port or load balancer.
const NETWORK_KEY: &str = "k8s.ovn.org/network";
/// Key of the service of a load balancer.
const OWNER_KEY: &str = "k8s.ovn.org/owner";
/// Key of the kind of that owner.
const KIND_KEY: &str = "k8s.ovn.org/kind";
/// Node ports of services, unless the API server has another range.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// Error: a name is not in the database, or not unique.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// There is no such port, pod or service.
    #[error("the database has no {kind} {name}{}", similar::hint(.similar))]
    Unknown {
        /// Kind of the name.
        kind: &'static str,
        /// The name.
        name: String,
        /// Names that may be meant, each as a sender or destination is written.
        similar: Vec<String>,
    },
    /// A pod has several ports, and the other end does not select one.
    #[error("pod {pod} has several ports: {}; name one of them", .ports.join(", "))]
    Ambiguous {
        /// The pod.
        pod: String,
        /// Names of its ports.
        ports: Vec<String>,
    },
    /// A question has no sender.
    #[error("the question names no sender: expected port or pod")]
    NoSender,
}

impl Northbound {
    /// The switch port of a sender. If a pod has several, `other` is the pod at the other end,
    /// whose network distinguishes them.
    pub(crate) fn find_sender(
        &self,
        sender: &Sender,
        other: Option<&str>,
    ) -> Result<SwitchPortId, NameError> {
        match (&sender.port, &sender.pod) {
            (Some(port), _) => self.find_port(port),
            (None, Some(pod)) => {
                let ports = self.find_pod(pod)?;
                let others = other.and_then(|other| self.find_pod(other).ok());
                self.choose(pod, &ports, |network| {
                    others.as_ref().is_some_and(|others| {
                        others.iter().any(|port| self.network_of(*port) == network)
                    })
                })
            }
            (None, None) => Err(NameError::NoSender),
        }
    }

    /// Protocols and ports of a service. Node ports are among them only if there are no others.
    ///
    /// # Errors
    /// There is no load balancer of the service.
    pub fn service_protocols(&self, service: &str) -> Result<BTreeSet<Protocol>, NameError> {
        let balancers: Vec<&LoadBalancer> = self.balancers_of(service).collect();
        if balancers.is_empty() {
            return Err(self.unknown_service(service));
        }
        let all = balancers.iter().flat_map(|balancer| balancer.protocols());
        let (node_ports, ports): (BTreeSet<Protocol>, BTreeSet<Protocol>) =
            all.partition(|protocol| {
                protocol
                    .port()
                    .is_some_and(|port| NODE_PORTS.contains(&port))
            });
        Ok(if ports.is_empty() { node_ports } else { ports })
    }

    /// Addresses of a question's destination, as the sender sees it.
    pub(crate) fn find_destination(
        &self,
        question: &Question,
        sender: SwitchPortId,
    ) -> Result<Vec<IpAddr>, NameError> {
        let own_network = self.network_of(sender);
        match &question.destination {
            Destination::Address(address) => Ok(vec![*address]),
            Destination::Port(name) => Ok(addresses(self.switch_port(self.find_port(name)?))),
            Destination::Pod(pod) => {
                let ports = self.find_pod(pod)?;
                let port = self.choose(pod, &ports, |network| network == own_network)?;
                Ok(addresses(self.switch_port(port)))
            }
            Destination::Service(service) => {
                self.find_service(service, question.protocol, own_network)
            }
        }
    }

    pub(crate) fn find_port(&self, name: &str) -> Result<SwitchPortId, NameError> {
        match self.names.port(name) {
            Some(PortId::Switch(port)) => Ok(port),
            _ => Err(self.unknown_port("switch port", name)),
        }
    }

    /// The switch port or router port of this name.
    pub(crate) fn find_any_port(&self, name: &str) -> Result<PortId, NameError> {
        let port = self.names.port(name);
        port.ok_or_else(|| self.unknown_port("port", name))
    }

    /// MAC address of a router port.
    pub(crate) fn mac_of_router_port(&self, name: &str) -> Result<Mac, NameError> {
        match self.names.port(name) {
            Some(PortId::Router(port)) => Ok(self.router_port(port).mac),
            _ => Err(unknown("router port", name, Vec::new())),
        }
    }

    /// Switch ports of a pod, as `NAMESPACE/NAME`, in the order of their names.
    ///
    /// OVN-Kubernetes names them `NAMESPACE_NAME`, on other networks than the default one with a
    /// prefix; Kube-OVN names them `NAME.NAMESPACE`, with a suffix for attached networks.
    fn find_pod(&self, pod: &str) -> Result<Vec<SwitchPortId>, NameError> {
        let Some((namespace, name)) = pod.split_once('/') else {
            return Err(unknown("pod", pod, similar::names(pod, &self.pods())));
        };
        let suffix = format!("{namespace}_{name}");
        let is_of_pod = |port: &SwitchPort| {
            let ids = &port.external_ids;
            if ids.get("pod").is_some_and(|value| value == pod) {
                return true;
            }
            let is_marked = ids.get("pod").is_some_and(|value| value == "true")
                && ids.get("namespace").is_some_and(|value| value == namespace);
            match port.name.strip_suffix(&suffix) {
                Some("") => true,
                Some(prefix) => is_marked && prefix.ends_with('_'),
                None => false,
            }
        };
        let mut ports: Vec<_> = self
            .switch_ports()
            .filter(|(_, port)| is_of_pod(port))
            .map(|(id, _)| id)
            .collect();
        ports.sort_by_key(|id| &self.switch_port(*id).name);
        if ports.is_empty() {
            return Err(unknown("pod", pod, similar::names(pod, &self.pods())));
        }
        Ok(ports)
    }

    /// The port of a pod that is meant: the only one, or the only one on a wanted network.
    fn choose(
        &self,
        pod: &str,
        ports: &[SwitchPortId],
        is_wanted: impl Fn(Option<&str>) -> bool,
    ) -> Result<SwitchPortId, NameError> {
        if let [only] = ports[..] {
            return Ok(only);
        }
        let mut wanted = ports
            .iter()
            .filter(|port| is_wanted(self.network_of(**port)));
        match (wanted.next(), wanted.next()) {
            (Some(port), None) => Ok(*port),
            _ => Err(NameError::Ambiguous {
                pod: pod.to_owned(),
                ports: ports
                    .iter()
                    .map(|id| self.switch_port(*id).name.clone())
                    .collect(),
            }),
        }
    }

    /// VIPs of the load balancers of a service: those on the sender's network first, and of these
    /// the ones that have the protocol's port. Other VIPs are those of node ports, for example.
    fn find_service(
        &self,
        service: &str,
        protocol: Protocol,
        own_network: Option<&str>,
    ) -> Result<Vec<IpAddr>, NameError> {
        let balancers = self.balancers_of(service);
        let mut vips: Vec<(bool, bool, IpAddr)> = balancers
            .flat_map(|balancer| {
                let network = balancer.external_ids.get(NETWORK_KEY).map(String::as_str);
                let is_other = network != own_network;
                balancer.vips.iter().map(move |vip| {
                    let is_other_port = balancer.protocol_of(vip) != Some(protocol);
                    (is_other, is_other_port, vip.address)
                })
            })
            .collect();
        vips.sort_unstable();
        vips.dedup();
        if vips.is_empty() {
            return Err(self.unknown_service(service));
        }
        Ok(vips.into_iter().map(|(.., address)| address).collect())
    }

    /// Load balancers of a service, as `NAMESPACE/NAME`.
    fn balancers_of(&self, service: &str) -> impl Iterator<Item = &LoadBalancer> {
        self.load_balancers.iter().filter(move |balancer| {
            let ids = &balancer.external_ids;
            ids.get(OWNER_KEY).is_some_and(|owner| owner == service)
                && ids.get(KIND_KEY).is_none_or(|kind| kind == "Service")
        })
    }

    fn unknown_service(&self, service: &str) -> NameError {
        let similar = similar::names(service, &self.services());
        unknown("service", service, similar)
    }

    fn unknown_port(&self, kind: &'static str, name: &str) -> NameError {
        // Whoever forgets the namespace of a pod names a port.
        let mut similar = similar::without_namespace(name, &self.pods());
        if similar.is_empty() {
            let ports = self.switch_ports().map(|(_, port)| port.name.clone());
            similar = similar::names(name, &ports.collect());
        }
        unknown(kind, name, similar)
    }

    /// All pods, as `NAMESPACE/NAME`.
    fn pods(&self) -> BTreeSet<String> {
        let pod = |port: &SwitchPort| {
            let ids = &port.external_ids;
            let pod = ids.get("pod")?;
            if pod != "true" {
                return pod.contains('/').then(|| pod.clone());
            }
            let namespace = ids.get("namespace")?;
            let (_, name) = port.name.rsplit_once(&format!("{namespace}_"))?;
            Some(format!("{namespace}/{name}"))
        };
        self.switch_ports()
            .filter_map(|(_, port)| pod(port))
            .collect()
    }

    /// All services with load balancers, as `NAMESPACE/NAME`.
    fn services(&self) -> BTreeSet<String> {
        let balancers = self.load_balancers.iter();
        let owners = balancers.filter_map(|balancer| balancer.external_ids.get(OWNER_KEY));
        owners.cloned().collect()
    }

    /// Network of a switch port: that of the port or of its switch. `None`: the default one.
    pub(crate) fn network_of(&self, port: SwitchPortId) -> Option<&str> {
        let port = self.switch_port(port);
        let switch = self.switch(port.switch);
        let network = port.external_ids.get(NETWORK_KEY);
        network
            .or(switch.external_ids.get(NETWORK_KEY))
            .map(String::as_str)
    }
}

fn unknown(kind: &'static str, name: &str, similar: Vec<String>) -> NameError {
    NameError::Unknown {
        kind,
        name: name.to_owned(),
        similar,
    }
}

/// IP addresses of a switch port.
fn addresses(port: &SwitchPort) -> Vec<IpAddr> {
    let interfaces = port.interfaces.iter();
    interfaces
        .flat_map(|interface| &interface.addresses)
        .map(|address| address.address)
        .collect()
}
