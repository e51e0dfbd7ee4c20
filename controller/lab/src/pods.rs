//! Pods of a lab: their networks, nodes and addresses.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::vpc::{PortRequest, VpcScene};
use patchbay_model::{PodKey, PodPlace, Role};
use patchbay_reconcile::Cluster;
use patchbay_resources::manifests::{LoadError, ObjectKey};

use super::wire::packet::Mac;

/// Namespace and name of a pod.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name in the namespace.
    pub name: String,
}

impl PodName {
    pub(crate) fn of(key: &PodKey) -> Self {
        Self { namespace: key.namespace.to_string(), name: key.name.to_string() }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Pod of a lab, in its primary network or in a subnet of a VPC.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub name: PodName,
    /// Name of the pod's node.
    pub node: String,
    /// Name of the pod's primary network, or of its subnet.
    pub network: String,
    /// Addresses with the length of the subnet, IPv4 first.
    pub addresses: Vec<IpNet>,
    /// Name of the logical switch port.
    pub port: String,
    /// UID. Empty: the manifest has none.
    pub(crate) uid: String,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mac: Mac,
    pub(crate) mac_text: String,
}

impl Pod {
    /// Addresses without the length of the subnet.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(IpNet::addr)
    }

    /// The port of a pod in a subnet of a VPC, with the reason why the lab does not have it.
    fn in_subnet(
        scene: &VpcScene,
        request: &PortRequest,
        is_first: bool,
    ) -> Result<Self, &'static str> {
        let port = request.port();
        let subnet = scene.subnet_of(request).map_err(|_| "it has no port in a subnet of a VPC")?;
        let record = scene.objects.ports.get(&*port).ok_or("its port has no address")?;
        let node = request.node.as_deref().ok_or("it has no spec.nodeName, and so no place")?;
        let nets = || subnet.nets.iter();
        let addresses = record.addresses.iter().filter_map(|address| {
            let net = nets().find(|net| net.net.contains(address))?;
            Some(net.host(*address))
        });
        let PodKey { namespace, name } = &request.pod;
        // Further ports of a pod are named with their definitions.
        let suffix = request.provider.split('.').next().unwrap_or_default();
        let name = if is_first { name.to_string() } else { format!("{name}@{suffix}") };
        let mut pod = Self {
            name: PodName { namespace: namespace.to_string(), name },
            node: node.to_owned(),
            network: subnet.name.to_string(),
            addresses: addresses.collect(),
            uid: String::new(),
            gateways: nets().map(|net| net.gateway).collect(),
            mac: parse_mac(&record.mac).ok_or("its port has no MAC address")?,
            mac_text: record.mac.to_string(),
            port,
        };
        pod.addresses.sort_by_key(|address| address.addr().is_ipv6());
        Ok(pod)
    }

    /// The pod at its place. `None`: it has no node, or no addresses there.
    fn at(place: &PodPlace) -> Option<Self> {
        let key = &place.pod.key;
        let mut addresses = place.addresses.addresses.clone();
        addresses.sort_by_key(|address| address.addr().is_ipv6());
        (!addresses.is_empty()).then_some(())?;
        Some(Self {
            name: PodName::of(key),
            node: place.pod.node.as_deref()?.to_owned(),
            network: place.network.name.to_string(),
            addresses,
            port: place.port.clone(),
            uid: place.pod.uid.to_string(),
            gateways: place.addresses.gateways.clone(),
            mac: parse_mac(&place.addresses.mac)?,
            mac_text: place.addresses.mac.clone(),
        })
    }
}

/// Adds pods to a cluster without any, as [`Cluster::with_default_pods`] does.
///
/// # Errors
/// The objects contradict each other.
pub fn with_default_pods(cluster: Cluster) -> Result<Cluster, LoadError> {
    cluster.with_default_pods()
}

/// The pods of a cluster with addresses in their primary networks, and the names of the others.
pub(crate) fn placed(cluster: &Cluster) -> (Vec<Pod>, Vec<PodName>) {
    let mut placed = Vec::new();
    let mut others = Vec::new();
    let Some(pods) = cluster.zone_pods("") else {
        return (placed, others);
    };
    for pod in pods.pods().filter(|pod| pod.is_wired()) {
        let mut places = pods.places(pod);
        let primary = places.find(|place| place.network.role == Role::Primary);
        match primary.as_ref().and_then(Pod::at) {
            Some(pod) => placed.push(pod),
            None => others.push(PodName::of(&pod.key)),
        }
    }
    (placed, others)
}

/// Pods with ports in subnets of VPCs, and why others have none, one line each.
pub(crate) fn placed_in_vpcs(scene: &VpcScene) -> (Vec<Pod>, Vec<String>) {
    let mut placed: Vec<Pod> = Vec::new();
    let mut others = Vec::new();
    let mut known = BTreeSet::new();
    for request in &scene.objects.requests {
        let is_first = known.insert(&request.pod);
        match Pod::in_subnet(scene, request, is_first) {
            Ok(pod) => placed.push(pod),
            Err(reason) => others.push(format!("Pod {}: {reason}", PodName::of(&request.pod))),
        }
    }
    (placed, others)
}

/// Pods with addresses in layer2 networks of one database for all nodes, in which no port names a
/// node.
pub(crate) fn placed_in_networks(cluster: &Cluster) -> Vec<Pod> {
    let (placed, _) = placed(cluster);
    let at_home = placed.into_iter().filter_map(|pod| {
        let key = ObjectKey::namespaced(&pod.name.namespace, &pod.name.name);
        let sourced = cluster.inventory.pods.get(&key)?;
        let node = sourced.object.spec.as_ref()?.node_name.clone()?;
        Some(Pod { node, ..pod })
    });
    at_home.collect()
}

fn parse_mac(text: &str) -> Option<Mac> {
    let mut octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16));
    let mut mac = Mac::default();
    for octet in &mut mac {
        *octet = octets.next()?.ok()?;
    }
    octets.next().is_none().then_some(mac)
}
