//! Addresses of external ports, external addresses and ports of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::vpc::{EipKind, PortRequest, VpcScene};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin};
use patchbay_resources::object::kube_ovn::{IP, OvnEip};

use super::claims::{Claim, Pools, allocate as allocate_claims};

/// Addresses that were allocated, with the pools that they are of.
#[derive(Debug, Default)]
pub(super) struct Allocated {
    /// Claims of external addresses, by name.
    pub(super) eips: BTreeMap<Arc<str>, EipClaim>,
    /// Claims of ports, by name, each with its request. `None`: the addresses are reserved.
    pub(super) ports: BTreeMap<Arc<str>, (Claim, Option<PortRequest>)>,
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
    let mut ordered: Vec<(&Arc<str>, &EipClaim)> = eips.iter().collect();
    ordered.sort_by_key(|(_, eip)| eip.position);
    let eip_names: Vec<Arc<str>> = ordered.iter().map(|(name, _)| (*name).clone()).collect();
    let of_eips = ordered.iter().map(|(_, eip)| eip.claim.clone());
    let of_ports = ports.iter().map(|(_, claim, _)| claim.clone());
    let mut claims: Vec<Claim> = of_eips.chain(of_ports).collect();
    let mut pools = Pools::new(scene);
    allocate_claims(&mut claims, &mut pools);
    let of_ports = claims.split_off(eip_names.len());
    let eip_claims: BTreeMap<Arc<str>, Claim> = eip_names.into_iter().zip(claims).collect();
    let eips = eips.into_iter().map(|(name, eip)| {
        let claim = eip_claims.get(&name).cloned().unwrap_or(eip.claim);
        (name, EipClaim { claim, ..eip })
    });
    let ports = ports.into_iter().zip(of_ports);
    Allocated {
        eips: eips.collect(),
        ports: ports.map(|((name, _, request), claim)| (name, (claim, request))).collect(),
        pools,
    }
}

/// `true` if an object was made by an earlier run, not by a user.
fn is_made(origin: &Origin) -> bool {
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
) -> Vec<(Arc<str>, Claim, Option<PortRequest>)> {
    let requests = scene.objects.requests.iter();
    let usable: Vec<_> = requests
        .filter_map(|request| {
            let subnet = scene.subnet_of(request).ok()?;
            Some((Arc::<str>::from(request.port()), subnet, request))
        })
        .collect();
    let names: BTreeSet<&str> = usable.iter().map(|(name, ..)| &**name).collect();
    remove::<IP>(inventory, |name| !names.contains(name));
    let claim = |owner: String, subnet: &Arc<str>| Claim {
        owner,
        subnet: subnet.clone(),
        held: Vec::new(),
        family: None,
        wishes: Vec::new(),
        found: Vec::new(),
        problem: None,
    };
    let records = scene.objects.ports.iter();
    let reserved = records.filter(|(name, _)| {
        let is_there = inventory.ips.get(&ObjectKey::cluster(&***name)).is_some();
        is_there && !names.contains(&***name)
    });
    let mut claims: Vec<_> = reserved
        .map(|(name, port)| {
            let claim =
                Claim { held: port.addresses.clone(), ..claim(format!("IP {name}"), &port.subnet) };
            (name.clone(), claim, None)
        })
        .collect();
    let of_pods = usable.iter().map(|(name, subnet, request)| {
        let record = scene.objects.ports.get(name);
        let record = record.filter(|record| record.subnet == subnet.name);
        let claim = Claim {
            held: record.map(|record| record.addresses.clone()).unwrap_or_default(),
            family: request.family,
            wishes: request.wishes.clone(),
            ..claim(format!("Pod {}", request.pod), &subnet.name)
        };
        (name.clone(), claim, Some((*request).clone()))
    });
    claims.extend(of_pods);
    claims
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
