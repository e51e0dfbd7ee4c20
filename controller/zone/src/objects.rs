//! Objects of a zone by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use patchbay_model::names::network_prefix;
use patchbay_model::{
    AdminPolicy, AdminPolicyKey, AttachedNetwork, AttachedNetworks, ClusterSettings, Definition,
    EgressFirewall, EgressIp, EndpointSlice, IpFamily, NadKey, Network, NetworkObjects, Networks,
    NodeObject, Pod, PodKey, Policy, PolicyKey, Role, Selector, Service, ServiceKey,
    UnreadNetworks,
};

use super::firewalls::FirewallContext;
use super::groups::NamespaceGroup;
use super::logging::AclLogging;
use super::namespace::ZoneNamespace;
use super::node::ZoneNode;
use super::places::PlacedPod;
use super::pods::MachineKey;
use super::policies::NetworkNamespace;
use super::selections::Selections;
use super::serving::Serving;

/// Everything that the rows of one zone follow from, besides the database.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZoneObjects {
    pub(crate) zone: Arc<Zone>,
    pub(crate) nodes: OrdMap<Arc<str>, Arc<ZoneNode>>,
    /// Networks with an overlay, by name.
    pub(crate) networks: OrdMap<Arc<str>, Arc<Network>>,
    /// Names of the primary networks of namespaces.
    pub(crate) primary: OrdMap<Arc<str>, Arc<str>>,
    pub(crate) definitions: OrdMap<NadKey, Definition>,
    /// Namespaces whose pods have a primary network, with its definition if there is one.
    pub(crate) primary_definitions: OrdMap<Arc<str>, Option<NadKey>>,
    /// Networks that pods are attached to, by name.
    pub(crate) attached: OrdMap<Arc<str>, Arc<AttachedNetwork>>,
    /// Names of the networks of the primary definitions.
    pub(crate) attached_primary: OrdMap<Arc<str>, Arc<str>>,
    pub(crate) unread: Arc<UnreadNetworks>,
    pub(crate) namespaces: OrdMap<Arc<str>, Arc<ZoneNamespace>>,
    pub(crate) pods: OrdMap<PodKey, Arc<Pod>>,
    /// Pods of virtual machines.
    pub(crate) machines: OrdMap<MachineKey, OrdSet<PodKey>>,
    /// Port groups that new ports wait for, by the ports' names.
    pub(crate) gates: OrdMap<Arc<str>, Arc<[String]>>,
    pub(crate) services: OrdMap<ServiceKey, Arc<Service>>,
    /// Mirrored slices of services, by name.
    pub(crate) slices: OrdMap<ServiceKey, OrdMap<Arc<str>, Arc<EndpointSlice>>>,
    pub(crate) egress_ips: OrdMap<Arc<str>, Arc<EgressIp>>,
    pub(crate) policies: OrdMap<PolicyKey, Arc<Policy>>,
    pub(crate) firewalls: OrdMap<Arc<str>, Arc<EgressFirewall>>,
    pub(crate) firewall_contexts: OrdMap<Arc<str>, FirewallContext>,
    pub(crate) admin_policies: OrdMap<AdminPolicyKey, Arc<AdminPolicy>>,
    /// `true` if pods are selected, so that their places are kept.
    pub(crate) tracks_places: bool,
    pub(crate) placed: OrdMap<PodKey, Arc<PlacedPod>>,
    /// Policies by network and namespace, and name.
    pub(crate) applied: OrdMap<NetworkNamespace, OrdMap<Arc<str>, Arc<Policy>>>,
    /// Port groups of namespaces in networks.
    pub(crate) groups: OrdMap<NetworkNamespace, NamespaceGroup>,
    /// The networks in which a namespace has a port group.
    pub(crate) grouped: OrdMap<Arc<str>, OrdSet<Arc<str>>>,
    pub(crate) selections: Selections,
    pub(crate) serving: Serving,
}

/// The zone and the cluster's settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Zone {
    name: Arc<str>,
    settings: ClusterSettings,
}

impl ZoneObjects {
    /// The zone of the node with this name, without objects.
    pub fn new(zone: &str, settings: &ClusterSettings) -> Self {
        Self {
            zone: Arc::new(Zone {
                name: zone.into(),
                settings: settings.clone(),
            }),
            ..Self::default()
        }
    }

    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    /// Settings of the cluster.
    pub fn settings(&self) -> &ClusterSettings {
        &self.zone.settings
    }

    /// IP families of the cluster, IPv4 first.
    pub fn families(&self) -> Vec<IpFamily> {
        let mut families = IpFamily::BOTH.to_vec();
        families.retain(|family| self.settings().has_family(*family));
        families
    }

