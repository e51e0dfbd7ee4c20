//! Inputs of VPCs' rows: what follows from the objects, with all references resolved.

use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::vpc::{
    BalancerKind, NatKey, StaticRoute, VpcScene, VpcVips, WiredBalancer, WiredEip, WiredGroup,
    WiredIpPool, WiredNat, WiredPort, WiredRouter, WiredSubnet, WiredVirtualIp, shared_vips,
};
use patchbay_rows::{Inputs, changed_keys};

/// Everything that the rows of VPCs follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZoneVpcs {
    pub(super) routers: OrdMap<Arc<str>, Arc<WiredRouter>>,
    pub(super) subnets: OrdMap<Arc<str>, Arc<WiredSubnet>>,
    pub(super) eips: OrdMap<Arc<str>, Arc<WiredEip>>,
    pub(super) nats: OrdMap<NatKey, Arc<WiredNat>>,
    /// Addresses in the load balancers of VPCs that have any.
    pub(super) balanced: OrdMap<Arc<str>, Arc<VpcVips>>,
    pub(super) router_rules: OrdMap<Arc<str>, Arc<WiredBalancer>>,
    pub(super) groups: OrdMap<Arc<str>, Arc<WiredGroup>>,
    pub(super) virtual_ips: OrdMap<Arc<str>, Arc<WiredVirtualIp>>,
    /// Pools with address sets.
    pub(super) ip_pools: OrdMap<Arc<str>, Arc<WiredIpPool>>,
    pub(super) ports: OrdMap<Arc<str>, Arc<WiredPort>>,
    /// `true`: objects may be missing, so that no row goes.
    is_incomplete: bool,
}

/// A piece of [`ZoneVpcs`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum VpcCell {
    /// Whether objects may be missing.
    Completeness,
    /// A VPC.
    Router(Arc<str>),
    /// A subnet.
    Subnet(Arc<str>),
    /// Port of a node on an external subnet.
    Eip(Arc<str>),
    /// Rule about an external address.
    Nat(NatKey),
    /// Addresses in the load balancers of a VPC.
    Balanced(Arc<str>),
    /// `RouterLBRule`.
    RouterRule(Arc<str>),
    /// Security group.
    Group(Arc<str>),
    /// Virtual address.
    VirtualIp(Arc<str>),
    /// Pool of addresses.
    IpPool(Arc<str>),
    /// Port of a pod.
    Port(Arc<str>),
}

impl ZoneVpcs {
    /// Inputs from the objects of all VPCs. `is_incomplete`: objects may be missing, because they
    /// cannot be read.
    pub fn new(scene: &VpcScene, is_incomplete: bool) -> Self {
        let rules = scene.rules();
        let balanced = shared_vips(&rules.balancers).into_iter();
        let of_routers = rules.balancers.into_iter().filter_map(|(key, balancer)| {
            let is_at_router = key.kind == BalancerKind::RouterRule;
            Some((key.name, Arc::new(balancer.ok().filter(|_| is_at_router)?)))
        });
        Self {
            routers: scene
                .routers()
                .map(|(name, router)| (name.clone(), Arc::new(router)))
                .collect(),
            subnets: scene
                .switches()
                .map(|(name, subnet)| (name.clone(), Arc::new(subnet)))
                .collect(),
            eips: scene.wired_eips().map(|(name, eip)| (name.clone(), Arc::new(eip))).collect(),
            nats: rules
                .nats
                .into_iter()
                .filter_map(|(key, nat)| Some((key, Arc::new(nat.ok()?))))
                .collect(),
            balanced: balanced.map(|(vpc, vips)| (vpc, Arc::new(vips))).collect(),
            router_rules: of_routers.collect(),
            groups: scene
                .groups()
                .into_iter()
                .filter_map(|(name, group)| Some((name, Arc::new(group.ok()?))))
                .collect(),
            virtual_ips: scene
                .wired_virtual_ips()
                .into_iter()
                .map(|(name, virtual_ip)| (name, Arc::new(virtual_ip)))
                .collect(),
            ip_pools: scene
                .ip_pools()
                .into_iter()
                .filter_map(|(name, pool)| Some((name, Arc::new(pool.ok()?))))
                .filter(|(_, pool)| pool.has_address_set)
                .collect(),
            ports: scene
                .wired_ports()
                .map(|(name, port)| (Arc::from(name), Arc::new(port)))
                .collect(),
            is_incomplete,
        }
    }

    /// The inputs with a route of each subnet's range to its own gateway, for the ovn-northd of
    /// Kube-OVN: packets that no other route takes reach the policies.
    #[must_use]
    pub fn with_fallback_routes(mut self, scene: &VpcScene) -> Self {
        for (vpc, routes) in scene.fallback_routes() {
            if let Some(router) = self.routers.get_mut(&vpc) {
                let router = Arc::make_mut(router);
                let new = routes.into_iter().filter(|route| !router.routes.contains(route));
                let new: Vec<StaticRoute> = new.collect();
                router.routes.extend(new);
            }
        }
        self
    }

    /// `true`: objects may be missing, so that no row goes.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }
}

impl Inputs for ZoneVpcs {
    type Cell = VpcCell;
    type Kind = ();

    fn kind(_: &VpcCell) {}

    fn diff(&self, earlier: Option<&Self>, _: &[()], changed: &mut dyn FnMut(VpcCell)) {
        let nothing = Self::default();
        let earlier = earlier.unwrap_or(&nothing);
        if earlier.is_incomplete != self.is_incomplete {
            changed(VpcCell::Completeness);
        }
        for name in changed_keys(&earlier.routers, &self.routers) {
            changed(VpcCell::Router(name.clone()));
        }
        for name in changed_keys(&earlier.subnets, &self.subnets) {
            changed(VpcCell::Subnet(name.clone()));
        }
        for name in changed_keys(&earlier.eips, &self.eips) {
            changed(VpcCell::Eip(name.clone()));
        }
        for key in changed_keys(&earlier.nats, &self.nats) {
            changed(VpcCell::Nat(key.clone()));
        }
        for vpc in changed_keys(&earlier.balanced, &self.balanced) {
            changed(VpcCell::Balanced(vpc.clone()));
        }
        for name in changed_keys(&earlier.router_rules, &self.router_rules) {
            changed(VpcCell::RouterRule(name.clone()));
        }
        for name in changed_keys(&earlier.groups, &self.groups) {
            changed(VpcCell::Group(name.clone()));
        }
        for name in changed_keys(&earlier.virtual_ips, &self.virtual_ips) {
            changed(VpcCell::VirtualIp(name.clone()));
        }
        for name in changed_keys(&earlier.ip_pools, &self.ip_pools) {
            changed(VpcCell::IpPool(name.clone()));
        }
        for name in changed_keys(&earlier.ports, &self.ports) {
            changed(VpcCell::Port(name.clone()));
        }
    }
}
