//! Inputs of services' rows: settings, nodes, networks, services and their endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    ClusterSettings, EndpointSlice, Network, Networks, NodeObject, Role, Service, ServiceKey,
    UnreadNetworks,
};
use patchbay_rows::{Inputs, changed_keys};

use super::node::{NodePlace, ServiceNode};

/// Everything that the load balancers of services in one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZoneServices {
    zone: Arc<Zone>,
    nodes: OrdMap<Arc<str>, Arc<ServiceNode>>,
    /// Primary networks by name.
    networks: OrdMap<Arc<str>, Arc<Network>>,
    /// Names of the primary networks of namespaces.
    primary: OrdMap<Arc<str>, Arc<str>>,
    services: OrdMap<ServiceKey, Arc<Service>>,
    /// Mirrored slices of services, by name.
    slices: OrdMap<ServiceKey, OrdMap<Arc<str>, Arc<EndpointSlice>>>,
    unread: Arc<UnreadNetworks>,
}

/// The zone and the cluster's settings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Zone {
    name: Arc<str>,
    settings: ClusterSettings,
}

/// A piece of [`ZoneServices`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ServiceCell {
    /// The zone and the cluster's settings.
    Zone,
    /// The zone's node.
    Node,
    /// The addresses of all nodes.
    NodeAddresses,
    /// A primary network, by name.
    Network(Arc<str>),
    /// The primary network of a namespace.
    Namespace(Arc<str>),
    /// A service with its endpoints.
    Service(ServiceKey),
    /// Networks that may exist although they are not known.
    Unread,
}

impl ZoneServices {
    /// Inputs of the zone of the node with this name, without objects.
    pub fn new(zone: &str, settings: &ClusterSettings) -> Self {
        Self {
            zone: Arc::new(Zone {
                name: zone.into(),
                settings: settings.clone(),
            }),
            ..Self::default()
        }
    }

    /// Sets the networks, of which only primary ones have services.
    pub fn set_networks(&mut self, networks: &Networks) {
        let primary = networks.iter().filter(|of| of.role == Role::Primary);
        let earlier = std::mem::take(&mut self.networks);
        self.primary.clear();
        for network in primary {
            let name: Arc<str> = network.name.as_str().into();
            for namespace in &network.namespaces {
                self.primary.insert(namespace.as_str().into(), name.clone());
            }
            let unchanged = earlier.get(&name).filter(|known| ***known == *network);
            let network = unchanged
                .cloned()
                .unwrap_or_else(|| Arc::new(network.clone()));
            self.networks.insert(name, network);
        }
        self.unread = Arc::new(UnreadNetworks::new(networks));
    }

    /// Adds a node, or replaces the one of its name.
    pub fn put_node(&mut self, object: NodeObject<'_>) {
        let node = Arc::new(ServiceNode::read(object));
        self.nodes.insert(object.name.into(), node);
    }

    /// Removes the node of this name.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Adds a service, or replaces the one of its name. As in OVN-Kubernetes, a service that the
    /// settings let all networks reach has no load balancers in the network of its namespace, but a
    /// route.
    pub fn put_service(&mut self, service: Service) {
        let reachable = &self.settings().reachable_default_services;
        if !reachable.contains(&service.key.to_string()) {
            self.services.insert(service.key.clone(), Arc::new(service));
        }
    }

    /// Removes a service.
    pub fn remove_service(&mut self, key: &ServiceKey) {
        self.services.remove(key);
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

    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    pub(super) fn settings(&self) -> &ClusterSettings {
        &self.zone.settings
    }

    /// A primary network.
    pub(super) fn network(&self, name: &str) -> Option<&Arc<Network>> {
        self.networks.get(name)
    }

    /// Name of the primary network of a namespace.
    pub(super) fn primary_network(&self, namespace: &str) -> Option<&Arc<str>> {
        self.primary.get(namespace)
    }

    pub(super) fn service(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    /// Keys of the services in a namespace.
    pub(super) fn services_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &ServiceKey> {
        let first = ServiceKey {
            namespace: namespace.clone(),
            name: "".into(),
        };
        let services = self.services.range(first.clone()..);
        let services = services.map(|(key, _)| key);
        services.take_while(move |key| key.namespace == first.namespace)
    }

    /// The slices of a service that are mirrored into a network.
    pub(super) fn slices<'a>(
        &'a self,
        service: &ServiceKey,
        network: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let slices = self.slices.get(service);
        let slices = slices
            .into_iter()
            .flat_map(OrdMap::values)
            .map(|slice| &**slice);
        slices.filter(move |slice| slice.network.as_deref() == Some(network))
    }

    /// The place of a network on the zone's node. `None`: the network has no switch there yet.
    pub(super) fn place(&self, network: &Network) -> Option<NodePlace> {
        let node = self.nodes.get(&self.zone.name)?;
        node.place(network, &self.zone.settings)
    }

    /// The addresses of all nodes.
    pub(super) fn node_addresses(&self) -> BTreeSet<IpAddr> {
        let nodes = self.nodes.values();
        nodes.flat_map(|node| node.addresses()).collect()
    }

    /// `true` if a network of this name may exist although it is not known.
    pub(super) fn may_exist(&self, network: &str) -> bool {
        self.unread.may_have_prefix(&network_prefix(network))
    }
}

impl Inputs for ZoneServices {
    type Cell = ServiceCell;

    fn diff(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(ServiceCell)) {
        let nothing = Self::default();
        let (is_first, earlier) = (earlier.is_none(), earlier.unwrap_or(&nothing));
        if is_first || earlier.zone != self.zone {
            changed(ServiceCell::Zone);
            changed(ServiceCell::Node);
        } else if earlier.nodes.get(&self.zone.name) != self.nodes.get(&self.zone.name) {
            changed(ServiceCell::Node);
        }
        if earlier.nodes.diff(&self.nodes).next().is_some() {
            changed(ServiceCell::NodeAddresses);
        }
        if earlier.unread != self.unread {
            changed(ServiceCell::Unread);
        }
        for name in changed_keys(&earlier.networks, &self.networks) {
            changed(ServiceCell::Network(name.clone()));
        }
        for namespace in changed_keys(&earlier.primary, &self.primary) {
            changed(ServiceCell::Namespace(namespace.clone()));
        }
        for key in changed_keys(&earlier.services, &self.services) {
            changed(ServiceCell::Service(key.clone()));
        }
        for key in changed_keys(&earlier.slices, &self.slices) {
            changed(ServiceCell::Service(key.clone()));
        }
    }
}
