//! Objects of a zone by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    AdminPolicy, AdminPolicyKey, AttachedNetwork, AttachedNetworks, AttachmentDefinition,
    ClusterSettings, ConnectInput, Definition, EgressFirewall, EgressIp, EndpointSlice, IpFamily,
    NadKey, Network, NetworkId, NetworkObjects, Networks, Node, NodeObject, NodeSubnetOwners, Pod,
    PodKey, Policy, PolicyKey, RouteAdvertisement, Selector, Service, ServiceKey, UnreadNetworks,
};
use patchbay_rows::changed_keys;
use smol_str::SmolStr;

use super::firewalls::FirewallContext;
use super::groups::NamespaceGroup;
use super::logging::AclLogging;
use super::namespace::ZoneNamespace;
use super::networks::{ActiveNodes, ZoneNetwork};
use super::node::ZoneNode;
use super::node_ids::NodeIds;
use super::places::PlacedPod;
use super::pods::MachineKey;
use super::policies::NetworkNamespace;
use super::router_keys::RouterKeys;
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
    pub(crate) node_ids: NodeIds,
    /// Owners of the nodes' subnets in the networks.
    owners: NodeSubnetOwners,
    /// Networks by the prefix of their rows' names, because rows show nothing else.
    pub(crate) networks: OrdMap<Arc<str>, Arc<ZoneNetwork>>,
    pub(crate) name_conflicts: Arc<BTreeMap<String, String>>,
    /// Subnets of networks that have gone while the controller runs.
    pub(crate) former_subnets: Arc<BTreeSet<IpNet>>,
    pub(crate) advertisements: OrdMap<Arc<str>, Arc<RouteAdvertisement>>,
    /// Nodes of networks that are not rendered on all nodes.
    pub(crate) activity: OrdMap<Arc<str>, Arc<ActiveNodes>>,
    /// Networks of all definitions, which connects may name.
    pub(crate) connectable: OrdMap<NetworkId, Arc<Network>>,
    pub(crate) connects: OrdMap<SmolStr, Arc<ConnectInput>>,
    pub(crate) router_keys: RouterKeys,
    /// Number of load balancers that the services of each namespace need.
    pub(crate) load_balancers: OrdMap<Arc<str>, usize>,
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
            zone: Arc::new(Zone { name: zone.into(), settings: settings.clone() }),
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

    /// Adds a node, or replaces the one of its name. Subnets that others own are refused.
    pub fn put_node(&mut self, object: NodeObject<'_>) {
        let mut node = ZoneNode::read(&object);
        if let Some(earlier) = self.nodes.get(object.name) {
            node.chassis.follow(&earlier.chassis);
            self.owners.remove(&earlier.node);
        }
        self.owners.add(&node.node);
        self.owners.refuse(Arc::make_mut(&mut node.node));
        self.replace_node(object.name, Some(node));
        self.refuse_affected();
    }

    /// Adds a node whose subnets have been checked, or replaces the one of its name.
    pub fn put_checked_node(&mut self, node: Node) {
        let name = node.name.clone();
        self.replace_node(&name, Some(ZoneNode::of(node)));
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(earlier) = self.nodes.get(name) {
            self.owners.remove(&earlier.node);
        }
        self.replace_node(name, None);
        self.refuse_affected();
    }

    fn replace_node(&mut self, name: &str, node: Option<ZoneNode>) {
        let former = match node {
            Some(node) => self.nodes.insert(name.into(), Arc::new(node)),
            None => self.nodes.remove(name),
        };
        if let Some(former) = &former {
            self.node_ids.remove(&former.node);
        }
        if let Some(current) = self.nodes.get(name) {
            self.node_ids.add(&current.node);
        }
        self.follow_primary_subnets(name, former.as_deref());
        let labels = |node: Option<&Arc<ZoneNode>>| node.map(|node| node.labels.clone());
        if *name == **self.zone() && labels(self.own_node()) != labels(former.as_ref()) {
            self.follow_advertisements();
        }
    }

    /// Follows the networks in which nodes have subnets.
    pub(crate) fn follow_owners(&mut self) {
        let overlays = self.networks.values().filter_map(|of| of.kind.overlay());
        let rendered = overlays.map(|overlay| &overlay.network);
        let all: BTreeMap<&str, &Network> =
            rendered.chain(self.connectable.values()).map(|of| (of.name.as_str(), &**of)).collect();
        if self.owners.is_of(all.values().copied()) {
            return;
        }
        let nodes = self.nodes.values().map(|node| &*node.node);
        self.owners = NodeSubnetOwners::of_nodes(all.into_values(), nodes);
        self.owners.take_affected();
        let names: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
        for name in &names {
            self.refuse_subnets(name);
        }
    }

    /// Finds the refused subnets of nodes after a change of others.
    fn refuse_affected(&mut self) {
        for name in self.owners.take_affected() {
            self.refuse_subnets(&name);
        }
    }

    /// Finds the refused subnets of a node.
    fn refuse_subnets(&mut self, name: &str) {
        let Some(known) = self.nodes.get_mut(name) else {
            return;
        };
        let mut node = Node::clone(&known.node);
        self.owners.refuse(&mut node);
        if node != *known.node {
            let node = Arc::new(node);
            self.node_ids.remove(&known.node);
            self.node_ids.add(&node);
            Arc::make_mut(known).node = node;
        }
    }

    /// A node. `None`: there is none of this name.
    pub fn node(&self, name: &str) -> Option<&Arc<ZoneNode>> {
        self.nodes.get(name)
    }

    /// All nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ZoneNode>)> {
        self.nodes.iter()
    }

    /// The zone's node.
    pub fn own_node(&self) -> Option<&Arc<ZoneNode>> {
        self.node(self.zone())
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

    /// Takes over what a running controller has known of nodes, networks and firewalls, if the
    /// objects were read from nothing.
    pub fn follow(&mut self, earlier: &Self) {
        let changed: Vec<Arc<str>> = changed_keys(&earlier.nodes, &self.nodes).cloned().collect();
        for name in &changed {
            let former = earlier.nodes.get(name);
            if let (Some(node), Some(former)) = (self.nodes.get_mut(name), former) {
                Arc::make_mut(node).chassis.follow(&former.chassis);
            }
        }
        self.follow_networks(earlier);
        self.follow_firewalls(earlier);
        self.follow_connects(earlier);
    }

    /// Sets all objects from which the rows of networks follow. `labelled` has the namespaces with
    /// the label [`PRIMARY_NETWORK_LABEL`](patchbay_model::PRIMARY_NETWORK_LABEL).
    pub fn set_objects(&mut self, objects: &NetworkObjects<'_>, labelled: &BTreeSet<String>) {
        self.set_networks(&objects.networks, &objects.definitions, labelled);
        for node in &objects.nodes {
            self.put_node(*node);
        }
        for service in &objects.services {
            self.put_service(service.clone());
        }
        for object in &objects.advertisements {
            self.put_advertisement(object.clone());
        }
    }

    /// Sets the networks and their attachment definitions. `labelled` has the namespaces with the
    /// label [`PRIMARY_NETWORK_LABEL`](patchbay_model::PRIMARY_NETWORK_LABEL).
    pub fn set_networks(
        &mut self,
        networks: &Networks,
        definitions: &BTreeMap<NadKey, AttachmentDefinition<'_>>,
        labelled: &BTreeSet<String>,
    ) {
        let policies: Vec<Arc<Policy>> = self.policies.values().cloned().collect();
        let earlier: Vec<Vec<Arc<str>>> =
            policies.iter().map(|policy| self.networks_of(policy)).collect();
        self.replace_networks(networks, definitions);
        self.follow_owners();
        let attached = AttachedNetworks::new(networks, definitions.values(), labelled);
        self.replace_definitions(&attached);
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

    fn replace_definitions(&mut self, attached: &AttachedNetworks) {
        let definitions = attached.definitions();
        self.definitions =
            definitions.map(|(key, definition)| (key.clone(), definition.clone())).collect();
        let networks = self.definitions.values().filter_map(network_of);
        self.attached = networks.map(|network| (network.name.clone(), network.clone())).collect();
        let primary = attached.primary();
        self.primary_definitions =
            primary.map(|(namespace, key)| (namespace.clone(), key.cloned())).collect();
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
        let (name, has_other_labels) =
            (Arc::from(name), current.map(|of| &of.labels) != former.map(|of| &of.labels));
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
        let service = Arc::new(service);
        let former = self.services.insert(service.key.clone(), service.clone());
        self.follow_load_balancers(former.as_deref(), Some(&service));
    }

    /// Removes a service.
    pub fn remove_service(&mut self, key: &ServiceKey) {
        let former = self.services.remove(key);
        self.follow_load_balancers(former.as_deref(), None);
    }

    /// A service. `None`: there is none of this name.
    pub fn service(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    /// All services.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.values()
    }

    /// Keys of the services in a namespace.
    pub fn services_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &ServiceKey> {
        let first = ServiceKey { namespace: namespace.clone(), name: "".into() };
        let services = self.services.range(first.clone()..);
        services.map(|(key, _)| key).take_while(move |key| key.namespace == first.namespace)
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

    /// `true` if slices of a service are mirrored into some network.
    pub fn has_mirrored_slices(&self, service: &ServiceKey) -> bool {
        let mut slices = self.slices.get(service).into_iter().flat_map(OrdMap::values);
        slices.any(|slice| slice.network.is_some())
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
