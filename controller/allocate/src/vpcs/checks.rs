//! Addresses that check the machines of load balancers for health: a `Vip` with the name of the
//! machines' subnet, as in Kube-OVN.

use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::vpc::{ResolvedRules, VirtualIp, VirtualIpKind, VpcScene, checking_subnets};
use patchbay_model::{gateway_mac, vpc::PoolError};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Problem, Sourced};
use patchbay_resources::object::kube_ovn::{Vip, VipSpec};

use super::addresses::is_made;
use super::claims::Pools;

/// Makes the objects that are missing, and removes those that nothing needs any more. Returns the
/// subnets without a free address.
pub(super) fn allocate(
    inventory: &mut Inventory,
    scene: &mut VpcScene,
    rules: &ResolvedRules,
    pools: &mut Pools,
) -> Vec<Problem> {
    let wanted = checking_subnets(&rules.balancers);
    let made = inventory.vips.iter().filter(|(_, sourced)| is_made(&sourced.origin));
    let unwanted: Vec<ObjectKey> =
        made.filter(|(key, _)| !wanted.contains(&*key.name)).map(|(key, _)| key.clone()).collect();
    for key in &unwanted {
        inventory.vips.remove(key);
        if let Some(Ok(former)) = scene.objects.virtual_ips.remove(&*key.name) {
            pools.release(&former.subnet, &former.addresses, &owner(&key.name));
        }
    }
    let mut problems = Vec::new();
    for subnet in wanted {
        let key = ObjectKey::cluster(&*subnet);
        if inventory.vips.get(&key).is_some() {
            continue;
        }
        match pools.allocate_v4(&subnet, &owner(&subnet)) {
            Ok(address) => add(inventory, scene, &subnet, address),
            Err(problem) => problems.extend(unaddressed(inventory, &key, &problem)),
        }
    }
    problems
}

fn owner(name: &str) -> String {
    format!("Vip {name}")
}

fn unaddressed(inventory: &Inventory, key: &ObjectKey, problem: &PoolError) -> Option<Problem> {
    let subnet = inventory.subnets.get(key)?;
    Some(subnet.problem(format!("machines are not checked for health: {problem}")))
}

fn add(inventory: &mut Inventory, scene: &mut VpcScene, subnet: &Arc<str>, address: IpAddr) {
    let spec = VipSpec { subnet: subnet.to_string(), ..VipSpec::default() };
    let mut object = Vip::new(subnet, spec);
    let mac = gateway_mac([address]);
    let status = object.status.get_or_insert_default();
    status.v4_ip = address.to_string();
    status.mac = mac.clone().unwrap_or_default();
    let origin = Origin::Rendered(format!("Subnet {subnet}"));
    inventory.vips.insert(Sourced { object, origin, position: u64::MAX });
    let virtual_ip = VirtualIp {
        name: subnet.clone(),
        subnet: subnet.clone(),
        kind: VirtualIpKind::Machines,
        namespace: "".into(),
        wishes: Vec::new(),
        mac,
        addresses: vec![address],
        problems: Vec::new(),
    };
    scene.objects.virtual_ips.insert(subnet.clone(), Ok(virtual_ip));
}
