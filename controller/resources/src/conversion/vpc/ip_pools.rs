//! Pools of addresses, and the pods that get addresses of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use patchbay_model::FieldProblem;
use patchbay_model::vpc::{AddressRange, AddressSource, IpPool, PortProblem};

use crate::manifests::{Inventory, Sourced};
use crate::object::kube_ovn::IPPool;

/// Pools by name.
pub(super) fn ip_pools(inventory: &Inventory) -> BTreeMap<Arc<str>, Result<IpPool, FieldProblem>> {
    let pools = inventory.ip_pools.iter();
    pools.map(|(key, sourced)| (Arc::from(&*key.name), ip_pool(&key.name, sourced))).collect()
}

fn ip_pool(name: &str, sourced: &Sourced<IPPool>) -> Result<IpPool, FieldProblem> {
    let spec = &sourced.object.spec;
    if spec.subnet.is_empty() {
        return Err(FieldProblem::new("spec.subnet", "the name of a Subnet is required"));
    }
    let (mut ranges, mut problems) = (Vec::new(), Vec::new());
    for (index, text) in spec.ips.iter().enumerate() {
        let field = format!("spec.ips[{index}]");
        if let Some(range) = AddressRange::parse_any(text) {
            ranges.push((field, range));
        } else {
            let reason = "is no address, range a..b or CIDR";
            problems.push(FieldProblem::of_text(field, text, reason));
        }
    }
    Ok(IpPool {
        name: name.into(),
        subnet: spec.subnet.as_str().into(),
        ranges,
        has_address_set: spec.enable_address_set,
        problems,
        position: sourced.position,
    })
}

/// Pools of namespaces, by subnet and namespace. Of several, the first one by name is used.
pub(super) struct NamespacePools<'a>(HashMap<(&'a str, &'a str), &'a str>);

impl<'a> NamespacePools<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        let mut found = HashMap::new();
        for (key, sourced) in inventory.ip_pools.iter() {
            let spec = &sourced.object.spec;
            for namespace in &spec.namespaces {
                found.entry((&*spec.subnet, &**namespace)).or_insert(&*key.name);
            }
        }
        Self(found)
    }

    /// The pool of a namespace in a subnet.
    pub(super) fn source(&self, subnet: &str, namespace: &str) -> Option<AddressSource> {
        let pool = self.0.get(&(subnet, namespace))?;
        Some(AddressSource::Pool(Arc::from(*pool)))
    }
}

/// Addresses that an annotation of a pod lists, or the pool that it names, with the subnet of the
/// pool.
pub(super) fn annotated(
    inventory: &Inventory,
    (key, text): (&str, &str),
) -> Result<(AddressSource, Option<Arc<str>>), PortProblem> {
    let refused = |reason| PortProblem::Wish { annotation: key.to_owned(), reason };
    if let Some(pool) = inventory.ip_pools.named(text.trim()) {
        let source = AddressSource::Pool(text.trim().into());
        return Ok((source, Some(pool.spec.subnet.as_str().into())));
    }
    let texts = text.split([',', ';']).map(str::trim).filter(|text| !text.is_empty());
    let ranges = texts.map(|text| {
        let range = AddressRange::parse(text);
        range.ok_or_else(|| refused(format!("{text:?} is neither an IPPool nor an address")))
    });
    Ok((AddressSource::Listed(ranges.collect::<Result<_, _>>()?), None))
}