    /// Adds a node, or replaces the one of its name.
    pub fn put_node(&mut self, object: NodeObject<'_>) {
        let name: Arc<str> = object.name.into();
        let mut node = ZoneNode::read(&object);
        if let Some(earlier) = self.node(object.name) {
            node.chassis.follow(&earlier.chassis);
        }
        let former = self.nodes.insert(name.clone(), Arc::new(node));
        self.follow_primary_subnets(&name, former.as_deref());
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        let former = self.nodes.remove(name);
        self.follow_primary_subnets(name, former.as_deref());
    }

    /// A node. `None`: there is none of this name.
    pub fn node(&self, name: &str) -> Option<&ZoneNode> {
        self.nodes.get(name).map(|node| &**node)
    }

    /// Addresses of the annotations of the selected nodes.
    pub fn addresses_of_nodes(&self, selector: &Selector) -> impl Iterator<Item = IpAddr> {
        let nodes = self.nodes.values();
        nodes
            .filter(|node| selector.matches(&node.labels))
            .flat_map(|node| node.annotated_addresses().unwrap_or_default())
            .copied()
    }

    /// The first selected node whose addresses cannot be read.
    pub fn unread_node<'a>(
        &self,
        selectors: impl IntoIterator<Item = &'a Selector, IntoIter: Clone>,
    ) -> Option<&Arc<str>> {
        let selectors = selectors.into_iter();
        let mut nodes = self.nodes.iter();
        let is_selected = |node: &ZoneNode| {
            let mut selectors = selectors.clone();
            selectors.any(|one| one.matches(&node.labels))
        };
        let (name, _) =
            nodes.find(|(_, node)| node.annotated_addresses().is_none() && is_selected(node))?;
        Some(name)
    }

    /// The addresses of all nodes.
    pub fn node_addresses(&self) -> BTreeSet<IpAddr> {
        let nodes = self.nodes.values();
        nodes.flat_map(|node| node.all_addresses()).collect()
    }

    /// Takes over what a running controller has known of nodes and firewalls, if the objects were
    /// read from nothing.
    pub fn follow(&mut self, earlier: &Self) {
        for (name, former) in &earlier.nodes {
            if let Some(node) = self.nodes.get_mut(name) {
                Arc::make_mut(node).chassis.follow(&former.chassis);
            }
        }
        self.follow_firewalls(earlier);
    }

    /// Sets nodes, attachment definitions and networks. `labelled` has the namespaces with the label
    /// [`PRIMARY_NETWORK_LABEL`](patchbay_model::PRIMARY_NETWORK_LABEL).
    pub fn set_objects(&mut self, objects: &NetworkObjects<'_>, labelled: &BTreeSet<String>) {
        let names: BTreeSet<&str> = objects.nodes.iter().map(|node| node.name).collect();
        let nodes = self.nodes.keys().cloned();
        let gone: Vec<Arc<str>> = nodes.filter(|name| !names.contains(&**name)).collect();
        for name in gone {
            self.remove_node(&name);
        }
        for node in &objects.nodes {
            self.put_node(*node);
        }
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(&objects.networks, definitions, labelled);
        self.set_networks(&objects.networks, &attached);
    }

    /// Sets the networks and their attachment definitions.
    pub fn set_networks(&mut self, networks: &Networks, attached: &AttachedNetworks) {
        let policies: Vec<Arc<Policy>> = self.policies.values().cloned().collect();
        let earlier: Vec<Vec<Arc<str>>> = policies
            .iter()
            .map(|policy| self.networks_of(policy))
            .collect();
        self.replace_networks(networks);
        self.replace_definitions(attached);
        for (policy, earlier) in policies.iter().zip(earlier) {
            self.move_policy(policy, &earlier);
        }
        let namespaces: Vec<Arc<str>> = self.namespaces.keys().cloned().collect();
        for namespace in &namespaces {
            self.follow_groups(namespace);
        }
        self.follow_places();
        self.forget_places();
    }

    fn replace_networks(&mut self, networks: &Networks) {
        let earlier = std::mem::take(&mut self.networks);
        self.primary.clear();
        for network in networks.iter() {
            let name: Arc<str> = network.name.as_str().into();
            if network.role == Role::Primary {
                for namespace in &network.namespaces {
                    self.primary.insert(namespace.as_str().into(), name.clone());
                }
            }
            let unchanged = earlier.get(&name).filter(|known| ***known == *network);
            let network = unchanged
                .cloned()
                .unwrap_or_else(|| Arc::new(network.clone()));
            self.networks.insert(name, network);
        }
        self.unread = Arc::new(UnreadNetworks::new(networks));
    }

    fn replace_definitions(&mut self, attached: &AttachedNetworks) {
        let definitions = attached.definitions();
        self.definitions = definitions
            .map(|(key, definition)| (key.clone(), definition.clone()))
            .collect();
        let networks = self.definitions.values().filter_map(network_of);
        self.attached = networks
            .map(|network| (network.name.clone(), network.clone()))
            .collect();
        let primary = attached.primary();
        self.primary_definitions = primary
            .map(|(namespace, key)| (namespace.clone(), key.cloned()))
            .collect();
        let primary = self.primary_definitions.iter();
        self.attached_primary = primary
            .filter_map(|(namespace, key)| {
                let network = self.defined_network(key.as_ref()?)?;
                Some((namespace.clone(), network.name.clone()))
            })
            .collect();
    }

    /// A network that pods are attached to, by name.
    pub fn attached_network(&self, name: &str) -> Option<&Arc<AttachedNetwork>> {
        self.attached.get(name)
    }

    /// Name of the network that the pods of a namespace are attached to first.
    pub fn attached_primary_of(&self, namespace: &str) -> Option<&Arc<str>> {
        self.attached_primary.get(namespace)
    }

    /// The network of an attachment definition.
    pub fn defined_network(&self, key: &NadKey) -> Option<&Arc<AttachedNetwork>> {
        self.definitions.get(key).and_then(network_of)
    }

    /// A network with an overlay that is primary in some namespaces.
    pub fn primary_network(&self, name: &str) -> Option<&Arc<Network>> {
        let network = self.networks.get(name);
        network.filter(|network| network.role == Role::Primary)
    }

    /// Name of the primary network of a namespace.
    pub fn primary_network_of(&self, namespace: &str) -> Option<&Arc<str>> {
        self.primary.get(namespace)
    }

    /// `true` if a network of this name may exist although it is not known.
    pub fn may_exist(&self, network: &str) -> bool {
        self.may_have_prefix(&network_prefix(network))
    }

    /// `true` if a network whose rows' names start with this prefix may exist although it is not
    /// known.
    pub fn may_have_prefix(&self, prefix: &str) -> bool {
        self.unread.may_have_prefix(prefix)
    }

    /// Adds a namespace, or replaces the one of its name.
    pub fn put_namespace(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) {
        let namespace = Arc::new(ZoneNamespace::new(name, labels, annotations));
        let former = self.namespaces.insert(name.into(), namespace);
        self.follow_namespace(name, former.as_deref());
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        let former = self.namespaces.remove(name);
        self.follow_namespace(name, former.as_deref());
    }

    /// All namespaces by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &ZoneNamespace)> {
        let namespaces = self.namespaces.iter();
        namespaces.map(|(name, namespace)| (name, &**namespace))
    }

    /// Logging of the ACLs of a namespace's policies.
    pub fn logging(&self, namespace: &str) -> AclLogging {
        let namespace = self.namespaces.get(namespace);
        namespace.map_or_else(AclLogging::default, |namespace| namespace.logging)
    }

    fn follow_namespace(&mut self, name: &str, former: Option<&ZoneNamespace>) {
        let current = self.namespaces.get(name).map(|namespace| &**namespace);
        if current == former {
            return;
        }
        let (name, has_other_labels) = (
            Arc::from(name),
            current.map(|of| &of.labels) != former.map(|of| &of.labels),
        );
        if has_other_labels {
            let mut selections = std::mem::take(&mut self.selections);
            selections.update_namespace(&name, self.candidates());
            self.selections = selections;
            self.follow_labels(&name);
        }
        self.follow_groups(&name);
        self.forget_places();
    }

    /// Adds a service, or replaces the one of its name.
    pub fn put_service(&mut self, service: Service) {
        self.services.insert(service.key.clone(), Arc::new(service));
    }

    /// Removes a service.
    pub fn remove_service(&mut self, key: &ServiceKey) {
        self.services.remove(key);
    }

    /// A service. `None`: there is none of this name.
    pub fn service(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    /// Keys of the services in a namespace.
    pub fn services_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &ServiceKey> {
        let first = ServiceKey {
            namespace: namespace.clone(),
            name: "".into(),
        };
        let services = self.services.range(first.clone()..);
        services
            .map(|(key, _)| key)
            .take_while(move |key| key.namespace == first.namespace)
    }

    /// Adds a slice, or replaces the one of its name. Slices of the default network have no effect.
    pub fn put_slice(&mut self, slice: EndpointSlice) {
        let slices = self.slices.entry(slice.service.clone()).or_default();
        slices.insert(slice.name.clone(), Arc::new(slice));
    }

    /// Removes the slice of this name of a service.
    pub fn remove_slice(&mut self, service: &ServiceKey, name: &str) {
        if let Some(slices) = self.slices.get_mut(service) {
            slices.remove(name);
            if slices.is_empty() {
                self.slices.remove(service);
            }
        }
    }

    /// The slices of a service that are mirrored into a network.
    pub fn slices<'a>(
        &'a self,
        service: &ServiceKey,
        network: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let slices = self.slices.get(service).into_iter();
        slices
            .flat_map(OrdMap::values)
            .map(|slice| &**slice)
            .filter(move |slice| slice.network.as_deref() == Some(network))
    }
}

fn network_of(definition: &Definition) -> Option<&Arc<AttachedNetwork>> {
    match definition {
        Definition::Network(network) => Some(network),
        Definition::None => None,
    }
}
