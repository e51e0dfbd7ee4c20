//! Inputs of egress rows: networks, nodes, pods and EgressIPs of a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    ClusterSettings, EgressAssignment, EgressIp, Feature, IpFamily, Network, Networks, Node,
    NodeId, NodeObject, Pod, PodKey, PodPlace, Role, Topology, UnreadNetworks, Uplink,
    primary_interface, transit_addresses,
};
use patchbay_rows::{Inputs, changed_keys};

use super::problem::{EgressProblem, EgressProblemReason};

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
    pods: OrdMap<(Arc<str>, PodKey), Arc<ServedPod>>,
    unread: Arc<UnreadNetworks>,
    problems: Vec<EgressProblem>,
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
    /// Subnets of the interface that the node's bridge has: those of the annotation, or of the uplink.
    primary: Vec<ipnet::IpNet>,
}

/// A pod of a network that an EgressIP serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServedPod {
    pub(super) egress_ip: Arc<str>,
    pub(super) mark: u32,
    /// `true` if the pod is on the zone's node.
    pub(super) is_local: bool,
    pub(super) addresses: Vec<IpAddr>,
    /// The nodes that the packets leave through, with the addresses that they get there.
    pub(super) assignments: Vec<EgressAssignment>,
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
    /// The served pods of a network.
    Pods(Arc<str>),
    /// Networks that may exist although they are not known.
    Unread,
}

