//! Inputs of egress rows: networks, nodes, pods and EgressIPs of a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    ClusterSettings, EgressIp, Feature, IpFamily, Layer2Layout, Network, Networks, Node, NodeId,
    NodeObject, Pod, PodKey, PodPlace, Role, Topology, UnreadNetworks, Uplink, primary_interface,
    transit_addresses,
};
use patchbay_rows::{Inputs, changed_keys};

use super::problem::{EgressProblem, EgressProblemReason};
use super::serving::{Candidate, ServedPod, Serving};

/// Everything that the egress rows of one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZoneEgress {
    zone: Arc<Zone>,
    /// Primary networks, by name.
    networks: OrdMap<Arc<str>, Arc<Network>>,
    nodes: OrdMap<Arc<str>, Arc<EgressNode>>,
    serving: Serving,
    unread: Arc<UnreadNetworks>,
    /// Names of EgressIPs that have no effect because the feature is off.
    off: Vec<Arc<str>>,
}

/// The zone and the cluster's settings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Zone {
    name: Arc<str>,
    settings: ClusterSettings,
}

/// A node, as packets are led to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EgressNode {
    id: Option<NodeId>,
    transit: Vec<IpAddr>,
    layer2: Layer2Layout,
}

/// Pods and EgressIPs, before it is known which serves which.
#[derive(Debug, Default)]
pub struct EgressObjects<'a> {
    /// Pods with their places in networks.
    pub pods: Vec<(Arc<Pod>, Vec<PodPlace>)>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<&'a str, &'a BTreeMap<String, String>>,
    /// EgressIPs.
    pub egress_ips: Vec<EgressIp>,
}

/// A piece of [`ZoneEgress`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum EgressCell {
    /// The zone and the cluster's settings.
    Zone,
    /// A primary network, by name.
    Network(Arc<str>),
    /// A node.
    Node(Arc<str>),
    /// A served pod of a network.
    Pod(Arc<str>, PodKey),
    /// Networks that may exist although they are not known.
    Unread,
}

impl ZoneEgress {
    /// Reads networks, nodes and objects, for the zone of the node with this name. The feature must
    /// be on.
    pub fn read(
        zone: &str,
        settings: &ClusterSettings,
        networks: &Networks,
        nodes: &[NodeObject<'_>],
        objects: &EgressObjects<'_>,
    ) -> Self {
        let primary = networks.iter().filter(|of| of.role == Role::Primary);
        let mut this = Self {
            zone: Arc::new(Zone {
                name: zone.into(),
                settings: settings.clone(),
            }),
            networks: primary
                .map(|network| (Arc::from(network.name.as_str()), Arc::new(network.clone())))
                .collect(),
            serving: Serving::new(zone),
            unread: Arc::new(UnreadNetworks::new(networks)),
            ..Self::default()
        };
        for node in nodes {
            this.put_node(node);
        }
        for (name, labels) in &objects.namespaces {
            this.put_namespace(name, labels);
        }
        for object in &objects.egress_ips {
            this.put_egress_ip(object.clone());
        }
        for (pod, places) in &objects.pods {
            this.put_pod(pod, places.iter().cloned());
        }
        this
    }

    /// Inputs while the feature is off, with the names of EgressIPs that have no effect.
    pub fn off(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            off: names.into_iter().map(Arc::from).collect(),
            ..Self::default()
        }
    }

    /// Adds a node, or replaces the one of its name.
    pub fn put_node(&mut self, node: &NodeObject<'_>) {
        let name: Arc<str> = node.name.into();
        let (node, subnets) = EgressNode::read(node);
        self.serving.set_subnets(&name, Some(&subnets));
        self.nodes.insert(name, Arc::new(node));
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.serving.set_subnets(name, None);
    }

    /// Adds a namespace, or replaces its labels.
    pub fn put_namespace(&mut self, name: &str, labels: &BTreeMap<String, String>) {
        self.serving.set_labels(name, Some(labels));
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.serving.set_labels(name, None);
    }

    /// Adds an EgressIP, or replaces the one of its name.
    pub fn put_egress_ip(&mut self, object: EgressIp) {
        self.serving.put_egress_ip(object);
    }

    /// Removes an EgressIP.
    pub fn remove_egress_ip(&mut self, name: &str) {
        self.serving.remove_egress_ip(name);
    }

    /// Adds a pod with its places in networks, or replaces it.
    pub fn put_pod(&mut self, pod: &Arc<Pod>, places: impl IntoIterator<Item = PodPlace>) {
        let places = places.into_iter().filter(|place| place.pod.is_wired());
        let mut places = places.filter(|place| self.networks.contains_key(&*place.network.name));
        let candidate = places.next().map(|place| Candidate::new(pod, &place));
        self.serving.set_pod(&pod.key, candidate);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &PodKey) {
        self.serving.set_pod(key, None);
    }

