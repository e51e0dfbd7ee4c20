//! Addresses of external ports, external addresses and ports of pods.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use patchbay_model::vpc::{AddressSource, EipKind, PortRequest, VpcScene, VpcSubnet};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin};
use patchbay_resources::object::kube_ovn::{IP, OvnEip};

use super::claims::{Claim, Pools, allocate as allocate_claims};

/// Addresses that were allocated, with the pools that they are of.
#[derive(Debug, Default)]
pub(super) struct Allocated {
    /// Claims of external addresses, by name.
    pub(super) eips: BTreeMap<Arc<str>, EipClaim>,
    /// Claims of ports, by name, each with its requests: those of all pods of a virtual machine. None:
    /// the addresses are reserved.
    pub(super) ports: BTreeMap<Arc<str>, (Claim, Vec<PortRequest>)>,
    /// Claims of virtual addresses, by name.
    pub(super) virtual_ips: BTreeMap<Arc<str>, Claim>,
    pub(super) pools: Pools,
}

/// Claim of an external address.
#[derive(Clone, Debug)]
pub(super) struct EipClaim {
    pub(super) claim: Claim,
    pub(super) kind: EipKind,
    /// VPC whose port has the address, and its position. `None`: no port has it.
    pub(super) vpc: Option<Arc<str>>,
    position: u64,
}

/// Allocates the addresses of all objects. External addresses and records that only earlier runs
/// have made, and that nothing needs any more, are removed from the inventory.
pub(super) fn allocate(inventory: &mut Inventory, scene: &VpcScene) -> Allocated {
    let eips = eip_claims(inventory, scene);
    let ports = port_claims(inventory, scene);
    let virtual_ips = virtual_ip_claims(scene);
    let mut ordered: Vec<(&Arc<str>, &EipClaim)> = eips.iter().collect();
    ordered.sort_by_key(|(_, eip)| eip.position);
    let eip_names: Vec<Arc<str>> = ordered.iter().map(|(name, _)| (*name).clone()).collect();
    let of_eips = ordered.iter().map(|(_, eip)| eip.claim.clone());
    let of_ports = ports.iter().map(|(_, claim, _)| claim.clone());
    let of_virtual_ips = virtual_ips.iter().map(|(_, claim)| claim.clone());
    let mut claims: Vec<Claim> = of_eips.chain(of_ports).chain(of_virtual_ips).collect();
    let mut pools = Pools::new(scene);
    allocate_claims(&mut claims, &mut pools);
    let of_virtual_ips = claims.split_off(eip_names.len() + ports.len());
    let of_ports = claims.split_off(eip_names.len());
    let eip_claims: BTreeMap<Arc<str>, Claim> = eip_names.into_iter().zip(claims).collect();
    let eips = eips.into_iter().map(|(name, eip)| {
        let claim = eip_claims.get(&name).cloned().unwrap_or(eip.claim);
        (name, EipClaim { claim, ..eip })
    });
    let ports = ports.into_iter().zip(of_ports);
    Allocated {
        eips: eips.collect(),
        ports: ports.map(|((name, _, requests), claim)| (name, (claim, requests))).collect(),
        virtual_ips: virtual_ips
            .into_iter()
            .zip(of_virtual_ips)
            .map(|((name, _), claim)| (name, claim))
            .collect(),
        pools,
    }
}

/// `true` if an object was made by an earlier run, not by a user.
pub(super) fn is_made(origin: &Origin) -> bool {
    matches!(origin, Origin::State(_) | Origin::Rendered(_))
}

/// Claims of the external addresses of objects, and of ports without an object yet.
fn eip_claims(inventory: &mut Inventory, scene: &VpcScene) -> BTreeMap<Arc<str>, EipClaim> {
    let mut wanted: BTreeMap<String, (Arc<str>, Arc<str>, u64)> = BTreeMap::new();
    for (name, vpc) in &scene.objects.vpcs {
        let object = inventory.vpcs.get(&ObjectKey::cluster(&**name));
        let position = object.map_or(0, |object| object.position);
        for connection in scene.connections(vpc) {
            if connection.chassis.is_ok() {
                let eip = format!("{name}-{}", connection.subnet);
                wanted.insert(eip, (name.clone(), connection.subnet, position));
            }
        }
    }
    remove::<OvnEip>(inventory, |name| !wanted.contains_key(name));
    let mut claims = BTreeMap::new();
    for (name, eip) in &scene.objects.eips {
        let Some(object) = inventory.ovn_eips.get(&ObjectKey::cluster(&**name)) else {
            continue;
        };
        let port = wanted.remove(&**name);
        if eip.problem.is_some() {
            continue;
        }
        let claim = Claim {
            owner: format!("OvnEip {name}"),
            subnet: eip.subnet.clone(),
            held: eip.addresses.clone(),
            family: None,
            wishes: eip.wishes.clone(),
            source: None,
            found: Vec::new(),
            problem: None,
        };
        let claim = EipClaim {
            claim,
            kind: eip.kind,
            vpc: port.map(|(vpc, ..)| vpc),
            position: object.position,
        };
        claims.insert(name.clone(), claim);
    }
    let new = wanted.into_iter().map(|(name, (vpc, subnet, position))| {
        let claim = Claim {
            owner: format!("OvnEip {name}"),
            subnet,
            held: Vec::new(),
            family: None,
            wishes: Vec::new(),
            source: None,
            found: Vec::new(),
            problem: None,
        };
        let claim = EipClaim { claim, kind: EipKind::RouterPort, vpc: Some(vpc), position };
        (Arc::from(name), claim)
    });
    claims.extend(new);
    claims
}

