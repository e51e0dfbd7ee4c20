//! Endpoints to which a service's port leads.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use patchbay_model::{
    Endpoint, EndpointPort, EndpointSlice, EndpointState, IpFamily, Network, Service, ServicePort,
};

/// Endpoints of a port of a service.
#[derive(Debug, Default)]
pub(super) struct PortEndpoints<'a> {
    /// Endpoints by the port number that they have. There are several while a service changes its
    /// target port.
    endpoints: BTreeMap<u16, Vec<&'a Endpoint>>,
    publishes_unready: bool,
}

/// Addresses and ports to which packets are sent, in the order of a load balancer's column.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Backends(Vec<SocketAddr>);

impl<'a> PortEndpoints<'a> {
    /// The endpoints of a port in all slices of its service.
    pub(super) fn new(
        service: &Service,
        port: &ServicePort,
        slices: impl Iterator<Item = &'a EndpointSlice>,
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
        Self { endpoints: by_number, publishes_unready: service.publishes_unready }
    }

    /// The endpoints on all nodes.
    pub(super) fn all(&self) -> Backends {
        self.backends(|_| true)
    }

    /// The endpoints on one node.
    pub(super) fn on_node(&self, node: &str) -> Backends {
        self.backends(|endpoint| endpoint.node.as_deref() == Some(node))
    }

    /// Of each port number the ready ones of the selected endpoints, or else those that still
    /// serve.
    fn backends(&self, is_selected: impl Fn(&Endpoint) -> bool) -> Backends {
        let of_number = |(number, endpoints): (&u16, &Vec<&Endpoint>)| {
            let of_state = |state: EndpointState| {
                let endpoints =
                    endpoints.iter().filter(|endpoint| is_selected(endpoint)).filter(|endpoint| {
                        endpoint.state == state
                            || self.publishes_unready && state == EndpointState::Ready
                    });
                endpoints.flat_map(|endpoint| endpoint.addresses.iter().copied()).collect()
            };
            let mut addresses: Vec<IpAddr> = of_state(EndpointState::Ready);
            if addresses.is_empty() {
                addresses = of_state(EndpointState::ServingTerminating);
            }
            // Columns have the order of the addresses' texts.
            addresses.sort_by_cached_key(ToString::to_string);
            addresses.dedup();
            let number = *number;
            let backends = addresses.into_iter();
            backends.map(move |address| SocketAddr::new(address, number))
        };
        Backends(self.endpoints.iter().flat_map(of_number).collect())
    }
}

impl Backends {
    /// The endpoints that are no pods of the network.
    pub(super) fn outside<'b>(&'b self, network: &'b Network) -> impl Iterator<Item = IpAddr> + 'b {
        let addresses = self.0.iter().map(SocketAddr::ip);
        addresses.filter(|address| {
            let mut subnets = network.pod_subnets.iter();
            !subnets.any(|subnet| subnet.cidr.contains(address))
        })
    }

    /// The backends with other addresses in place of some.
    pub(super) fn replace(mut self, replacement: impl Fn(IpAddr) -> Option<IpAddr>) -> Self {
        for backend in &mut self.0 {
            if let Some(address) = replacement(backend.ip()) {
                backend.set_ip(address);
            }
        }
        self
    }

    /// The backends of a family.
    fn of_family(&self, family: IpFamily) -> impl Iterator<Item = &SocketAddr> {
        let backends = self.0.iter();
        backends.filter(move |backend| IpFamily::of(backend.ip()) == family)
    }

    /// Returns `true` if there are backends of a family.
    pub(super) fn has_family(&self, family: IpFamily) -> bool {
        self.of_family(family).next().is_some()
    }

    /// The value of column `vips` for a virtual address of a family: empty without backends.
    pub(super) fn to_text(&self, family: IpFamily) -> String {
        let texts = self.of_family(family).map(ToString::to_string);
        texts.collect::<Vec<_>>().join(",")
    }
}
