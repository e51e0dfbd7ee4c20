//! Rules of load balancers: which virtual addresses lead to which backends, and where.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use patchbay_model::{
    ClusterSettings, EndpointSlice, IpFamily, MasqueradePlace, Network, Protocol, Service,
    ServicePort,
};

use super::backends::{Backends, PortEndpoints};
use super::node::NodePlace;

/// Column `vips`: virtual addresses with ports, and their backends.
pub(super) type Vips = BTreeMap<String, String>;

/// Rules of a service by protocol.
pub(super) type ServiceRules = BTreeMap<Protocol, ProtocolRules>;

/// Rules of one protocol of a service.
#[derive(Debug, Default)]
pub(super) struct ProtocolRules {
    /// Rules of all switches and gateway routers of the network.
    pub(super) cluster: Vips,
    /// Rules of the gateway router of the zone's node.
    pub(super) router: Vips,
    /// Rules of the same gateway router that keep the client's address.
    pub(super) local_router: Vips,
    /// Rules of the switch of the zone's node.
    pub(super) switch: Vips,
}

/// Inputs of the rules of a service.
pub(super) struct Scene<'a> {
    pub(super) settings: &'a ClusterSettings,
    /// Name of the zone's node.
    pub(super) node: &'a str,
    pub(super) network: &'a Network,
    /// `None`: the network has no place on the zone's node.
    pub(super) place: Option<&'a NodePlace>,
    pub(super) service: &'a Service,
}

/// Virtual addresses of a port, and the endpoints that they lead to.
struct Forwarding<'a> {
    addresses: &'a [IpAddr],
    port: u16,
    endpoints: &'a PortEndpoints<'a>,
    scope: Scope,
}

/// Endpoints of virtual addresses.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Scope {
    /// All endpoints.
    Cluster,
    /// Switch: cluster IPs lead to endpoints on the client's node.
    InternalLocal,
    /// Gateway router: addresses lead to endpoints on the receiving node.
    ExternalLocal { is_node_port: bool },
}

impl Scene<'_> {
    /// The rules of a port. `ports` has the addresses and the node port that the service has.
    pub(super) fn add_rules<'s>(
        &self,
        port: &ServicePort,
        addresses: &PortAddresses,
        slices: impl Iterator<Item = &'s EndpointSlice>,
        rules: &mut ProtocolRules,
    ) -> Backends {
        let endpoints = PortEndpoints::new(self.service, port, slices);
        let all = endpoints.all();
        let forwarding = |addresses, port_number, scope| Forwarding {
            addresses,
            port: port_number,
            endpoints: &endpoints,
            scope,
        };
        let is_external_local = self.service.is_external_local;
        let external = |is_node_port| {
            if is_external_local { Scope::ExternalLocal { is_node_port } } else { Scope::Cluster }
        };
        if let (Some(number), Some(place)) = (addresses.node_port, self.place) {
            let of_node = forwarding(&place.node_port_addresses, number, external(true));
            self.add_node_rules(&of_node, rules);
        }
        let mut everywhere = addresses.cluster_ips.clone();
        if is_external_local {
            let outside = forwarding(&addresses.external_ips, port.port, external(false));
            self.add_node_rules(&outside, rules);
        } else {
            everywhere.extend(&addresses.external_ips);
        }
        let is_internal_local = self.service.is_internal_local;
        let scope = if is_internal_local { Scope::InternalLocal } else { Scope::Cluster };
        let inside = forwarding(&everywhere, port.port, scope);
        if is_internal_local || all.outside(self.network).next().is_some() {
            self.add_node_rules(&inside, rules);
        } else {
            for address in inside.addresses {
                let (vip, family) = inside.vip(*address);
                add(&mut rules.cluster, vip, &all, family);
            }
        }
        all
    }

    /// Adds rules of the zone's node.
    fn add_node_rules(&self, forwarding: &Forwarding<'_>, rules: &mut ProtocolRules) {
        let Some(place) = self.place else {
            return;
        };
        let all = forwarding.endpoints.all();
        let local = forwarding.endpoints.on_node(self.node);
        let is_external_local = matches!(forwarding.scope, Scope::ExternalLocal { .. });
        let of_router = if is_external_local { &local } else { &all };
        let of_router = self.as_router_reaches(place, of_router.clone());
        for address in forwarding.addresses {
            let (vip, family) = forwarding.vip(*address);
            let is_cluster_ip = self.service.cluster_ips.contains(address);
            let of_switch = if forwarding.scope == Scope::InternalLocal && is_cluster_ip {
                &local
            } else {
                &all
            };
            if forwarding.scope == (Scope::ExternalLocal { is_node_port: true }) {
                let place = MasqueradePlace::HostLocalNodePorts;
                if let Some(address) = self.settings.masquerade_address(place, family) {
                    let (vip, family) = forwarding.vip(address);
                    add(&mut rules.switch, vip, &local, family);
                }
            }
            let of_routers = if is_external_local && of_router.has_family(family) {
                &mut rules.local_router
            } else {
                &mut rules.router
            };
            add(of_routers, vip.clone(), &of_router, family);
            add(&mut rules.switch, vip, of_switch, family);
        }
    }

    /// The backends as a gateway router reaches them: its own addresses are those of the host,
    /// which answers at a masquerade address.
    fn as_router_reaches(&self, place: &NodePlace, backends: Backends) -> Backends {
        let own = place.gateway.as_ref().map_or(&[][..], |gateway| &gateway.addresses);
        backends.replace(|address| {
            let is_own = own.contains(&address);
            let family = IpFamily::of(address);
            let host = || self.settings.masquerade_address(MasqueradePlace::Host, family);
            is_own.then(host)?
        })
    }
}

/// Adds a virtual address. As in OVN-Kubernetes, the backends of one that is there already are
/// there twice: an external IP that is one of the status, too, and the address for node ports of
/// the host, which stands for each of its addresses.
fn add(vips: &mut Vips, vip: String, backends: &Backends, family: IpFamily) {
    let text = backends.to_text(family);
    let known = vips.entry(vip).or_default();
    if !known.is_empty() && !text.is_empty() {
        known.push(',');
    }
    known.push_str(&text);
}

/// Virtual addresses and node port that a port of a service has.
#[derive(Debug, Default)]
pub(super) struct PortAddresses {
    pub(super) cluster_ips: Vec<IpAddr>,
    pub(super) external_ips: Vec<IpAddr>,
    pub(super) node_port: Option<u16>,
}

impl Forwarding<'_> {
    /// A virtual address as a key of column `vips`, and its family.
    fn vip(&self, address: IpAddr) -> (String, IpFamily) {
        let vip = SocketAddr::new(address, self.port).to_string();
        (vip, IpFamily::of(address))
    }
}
