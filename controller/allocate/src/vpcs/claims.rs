//! Claims of objects on addresses of a subnet.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::IpFamily;
use patchbay_model::vpc::{AddressRange, PoolError, VpcAddressPool, VpcScene};

/// Pools of all usable subnets, one for each range.
#[derive(Debug, Default)]
pub(super) struct Pools(BTreeMap<Arc<str>, Vec<VpcAddressPool>>);

impl Pools {
    /// Pools without used addresses.
    pub(super) fn new(scene: &VpcScene) -> Self {
        let names = scene.objects.subnets.keys();
        let pools = names.filter_map(|name| {
            let subnet = scene.usable_subnet(name).ok()?;
            let nets = subnet.nets.iter();
            let pools = nets.map(|net| VpcAddressPool::new(net.net, net.gateway, &subnet.excluded));
            Some((name.clone(), pools.collect()))
        });
        let mut found = Self(pools.collect());
        for reserved in scene.ip_pools().into_values().flatten() {
            let pools = found.0.get_mut(&reserved.subnet);
            for pool in pools.into_iter().flatten() {
                pool.reserve(&reserved.ranges);
            }
        }
        found
    }

    /// Takes the lowest free IPv4 address of a subnet for an object.
    pub(super) fn allocate_v4(&mut self, subnet: &str, owner: &str) -> Result<IpAddr, PoolError> {
        let pools = self.0.get_mut(subnet).into_iter().flatten();
        let mut of_family = pools.filter(|pool| pool.net().addr().is_ipv4());
        let unspecified = IpNet::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let pool = of_family.next().ok_or(PoolError::Exhausted(unspecified))?;
        pool.allocate(owner)
    }

    /// Gives addresses of an object back.
    pub(super) fn release(&mut self, subnet: &str, addresses: &[IpAddr], owner: &str) {
        for pool in self.0.get_mut(subnet).into_iter().flatten() {
            for address in addresses {
                pool.release(*address, owner);
            }
        }
    }

    /// Pools of a subnet, IPv4 first.
    pub(super) fn of(&self, subnet: &str) -> &[VpcAddressPool] {
        self.0.get(subnet).map_or(&[], Vec::as_slice)
    }
}

/// An object that needs one address of each range of a subnet.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Kind and name of the object.
    pub(super) owner: String,
    /// Name of the subnet.
    pub(super) subnet: Arc<str>,
    /// Addresses that the object has had.
    pub(super) held: Vec<IpAddr>,
    /// The only family of the addresses. `None`: one of each range.
    pub(super) family: Option<IpFamily>,
    /// Addresses that the object requires.
    pub(super) wishes: Vec<IpAddr>,
    /// Addresses of which the object gets free ones. `None`: those that are in no pool.
    pub(super) source: Option<Vec<AddressRange>>,
    /// Allocated addresses.
    pub(super) found: Vec<IpAddr>,
    /// Reason why the object has no addresses.
    pub(super) problem: Option<PoolError>,
}

/// Allocates the addresses of all claims: first those that objects have had, then those that they
/// require, then the lowest free ones, each in the order of the claims. An object with a refused
/// wish gets no address.
pub(super) fn allocate(claims: &mut [Claim], pools: &mut Pools) {
    for claim in &mut *claims {
        let pools = pools.0.entry(claim.subnet.clone()).or_default();
        let family = claim.family;
        for pool in pools.iter_mut().filter(|pool| is_wanted(family, pool)) {
            claim.take_held(pool);
        }
    }
    for claim in &mut *claims {
        let pools = pools.0.entry(claim.subnet.clone()).or_default();
        claim.take_wishes(pools);
    }
    for claim in claims.iter_mut().filter(|claim| claim.problem.is_none()) {
        let pools = pools.0.entry(claim.subnet.clone()).or_default();
        let family = claim.family;
        for pool in pools.iter_mut().filter(|pool| is_wanted(family, pool)) {
            claim.take_lowest(pool);
        }
        claim.found.sort_unstable_by_key(IpAddr::is_ipv6);
    }
    for claim in claims.iter_mut().filter(|claim| claim.problem.is_some()) {
        claim.found.clear();
    }
}

fn is_wanted(family: Option<IpFamily>, pool: &VpcAddressPool) -> bool {
    family.is_none_or(|family| IpFamily::of_net(pool.net()) == family)
}

impl Claim {
    fn has_in(&self, pool: &VpcAddressPool) -> bool {
        self.found.iter().any(|address| pool.net().contains(address))
    }

    fn take_held(&mut self, pool: &mut VpcAddressPool) {
        let net = pool.net();
        let wishes_other = |address: &IpAddr| {
            let mut wishes = self.wishes.iter().filter(|wish| net.contains(*wish));
            wishes.any(|wish| wish != address)
        };
        let held = self
            .held
            .iter()
            .find(|address| net.contains(*address))
            .copied()
            .filter(|address| !wishes_other(address));
        if let Some(address) = held.filter(|address| pool.take(*address, &self.owner).is_ok()) {
            self.found.push(address);
        }
    }

    fn take_wishes(&mut self, pools: &mut [VpcAddressPool]) {
        for address in self.wishes.clone() {
            let place = pools
                .iter()
                .position(|pool| pool.net().contains(&address))
                .or_else(|| {
                    let mut pools = pools.iter();
                    pools.position(|pool| pool.net().addr().is_ipv4() == address.is_ipv4())
                })
                .unwrap_or_default();
            let Some(pool) = pools.get_mut(place) else {
                continue;
            };
            if self.has_in(pool) {
                continue;
            }
            match pool.take(address, &self.owner) {
                Ok(()) => self.found.push(address),
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                }
            }
        }
    }

    fn take_lowest(&mut self, pool: &mut VpcAddressPool) {
        if self.has_in(pool) {
            return;
        }
        let found = match &self.source {
            Some(ranges) => pool.allocate_of(ranges, &self.owner),
            None => pool.allocate(&self.owner),
        };
        match found {
            Ok(address) => self.found.push(address),
            Err(problem) => {
                self.problem.get_or_insert(problem);
            }
        }
    }
}
