//! Names of pods and services, as OVN-Kubernetes and Kube-OVN write them into the database.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::address::Mac;
use crate::answer::QuestionError;
use crate::northbound::{
    LoadBalancer, Northbound, PortId, RouterPort, SwitchPort, SwitchPortId, SwitchPortKind,
};
use crate::question::{Destination, Protocol, Question, Sender};
use crate::similar;

/// Key of the network of a switch port or load balancer.
const NETWORK_KEY: &str = "k8s.ovn.org/network";
/// Key of the service of a load balancer.
const OWNER_KEY: &str = "k8s.ovn.org/owner";
/// Key of the kind of that owner.
const KIND_KEY: &str = "k8s.ovn.org/kind";
/// Key of the role of a switch's network.
const ROLE_KEY: &str = "k8s.ovn.org/role";
/// Role of the network to which the default route of a pod leads.
const PRIMARY_ROLE: &str = "primary";
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
                let others = other.and_then(|other| self.find_pod(other).ok()).unwrap_or_default();
                let has_primary = others.iter().any(|port| self.is_primary(*port));
                let networks = others
                    .iter()
                    .map(|port| self.network_of(*port))
                    .filter(|network| is_usable(*network, has_primary));
                self.choose(pod, &ports, &networks.collect::<Vec<_>>())
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
        let (node_ports, ports): (BTreeSet<Protocol>, BTreeSet<Protocol>) = all
            .partition(|protocol| protocol.port().is_some_and(|port| NODE_PORTS.contains(&port)));
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
                let port = self.choose(pod, &ports, &[own_network])?;
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

    /// Address of the gateway that the sender of a question has for a destination. The gateway is an
    /// address, or the name of a router or router port in the sender's network.
    pub(crate) fn find_gateway(
        &self,
        gateway: &str,
        (question, sender): (&Question, SwitchPortId),
        destination: IpAddr,
    ) -> Result<IpAddr, QuestionError> {
        let is_family = |address: &IpAddr| address.is_ipv4() == destination.is_ipv4();
        let port = self.switch_port(sender);
        let ids = &self.segment(self.switch(port.switch)).router_ports;
        let ports = || ids.iter().map(|id| self.router_port(*id));
        let has_name =
            |own: &&RouterPort| own.name == gateway || self.router(own.router).name == gateway;
        let mut own = question.sender.ip.into_iter().chain(addresses(port));
        let own = own.find(is_family);
        let near =
            own.and_then(|own| ports().filter(has_name).find_map(|port| port.network_of(own)));
        let networks = || ports().filter(has_name).flat_map(|port| &port.networks);
        let any = || networks().find(|network| is_family(&network.address));
        let literal = gateway.parse().ok().filter(is_family);
        let found = literal.or_else(|| near.or_else(any).map(|network| network.address));
        found.ok_or_else(|| {
            let routers: BTreeSet<_> =
                ports().map(|port| self.router(port.router).name.clone()).collect();
            QuestionError::Gateway {
                from: port.name.clone(),
                family: if destination.is_ipv4() { "IPv4" } else { "IPv6" },
                gateway: gateway.to_owned(),
                routers: routers.into_iter().collect(),
            }
        })
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
    pub(crate) fn find_pod(&self, pod: &str) -> Result<Vec<SwitchPortId>, NameError> {
        let Some((namespace, name)) = pod.split_once('/') else {
            return Err(self.unknown_pod(pod));
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
        let mut ports: Vec<_> =
            self.switch_ports().filter(|(_, port)| is_of_pod(port)).map(|(id, _)| id).collect();
        ports.sort_by_key(|id| &self.switch_port(*id).name);
        if ports.is_empty() {
            return Err(self.unknown_pod(pod));
        }
        Ok(ports)
    }

    /// The port of a pod that is meant. Of the networks that the other end has, or else of all, it
    /// is the primary one, or else the default one, or else the only one.
    pub(crate) fn choose(
        &self,
        pod: &str,
        ports: &[SwitchPortId],
        other_networks: &[Option<&str>],
    ) -> Result<SwitchPortId, NameError> {
        let is_primary = |port: &SwitchPortId| self.is_primary(*port);
        let has_primary = ports.iter().any(is_primary);
        let is_default = |port: &SwitchPortId| self.network_of(*port).is_none();
        let usable: Vec<_> = ports
            .iter()
            .copied()
            .filter(|port| is_usable(self.network_of(*port), has_primary))
            .collect();
        let is_shared = |port: &SwitchPortId| other_networks.contains(&self.network_of(*port));
        let shared: Vec<_> = usable.iter().copied().filter(is_shared).collect();
        let pool = if shared.is_empty() { &usable } else { &shared };
        if let [only] = pool[..] {
            return Ok(only);
        }
        let primary = pool.iter().find(|port| is_primary(port));
        let chosen = primary.or_else(|| pool.iter().find(|port| is_default(port)));
        chosen.copied().ok_or_else(|| NameError::Ambiguous {
            pod: pod.to_owned(),
            ports: ports.iter().map(|id| self.switch_port(*id).name.clone()).collect(),
        })
    }

    /// `true` if a port is one of a primary network.
    pub(crate) fn is_primary(&self, port: SwitchPortId) -> bool {
        let switch = self.switch(self.switch_port(port).switch);
        let role = switch.external_ids.get(ROLE_KEY);
        role.is_some_and(|role| role == PRIMARY_ROLE)
    }

    /// Ports of machines, on this chassis or others, with an address.
    pub(crate) fn machines_with(&self, address: IpAddr) -> Vec<SwitchPortId> {
        let places = self.switches.iter().filter_map(|switch| switch.by_address.get(&address));
        let ports = places.flatten().map(|(port, _)| *port);
        let is_machine = |port: &SwitchPortId| {
            let kind = self.switch_port(*port).kind;
            matches!(kind, SwitchPortKind::Machine | SwitchPortKind::Remote)
        };
        ports.filter(is_machine).collect()
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

    pub(crate) fn unknown_pod(&self, pod: &str) -> NameError {
        unknown("pod", pod, similar::names(pod, &self.pods()))
    }

    pub(crate) fn unknown_port(&self, kind: &'static str, name: &str) -> NameError {
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
        let ports = self.switch_ports();
        ports.filter_map(|(_, port)| pod_of(port)).collect()
    }

    /// All services with load balancers, as `NAMESPACE/NAME`.
    pub(crate) fn services(&self) -> BTreeSet<String> {
        let balancers = self.load_balancers.iter();
        let owners = balancers.filter_map(|balancer| balancer.external_ids.get(OWNER_KEY));
        owners.cloned().collect()
    }

    /// Network of a switch port: that of the port or of its switch. `None`: the default one.
    pub(crate) fn network_of(&self, port: SwitchPortId) -> Option<&str> {
        let port = self.switch_port(port);
        let switch = self.switch(port.switch);
        let network = port.external_ids.get(NETWORK_KEY);
        network.or(switch.external_ids.get(NETWORK_KEY)).map(String::as_str)
    }
}

fn unknown(kind: &'static str, name: &str, similar: Vec<String>) -> NameError {
    NameError::Unknown { kind, name: name.to_owned(), similar }
}

/// `true` if a pod sends in a network. In the default one, a pod with a primary network has a port
/// for probes alone.
pub(crate) fn is_usable(network: Option<&str>, has_primary: bool) -> bool {
    network.is_some() || !has_primary
}

/// The pod of a switch port, as `NAMESPACE/NAME`. `None`: it is none of a pod.
pub(crate) fn pod_of(port: &SwitchPort) -> Option<String> {
    let ids = &port.external_ids;
    let pod = ids.get("pod")?;
    if pod != "true" {
        return pod.contains('/').then(|| pod.clone());
    }
    let namespace = ids.get("namespace")?;
    let (_, name) = port.name.rsplit_once(&format!("{namespace}_"))?;
    Some(format!("{namespace}/{name}"))
}

/// IP addresses of a switch port.
pub(crate) fn addresses(port: &SwitchPort) -> Vec<IpAddr> {
    let interfaces = port.interfaces.iter();
    interfaces.flat_map(|interface| &interface.addresses).map(|address| address.address).collect()
}