/// Claims of ports, in the order of the pods' objects, after those of reserved addresses.
fn port_claims(
    inventory: &mut Inventory,
    scene: &VpcScene,
) -> Vec<(Arc<str>, Claim, Vec<PortRequest>)> {
    let ip_pools = scene.ip_pools();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    let mut usable: Vec<(Arc<str>, &VpcSubnet, Vec<&PortRequest>)> = Vec::new();
    for request in &scene.objects.requests {
        let Ok(subnet) = scene.subnet_of(request) else {
            continue;
        };
        let name = Arc::<str>::from(request.port());
        match places.entry(name.clone()) {
            Entry::Occupied(place) => {
                if let Some((_, _, requests)) = usable.get_mut(*place.get()) {
                    requests.push(request);
                }
            }
            Entry::Vacant(place) => {
                place.insert(usable.len());
                usable.push((name, subnet, vec![request]));
            }
        }
    }
    let names = places;
    remove::<IP>(inventory, |name| !names.contains_key(name));
    let claim = |owner: String, subnet: &Arc<str>| Claim {
        owner,
        subnet: subnet.clone(),
        held: Vec::new(),
        family: None,
        wishes: Vec::new(),
        source: None,
        found: Vec::new(),
        problem: None,
    };
    let records = scene.objects.ports.iter();
    let reserved = records.filter(|(name, _)| {
        let is_there = inventory.ips.get(&ObjectKey::cluster(&***name)).is_some();
        is_there && !names.contains_key(&***name)
    });
    let mut claims: Vec<_> = reserved
        .map(|(name, port)| {
            let claim =
                Claim { held: port.addresses.clone(), ..claim(format!("IP {name}"), &port.subnet) };
            (name.clone(), claim, Vec::new())
        })
        .collect();
    let of_pods = usable.into_iter().filter_map(|(name, subnet, requests)| {
        let first = requests.first()?;
        let record = scene.objects.ports.get(&name);
        let record = record.filter(|record| record.subnet == subnet.name);
        let claim = Claim {
            held: record.map(|record| record.addresses.clone()).unwrap_or_default(),
            family: first.family,
            wishes: first.wishes.clone(),
            source: first.source.as_ref().map(|source| match source {
                AddressSource::Listed(ranges) => ranges.clone(),
                AddressSource::Pool(name) => match ip_pools.get(name) {
                    Some(Ok(pool)) => pool.ranges.clone(),
                    _ => Vec::new(),
                },
            }),
            ..claim(format!("Pod {}", first.pod), &subnet.name)
        };
        Some((name, claim, requests.into_iter().cloned().collect()))
    });
    claims.extend(of_pods);
    claims
}

/// Claims of virtual addresses, in the order of their names.
fn virtual_ip_claims(scene: &VpcScene) -> Vec<(Arc<str>, Claim)> {
    let names = scene.objects.virtual_ips.keys();
    let usable = names.filter_map(|name| {
        let (virtual_ip, subnet) = scene.virtual_ip(name).ok()?;
        let claim = Claim {
            owner: format!("Vip {name}"),
            subnet: subnet.name.clone(),
            held: virtual_ip.addresses.clone(),
            family: None,
            wishes: virtual_ip.wishes.clone(),
            source: None,
            found: Vec::new(),
            problem: None,
        };
        Some((name.clone(), claim))
    });
    usable.collect()
}

/// Removes the objects of a kind that only earlier runs have made, and whose names are `gone`.
fn remove<T: patchbay_resources::manifests::InventoryKind>(
    inventory: &mut Inventory,
    gone: impl Fn(&str) -> bool,
) {
    let objects = T::objects_mut(inventory);
    let made: Vec<ObjectKey> = objects
        .iter()
        .filter(|(key, sourced)| is_made(&sourced.origin) && gone(&key.name))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &made {
        objects.remove(key);
    }
}
