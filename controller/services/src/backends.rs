//! Endpoints to which a service's port leads.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use patchbay_model::{
    Endpoint, EndpointPort, EndpointSlice, EndpointState, IpFamily, Network, Service, ServicePort,
};

use super::problem::ServiceProblem;

/// Endpoints of a port of a service.
#[derive(Debug, Default)]
pub(super) struct PortEndpoints<'a> {
    /// Port number of the endpoints, with those that have it.
    endpoints: Option<(u16, Vec<&'a Endpoint>)>,
    publishes_unready: bool,
}

/// Addresses and port to which packets are sent, in the order of a load balancer's column.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Backends {
    addresses: Vec<IpAddr>,
    port: u16,
}

impl<'a> PortEndpoints<'a> {
    /// The endpoints of a port in all slices of its service. Of several port numbers, which OVN's
    /// load balancers cannot express, the lowest one is used.
    pub(super) fn new(
        service: &Service,
        port: &ServicePort,
        slices: impl Iterator<Item = &'a EndpointSlice>,
        problems: &mut Vec<ServiceProblem>,
    ) -> Self {
        let mut by_number = BTreeMap::<u16, Vec<&Endpoint>>::new();
        for slice in slices {
            let mut ports = slice.ports.iter();
            let is_it = |of: &&EndpointPort| of.protocol == port.protocol && of.name == port.name;
            if let Some(found) = ports.find(is_it) {
                let endpoints = by_number.entry(found.port).or_default();
                endpoints.extend(&slice.endpoints);
            }
        }
        let mut numbers = by_number.keys();
        if let (Some(used), Some(unused)) = (numbers.next(), numbers.next()) {
            problems.push(ServiceProblem::SeveralTargetPorts {
                name: port.name.clone(),
                protocol: port.protocol,
                used: *used,
                unused: *unused,
            });
        }
        Self {
            endpoints: by_number.into_iter().next(),
            publishes_unready: service.publishes_unready,
        }
    }

    /// The endpoints on all nodes.
    pub(super) fn all(&self) -> Backends {
        self.backends(|_| true)
    }

    /// The endpoints on one node.
    pub(super) fn on_node(&self, node: &str) -> Backends {
        self.backends(|endpoint| endpoint.node.as_deref() == Some(node))
    }

    /// The ready ones of the selected endpoints, or else those that still serve.
    fn backends(&self, is_selected: impl Fn(&Endpoint) -> bool) -> Backends {
        let Some((port, endpoints)) = &self.endpoints else {
            return Backends::default();
        };
        let of_state = |state: EndpointState| {
            let endpoints = endpoints.iter().filter(|endpoint| is_selected(endpoint));
            let endpoints = endpoints.filter(|endpoint| {
                endpoint.state == state || self.publishes_unready && state == EndpointState::Ready
            });
            endpoints
                .flat_map(|endpoint| endpoint.addresses.iter().copied())
                .collect()
        };
        let mut addresses: Vec<IpAddr> = of_state(EndpointState::Ready);
        if addresses.is_empty() {
            addresses = of_state(EndpointState::ServingTerminating);
        }
        // Columns have the order of the addresses' texts.
        addresses.sort_by_cached_key(ToString::to_string);
        addresses.dedup();
        Backends {
            addresses,
            port: *port,
        }
    }
}

impl Backends {
    /// The endpoints that are no pods of the network.
    pub(super) fn outside<'b>(&'b self, network: &'b Network) -> impl Iterator<Item = IpAddr> + 'b {
        let addresses = self.addresses.iter().copied();
        addresses.filter(|address| {
            let mut subnets = network.pod_subnets.iter();
            !subnets.any(|subnet| subnet.cidr.contains(address))
        })
    }

    /// The backends with other addresses in place of some.
    pub(super) fn replace(mut self, replacement: impl Fn(IpAddr) -> Option<IpAddr>) -> Self {
        for address in &mut self.addresses {
            *address = replacement(*address).unwrap_or(*address);
        }
        self
    }

    /// Returns `true` if there are backends of a family.
    pub(super) fn has_family(&self, family: IpFamily) -> bool {
        let mut addresses = self.addresses.iter();
        addresses.any(|address| IpFamily::of(*address) == family)
    }

    /// The value of column `vips` for a virtual address of a family: empty without backends.
    pub(super) fn to_text(&self, family: IpFamily) -> String {
        let addresses = self.addresses.iter().copied();
        let addresses = addresses.filter(|address| IpFamily::of(*address) == family);
        let texts = addresses.map(|address| SocketAddr::new(address, self.port).to_string());
        texts.collect::<Vec<_>>().join(",")
    }
}