impl ZoneEgress {
    /// Reads networks, nodes and objects, for the zone of the node with this name. The feature must be
    /// on.
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
            nodes: nodes
                .iter()
                .map(|node| (Arc::from(node.name), Arc::new(EgressNode::read(node))))
                .collect(),
            unread: Arc::new(UnreadNetworks::new(networks)),
            ..Self::default()
        };
        this.serve(objects);
        this
    }

    /// Inputs while the feature is off, with the names of EgressIPs that have no effect.
    pub fn off(names: impl IntoIterator<Item = String>) -> Self {
        let off = EgressProblemReason::FeatureOff(Feature::EgressIp);
        let problems = names.into_iter().map(|name| EgressProblem {
            egress_ip: name.into(),
            reason: off.clone(),
        });
        Self {
            problems: problems.collect(),
            ..Self::default()
        }
    }

    /// Sets pods and EgressIPs, and finds the EgressIP of each pod: of several the first by name.
    pub fn serve(&mut self, objects: &EgressObjects<'_>) {
        self.pods.clear();
        let mut problems = BTreeSet::new();
        let mut egress_ips: Vec<&EgressIp> = objects.egress_ips.iter().collect();
        egress_ips.sort_by(|one, other| one.name.cmp(&other.name));
        let usable: Vec<(&EgressIp, Vec<EgressAssignment>)> = egress_ips
            .into_iter()
            .map(|object| (object, self.usable(object, &mut problems)))
            .collect();
        let no_labels = BTreeMap::new();
        for (pod, places) in &objects.pods {
            let places = places.iter().filter(|place| place.pod.is_wired());
            let mut places =
                places.filter(|place| self.networks.contains_key(&*place.network.name));
            let Some(place) = places.next() else {
                continue;
            };
            let namespace = objects.namespaces.get(&*pod.key.namespace);
            let namespace = namespace.copied().unwrap_or(&no_labels);
            let mut of_pod = usable
                .iter()
                .filter(|(object, _)| object.selects(namespace, &pod.labels));
            let Some((object, assignments)) = of_pod.next() else {
                continue;
            };
            for (other, _) in of_pod {
                problems.insert(EgressProblem {
                    egress_ip: other.name.clone(),
                    reason: EgressProblemReason::Taken {
                        pod: pod.key.clone(),
                        other: object.name.clone(),
                    },
                });
            }
            let Some(mark) = object.mark else {
                problems.insert(EgressProblem {
                    egress_ip: object.name.clone(),
                    reason: EgressProblemReason::NoMark,
                });
                continue;
            };
            let is_local = pod.node.as_ref() == Some(&self.zone.name);
            let leaves_here = assignments.iter().any(|one| one.node == self.zone.name);
            if !(is_local || leaves_here) || assignments.is_empty() {
                continue;
            }
            let addresses = place.addresses.addresses.iter().map(ipnet::IpNet::addr);
            let served = ServedPod {
                egress_ip: object.name.clone(),
                mark,
                is_local,
                addresses: addresses.collect(),
                assignments: assignments.clone(),
            };
            let key = (place.network.name.clone(), pod.key.clone());
            self.pods.insert(key, Arc::new(served));
        }
        self.problems = problems.into_iter().collect();
    }

    /// Assignments of an EgressIP to known nodes, with addresses of their bridges.
    fn usable(
        &self,
        object: &EgressIp,
        problems: &mut BTreeSet<EgressProblem>,
    ) -> Vec<EgressAssignment> {
        let mut problem = |reason| {
            let egress_ip = object.name.clone();
            problems.insert(EgressProblem { egress_ip, reason });
        };
        for reason in &object.problems {
            problem(EgressProblemReason::Selector(reason.clone()));
        }
        let assignments = object.assignments.iter().filter(|assignment| {
            let Some(node) = self.nodes.get(&assignment.node) else {
                return false;
            };
            let mut subnets = node.primary.iter();
            let is_usable = subnets.any(|subnet| subnet.contains(&assignment.address));
            if !is_usable {
                problem(EgressProblemReason::SecondaryInterface {
                    address: assignment.address,
                    node: assignment.node.clone(),
                });
            }
            is_usable
        });
        assignments.cloned().collect()
    }

    /// Reasons why EgressIPs do not apply as their objects say.
    pub fn problems(&self) -> &[EgressProblem] {
        &self.problems
    }

    /// EgressIPs that serve pods.
    pub(super) fn serving(&self) -> BTreeSet<Arc<str>> {
        let pods = self.pods.values();
        pods.map(|pod| pod.egress_ip.clone()).collect()
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
        let served = self.pods.get(&(network.clone(), pod.clone()));
        served.map(|served| &**served)
    }

    /// Addresses of the pods of a network that are served on the zone's node.
    pub(super) fn served_addresses(&self, network: &Arc<str>) -> BTreeSet<IpAddr> {
        let pods = self.pods.iter();
        let pods = pods.filter(|((of, _), pod)| of == network && pod.is_local);
        pods.flat_map(|(_, pod)| pod.addresses.iter().copied())
            .collect()
    }

    /// Where the router of a network sends packets that leave through a node. `None`: it is not
    /// known.
    pub(super) fn next_hop(
        &self,
        network: &Network,
        node: &str,
        family: IpFamily,
    ) -> Option<IpAddr> {
        let known = self.nodes.get(node)?;
        match network.topology {
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
    fn read(object: &NodeObject<'_>) -> Self {
        let (node, _) = Node::read(object.name, object.annotations, object.created);
        let transit = transit_addresses(object.annotations).unwrap_or_default();
        let mut primary = primary_interface(object.annotations);
        if primary.is_empty() {
            // A node of a file has a derived uplink.
            let uplink = Uplink::read(object.annotations);
            let uplink = uplink.or_else(|| node.id.map(Uplink::derived));
            primary.extend(uplink.into_iter().flat_map(|uplink| uplink.addresses));
        }
        Self {
            id: node.id,
            transit: transit.iter().map(ipnet::IpNet::addr).collect(),
            primary,
        }
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
        let mut networks = BTreeSet::new();
        for (network, pod) in changed_keys(&earlier.pods, &self.pods) {
            changed(EgressCell::Pod(network.clone(), pod.clone()));
            networks.insert(network);
        }
        for network in networks {
            changed(EgressCell::Pods(network.clone()));
        }
    }
}
