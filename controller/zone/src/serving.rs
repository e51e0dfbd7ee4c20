//! Index of the pods that EgressIPs serve. A change costs time in proportion to the pods concerned.

use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use patchbay_model::{EgressAssignment, EgressIp, Feature, PodKey, PodPlace};

use super::namespace::ZoneNamespace;
use super::node::ZoneNode;
use super::objects::ZoneObjects;
use super::places::PlacedPod;

/// A pod of a network that an EgressIP serves.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedPod {
    /// `true` if the pod is on the zone's node.
    pub is_local: bool,
    /// Addresses of the pod in the network.
    pub addresses: Vec<IpAddr>,
    /// The EgressIPs that select the pod and have nodes, by name. One of them serves it.
    pub servers: Vec<Server>,
}

/// An EgressIP that may serve a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Name of the EgressIP.
    pub egress_ip: Arc<str>,
    /// Mark of the packets. `None`: packets cannot be marked.
    pub mark: Option<u32>,
    /// The nodes that the packets leave through, with the addresses that they get there. Not empty.
    pub assignments: Vec<EgressAssignment>,
}

/// Assignments of an EgressIP to known nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct UsableEgressIp {
    /// The EgressIP.
    pub object: Arc<EgressIp>,
    /// Assignments with addresses of the nodes' bridges.
    pub assignments: Vec<EgressAssignment>,
    /// Assignments with addresses of other interfaces.
    pub unusable: Vec<EgressAssignment>,
}

/// EgressIPs that can be used, and the pods that they serve. While the feature is off there are
/// none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving {
    egress_ips: OrdMap<Arc<str>, Arc<UsableEgressIp>>,
    served: OrdMap<(Arc<str>, PodKey), Arc<ServedPod>>,
}

impl Serving {
    /// The served pods, by network.
    pub(crate) fn served(&self) -> &OrdMap<(Arc<str>, PodKey), Arc<ServedPod>> {
        &self.served
    }
}

impl ZoneObjects {
    /// Adds an EgressIP, or replaces the one of its name.
    pub fn put_egress_ip(&mut self, object: EgressIp) {
        let object = Arc::new(object);
        self.egress_ips.insert(object.name.clone(), object.clone());
        self.follow_egress_ip(&object.name);
    }

    /// Removes an EgressIP.
    pub fn remove_egress_ip(&mut self, name: &str) {
        self.egress_ips.remove(name);
        self.follow_egress_ip(name);
        self.forget_places();
    }

    /// Names of all EgressIPs.
    pub fn egress_ips(&self) -> impl Iterator<Item = &Arc<str>> {
        self.egress_ips.keys()
    }

    /// EgressIPs with the nodes that they can use. While the feature is off there are none.
    pub fn usable_egress_ips(&self) -> impl Iterator<Item = &UsableEgressIp> {
        self.serving.egress_ips.values().map(|usable| &**usable)
    }

    /// A pod that an EgressIP serves in a network.
    pub fn served_pod(&self, network: &Arc<str>, pod: &PodKey) -> Option<&ServedPod> {
        let served = self.serving.served.get(&(network.clone(), pod.clone()));
        served.map(|served| &**served)
    }

    fn is_on(&self) -> bool {
        self.settings().has_feature(Feature::EgressIp)
    }

    /// `true` if there are EgressIPs that may serve pods.
    pub(crate) fn has_served_pods(&self) -> bool {
        self.is_on() && !self.egress_ips.is_empty()
    }

    /// Follows a pod that had these places.
    pub(crate) fn follow_served(&mut self, key: &PodKey, former: Option<&PlacedPod>) {
        if !self.is_on() {
            return;
        }
        if let Some(place) = former.and_then(PlacedPod::primary) {
            let place = (place.network.name.clone(), key.clone());
            self.serving.served.remove(&place);
        }
        self.serve(key);
    }

    /// Follows the labels of a namespace.
    pub(crate) fn follow_labels(&mut self, namespace: &Arc<str>) {
        if self.is_on() {
            let pods = self.placed.range(PodKey::new(namespace, "")..);
            let of_namespace: Vec<PodKey> = pods
                .map(|(key, _)| key)
                .take_while(|key| key.namespace == *namespace)
                .cloned()
                .collect();
            self.serve_all(&of_namespace);
        }
    }