    /// Reasons why EgressIPs do not apply as their objects specify, as far as the objects alone
    /// show them.
    pub fn problems(&self) -> BTreeSet<EgressProblem> {
        let off = self.off.iter().map(|name| EgressProblem {
            egress_ip: name.clone(),
            reason: EgressProblemReason::FeatureOff(Feature::EgressIp),
        });
        off.chain(self.serving.problems().cloned()).collect()
    }

    /// `true` if the feature is on.
    pub(super) fn is_on(&self) -> bool {
        self.zone.settings.has_feature(Feature::EgressIp)
    }

    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    /// Families of the cluster, IPv4 first.
    pub(super) fn families(&self) -> Vec<IpFamily> {
        let mut families = IpFamily::BOTH.to_vec();
        families.retain(|family| self.zone.settings.has_family(*family));
        families
    }

    pub(super) fn settings(&self) -> &ClusterSettings {
        &self.zone.settings
    }

    pub(super) fn network(&self, name: &str) -> Option<&Arc<Network>> {
        self.networks.get(name).filter(|_| self.is_on())
    }

    /// `true` if a network of this name may exist although it is not known.
    pub(super) fn may_exist(&self, network: &str) -> bool {
        self.unread.may_have_prefix(&network_prefix(network))
    }

    pub(super) fn pod(&self, network: &Arc<str>, pod: &PodKey) -> Option<&ServedPod> {
        let served = self.serving.served().get(&(network.clone(), pod.clone()));
        served.map(|served| &**served)
    }

    /// `true` if the gateway router of another node is attached to the switch of a layer2 network.
    fn has_older_layout(&self, known: &EgressNode, network: &Network, node: &str) -> bool {
        node != &*self.zone.name && known.layer2.older_key(&network.name).is_some()
    }

    /// Next hop of a network's router for packets that leave through a node. `None`: it is not
    /// known.
    pub(super) fn next_hop(
        &self,
        network: &Network,
        node: &str,
        family: IpFamily,
    ) -> Option<IpAddr> {
        let known = self.nodes.get(node)?;
        match network.topology {
            Topology::Layer2 if self.has_older_layout(known, network, node) => {
                Some(network.join_address(known.id?, family)?.addr())
            }
            Topology::Layer2 => {
                let (_, gateway) = network.transit_pair(known.id?, family)?;
                Some(gateway.addr())
            }
            Topology::Layer3 if node == &*self.zone.name => {
                Some(network.join_address(known.id?, family)?.addr())
            }
            Topology::Layer3 => {
                let mut addresses = known.transit.iter().copied();
                addresses.find(|address| IpFamily::of(*address) == family)
            }
        }
    }
}

impl EgressNode {
    /// A node with the subnets of the interface that its bridge has: those of the annotation, or of
    /// the uplink.
    fn read(object: &NodeObject<'_>) -> (Self, Vec<IpNet>) {
        let (node, _) = Node::read(object.name, object.annotations, object.created);
        let transit = transit_addresses(object.annotations).unwrap_or_default();
        let mut primary = primary_interface(object.annotations);
        if primary.is_empty() {
            // A node of a file has a derived uplink.
            let uplink = Uplink::read(object.annotations);
            let uplink = uplink.or_else(|| node.id.map(Uplink::derived));
            primary.extend(uplink.into_iter().flat_map(|uplink| uplink.addresses));
        }
        let node = Self {
            id: node.id,
            transit: transit.iter().map(IpNet::addr).collect(),
            layer2: Layer2Layout::read(object.annotations),
        };
        (node, primary)
    }
}

impl Inputs for ZoneEgress {
    type Cell = EgressCell;

    fn diff(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(EgressCell)) {
        let nothing = Self::default();
        if earlier.is_none_or(|earlier| earlier.zone != self.zone) {
            changed(EgressCell::Zone);
        }
        let earlier = earlier.unwrap_or(&nothing);
        if earlier.unread != self.unread {
            changed(EgressCell::Unread);
        }
        for name in changed_keys(&earlier.networks, &self.networks) {
            changed(EgressCell::Network(name.clone()));
        }
        for name in changed_keys(&earlier.nodes, &self.nodes) {
            changed(EgressCell::Node(name.clone()));
        }
        for (network, pod) in changed_keys(earlier.serving.served(), self.serving.served()) {
            changed(EgressCell::Pod(network.clone(), pod.clone()));
        }
    }
}
