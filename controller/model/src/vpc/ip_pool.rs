//! Pools of addresses of a subnet, from which certain pods get theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{FieldProblem, IpFamily};

use super::pool::AddressRange;
use super::scene::VpcScene;

/// Pool of addresses, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IpPool {
    /// Name of the object.
    pub name: Arc<str>,
    /// Name of the subnet.
    pub subnet: Arc<str>,
    /// Addresses, each with the path of its entry.
    pub ranges: Vec<(String, AddressRange)>,
    /// `true`: an address set has the addresses.
    pub has_address_set: bool,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
    /// Position among the objects: of two pools with one address, the first one has it.
    pub position: u64,
}

/// Pool of addresses with its references resolved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredIpPool {
    /// Name of the subnet.
    pub subnet: Arc<str>,
    /// Addresses.
    pub ranges: Vec<AddressRange>,
    /// `true`: an address set has the addresses.
    pub has_address_set: bool,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
}

/// Addresses that a pod may have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AddressSource {
    /// Those of the pool with this name.
    Pool(Arc<str>),
    /// Those of a list, the first free one.
    Listed(Vec<AddressRange>),
}

impl VpcScene {
    /// Pools of addresses by name, or the reason why no pod gets addresses of one.
    pub fn ip_pools(&self) -> BTreeMap<Arc<str>, Result<WiredIpPool, FieldProblem>> {
        let mut ordered: Vec<&IpPool> = self.objects.ip_pools.values().flatten().collect();
        ordered.sort_by_key(|pool| pool.position);
        let mut found = BTreeMap::new();
        let mut used: BTreeMap<Arc<str>, Vec<(Arc<str>, AddressRange)>> = BTreeMap::new();
        for pool in ordered {
            let of_subnet = used.entry(pool.subnet.clone()).or_default();
            let resolved = self.resolve(pool, of_subnet);
            if let Ok(resolved) = &resolved {
                let ranges = resolved.ranges.iter();
                of_subnet.extend(ranges.map(|range| (pool.name.clone(), *range)));
            }
            found.insert(pool.name.clone(), resolved);
        }
        let unread = self.objects.ip_pools.iter();
        found.extend(unread.filter_map(|(name, pool)| {
            let problem = pool.as_ref().err()?;
            Some((name.clone(), Err(problem.clone())))
        }));
        found
    }

    fn resolve(
        &self,
        pool: &IpPool,
        used: &[(Arc<str>, AddressRange)],
    ) -> Result<WiredIpPool, FieldProblem> {
        let subnet = self.usable_subnet(&pool.subnet).map_err(|reason| {
            FieldProblem::new("spec.subnet", format!("Subnet {}: {reason}", pool.subnet))
        })?;
        let mut problems = pool.problems.clone();
        let mut ranges = Vec::new();
        for (field, range) in &pool.ranges {
            let nets = || subnet.nets.iter().map(|net| net.net);
            let is_inside =
                nets().any(|net| net.contains(&range.first) && net.contains(&range.last));
            let other = used.iter().find(|(_, other)| other.overlaps(*range));
            if !is_inside {
                let family = IpFamily::of(range.first);
                let mut of_family = nets().filter(|net| IpFamily::of_net(*net) == family);
                let reason = match of_family.next() {
                    Some(net) => format!("{range} is not in {net}"),
                    None => format!("Subnet {} has no range of IP{family}", pool.subnet),
                };
                problems.push(FieldProblem::new(field.clone(), reason));
            } else if let Some((other, _)) = other {
                let reason = format!("IPPool {other} has addresses of {range}");
                problems.push(FieldProblem::new(field.clone(), reason));
            } else {
                ranges.push(*range);
            }
        }
        if ranges.is_empty() {
            let missing = || FieldProblem::new("spec.ips", "an address is required");
            return Err(problems.into_iter().next().unwrap_or_else(missing));
        }
        Ok(WiredIpPool {
            subnet: pool.subnet.clone(),
            ranges,
            has_address_set: pool.has_address_set,
            problems,
        })
    }
}