    /// Follows the subnets of a node's bridge.
    pub(crate) fn follow_primary_subnets(&mut self, node: &str, former: Option<&ZoneNode>) {
        let current = self.node(node);
        if current.map(|of| &of.primary_subnets) == former.map(|of| &of.primary_subnets) {
            return;
        }
        let assigned: Vec<Arc<str>> = self
            .egress_ips
            .values()
            .filter(|object| {
                let mut assignments = object.assignments.iter();
                assignments.any(|assignment| &*assignment.node == node)
            })
            .map(|object| object.name.clone())
            .collect();
        for name in &assigned {
            self.follow_egress_ip(name);
        }
    }

    /// Follows an EgressIP and the nodes that it can use.
    fn follow_egress_ip(&mut self, name: &str) {
        if !self.is_on() {
            return;
        }
        if self.has_served_pods() {
            self.track_places();
        }
        let mut pods = self.selected(name);
        match self.egress_ips.get(name).map(|object| self.usable(object)) {
            Some(usable) => {
                let name = usable.object.name.clone();
                self.serving.egress_ips.insert(name, Arc::new(usable));
            }
            None => {
                self.serving.egress_ips.remove(name);
            }
        }
        pods.extend(self.selected(name));
        self.serve_all(&pods);
    }

    fn usable(&self, object: &Arc<EgressIp>) -> UsableEgressIp {
        let known = object.assignments.iter().filter_map(|assignment| {
            let node = self.node(&assignment.node)?;
            Some((assignment.clone(), node))
        });
        let (usable, unusable): (Vec<_>, Vec<_>) = known.partition(|(assignment, node)| {
            let mut subnets = node.primary_subnets.iter();
            subnets.any(|subnet| subnet.contains(&assignment.address))
        });
        let assignments = |of: Vec<(EgressAssignment, &Arc<ZoneNode>)>| {
            of.into_iter().map(|(assignment, _)| assignment).collect()
        };
        UsableEgressIp {
            object: object.clone(),
            assignments: assignments(usable),
            unusable: assignments(unusable),
        }
    }

    /// Pods that an EgressIP selects.
    fn selected(&self, egress_ip: &str) -> Vec<PodKey> {
        let Some(usable) = self.serving.egress_ips.get(egress_ip) else {
            return Vec::new();
        };
        let pods = self.placed.iter();
        pods.filter(|(_, placed)| placed.primary().is_some())
            .filter(|(_, placed)| self.selects(&usable.object, placed))
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn selects(&self, object: &EgressIp, placed: &PlacedPod) -> bool {
        let unknown = ZoneNamespace::default();
        let namespace = self.namespaces.get(&placed.pod.key.namespace);
        let namespace = namespace.map_or(&unknown, |namespace| &**namespace);
        object.selects(&namespace.labels, &placed.pod.labels)
    }

    fn serve_all(&mut self, pods: &[PodKey]) {
        for pod in pods {
            self.serve(pod);
        }
    }

    /// Finds the EgressIPs that may serve a pod.
    fn serve(&mut self, key: &PodKey) {
        let Some(placed) = self.placed.get(key).cloned() else {
            return;
        };
        let Some(at) = placed.primary() else {
            return;
        };
        let place = (at.network.name.clone(), key.clone());
        match self.serve_at(&placed, at) {
            Some(served) => {
                self.serving.served.insert(place, Arc::new(served));
            }
            None => {
                self.serving.served.remove(&place);
            }
        }
    }

    /// `None`: the zone does not serve the pod.
    fn serve_at(&self, placed: &PlacedPod, at: &PodPlace) -> Option<ServedPod> {
        let objects = self.usable_egress_ips().filter(|usable| {
            !usable.assignments.is_empty() && self.selects(&usable.object, placed)
        });
        let servers: Vec<Server> = objects
            .map(|usable| Server {
                egress_ip: usable.object.name.clone(),
                mark: usable.object.mark,
                assignments: usable.assignments.clone(),
            })
            .collect();
        let zone = self.zone();
        let is_local = placed.pod.node.as_ref() == Some(zone);
        let mut assignments = servers.iter().flat_map(|server| &server.assignments);
        let leaves_here = assignments.any(|one| one.node == *zone);
        let is_served = (is_local || leaves_here) && !servers.is_empty();
        is_served.then(|| ServedPod {
            is_local,
            addresses: at.addresses.addresses.iter().map(IpNet::addr).collect(),
            servers,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_model::{
        AddressRequest, AttachmentDefinition, ClusterSettings, EndpointState, NadKey, Networks,
        NodeObject, Pod, PodNetwork, PodNetworks, Requirement, Selector,
    };

    use super::*;

    /// A pod with an address in the primary network of its namespace.
    fn pod() -> Arc<Pod> {
        let mut networks = PodNetworks::default();
        let network = PodNetwork {
            addresses: vec!["10.10.0.3/16".parse().unwrap()],
            mac: "0a:58:0a:0a:00:03".to_owned(),
            gateways: Vec::new(),
            routes: Vec::new(),
            link_local_gateway: None,
            tunnel_id: Some(2),
            role: "primary".to_owned(),
        };
        networks.insert("blue/net", network);
        Arc::new(Pod {
            key: PodKey::new("blue", "p"),
            uid: "".into(),
            created: None,
            node: Some("n1".into()),
            labels: BTreeMap::new(),
            has_host_network: false,
            is_completed: false,
            endpoint_state: EndpointState::Ready,
            container_ports: Vec::new(),
            default_addresses: Vec::new(),
            networks,
            selections: Some(Vec::new()),
            primary_request: Ok(AddressRequest::default()),
            machine: None,
            open_ports: Vec::new(),
            problems: Vec::new(),
        })
    }

    /// Sets the primary network of the namespace. `None`: there is none.
    fn set_network(objects: &mut ZoneObjects, name: Option<&str>) {
        let config = format!(
            r#"{{"cniVersion":"1.1.0","name":"{}","netAttachDefName":"blue/net","role":"primary",
            "subnets":"10.10.0.0/16","topology":"layer2","type":"ovn-k8s-cni-overlay"}}"#,
            name.unwrap_or_default()
        );
        let definition = name.map(|_| AttachmentDefinition {
            key: NadKey { namespace: "blue".to_owned(), name: "net".to_owned() },
            config: Some(&config),
            network_id: Some("1"),
            network_name: None,
            tunnel_keys: Some("[]"),
            advertisements: None,
            owner_network: None,
        });
        let labelled = ["blue".to_owned()].into();
        let networks = Networks::from_definitions(definition.clone(), &labelled);
        let definitions = definition.into_iter().map(|one| (one.key.clone(), one));
        objects.set_networks(&networks, &definitions.collect(), &labelled);
    }

    fn egress_ip(namespaces: Selector) -> EgressIp {
        EgressIp {
            name: "eip".into(),
            mark: Some(1),
            namespaces: Some(namespaces),
            pods: Some(Selector::default()),
            assignments: vec![EgressAssignment {
                node: "n1".into(),
                address: "172.18.0.9".parse().unwrap(),
            }],
            problems: Vec::new(),
        }
    }

    /// The zone of a node with the pod.
    fn objects() -> ZoneObjects {
        let settings =
            ClusterSettings { features: [Feature::EgressIp].into(), ..ClusterSettings::default() };
        let mut objects = ZoneObjects::new("n1", &settings);
        let interface = r#"{"ipv4":"172.18.0.2/16"}"#.to_owned();
        objects.put_node(NodeObject {
            name: "n1",
            created: None,
            labels: None,
            annotations: Some(&[("k8s.ovn.org/node-primary-ifaddr".to_owned(), interface)].into()),
        });
        objects.put_pod(pod());
        objects
    }

    fn served_in(objects: &ZoneObjects) -> Vec<&str> {
        let served = objects.serving.served().keys();
        served.map(|(network, _)| &**network).collect()
    }

    #[test]
    fn a_pod_is_served_in_the_network_that_it_is_in() {
        let mut objects = objects();
        objects.put_egress_ip(egress_ip(Selector::default()));
        for network in [Some("blue_l3"), Some("blue_l2"), None] {
            set_network(&mut objects, network);
            assert_eq!(served_in(&objects), Vec::from_iter(network));
        }
    }

    #[test]
    fn a_pod_is_served_while_there_are_egress_ips() {
        let mut objects = objects();
        set_network(&mut objects, Some("blue_l2"));
        for _ in 0..2 {
            assert_eq!(served_in(&objects), Vec::<&str>::new());
            objects.put_egress_ip(egress_ip(Selector::default()));
            assert_eq!(served_in(&objects), ["blue_l2"]);
            objects.remove_egress_ip("eip");
        }
    }

    #[test]
    fn an_egress_ip_selects_a_namespace_by_its_name() {
        let mut objects = objects();
        set_network(&mut objects, Some("blue_l2"));
        let label = "kubernetes.io/metadata.name".to_owned();
        let named = Requirement::Equals(label, "blue".to_owned());
        objects.put_egress_ip(egress_ip([named].into_iter().collect()));
        assert_eq!(served_in(&objects), Vec::<&str>::new());
        objects.put_namespace("blue", &BTreeMap::new(), &BTreeMap::new());
        assert_eq!(served_in(&objects), ["blue_l2"]);
        objects.remove_namespace("blue");
        assert_eq!(served_in(&objects), Vec::<&str>::new());
    }
}
