//! Objects that have what was allocated: external addresses, records of ports, annotations of pods.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::vpc::{PortRequest, VpcScene};
use patchbay_model::{PodKey, gateway_mac, mac_of_name};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Problem, Sourced};
use patchbay_resources::object::kube_ovn::{IP, IpSpec, OvnEip, OvnEipSpec, OvnEipStatus, Vip};
use patchbay_resources::object::{Object as _, Time};

use super::addresses::{Allocated, EipClaim};
use super::claims::Claim;
use super::conditions;

/// Prefix of Kube-OVN's labels and annotations.
pub(super) const PREFIX: &str = "ovn.kubernetes.io";

/// Writes what was allocated into objects, and returns the pods without addresses.
pub(super) fn write(
    inventory: &mut Inventory,
    scene: &VpcScene,
    allocated: &Allocated,
    now: &Time,
) -> Vec<Problem> {
    for (name, eip) in &allocated.eips {
        write_eip(inventory, name, eip, now);
    }
    let mut unaddressed = Vec::new();
    for (name, (claim, requests)) in &allocated.ports {
        // The record is about the first pod, so that it comes last.
        for request in requests.iter().rev() {
            write_port(inventory, scene, (name, claim), request);
            let PodKey { namespace, name } = &request.pod;
            let pod = ObjectKey::namespaced(&**namespace, &**name);
            let pod = inventory.pods.get(&pod);
            let problem = pod
                .zip(claim.problem.as_ref())
                .map(|(pod, problem)| pod.problem(format!("Subnet {}: {problem}", claim.subnet)));
            unaddressed.extend(problem);
        }
    }
    for (name, claim) in &allocated.virtual_ips {
        let key = ObjectKey::cluster(&**name);
        if let Some(sourced) = inventory.vips.get_mut(&key) {
            write_virtual_ip(&mut sourced.object, claim);
            let problem = claim.problem.as_ref();
            unaddressed.extend(
                problem
                    .map(|problem| sourced.problem(format!("Subnet {}: {problem}", claim.subnet))),
            );
        }
    }
    unaddressed
}

/// Text of the address of a family; empty if there is none.
fn address_text(addresses: &[IpAddr], is_ipv6: bool) -> String {
    let mut addresses = addresses.iter();
    let address = addresses.find(|address| address.is_ipv6() == is_ipv6);
    address.map(ToString::to_string).unwrap_or_default()
}

/// An IPv6 address as the value of a label.
pub(super) fn label_value(address: &str) -> String {
    let dashed = address.replace(':', "-");
    let head = if dashed.starts_with('-') { "0" } else { "" };
    let tail = if dashed.ends_with('-') { "0" } else { "" };
    format!("{head}{dashed}{tail}")
}

fn write_eip(inventory: &mut Inventory, name: &Arc<str>, eip: &EipClaim, now: &Time) {
    let EipClaim { claim, kind, vpc, .. } = eip;
    let key = ObjectKey::cluster(&**name);
    if inventory.ovn_eips.get(&key).is_none() {
        if claim.found.is_empty() {
            return;
        }
        let spec = OvnEipSpec {
            external_subnet: claim.subnet.to_string(),
            type_: kind.as_str().to_owned(),
            ..OvnEipSpec::default()
        };
        let owner = vpc.as_deref().unwrap_or_default();
        inventory.ovn_eips.insert(Sourced {
            object: OvnEip::new(name, spec),
            origin: Origin::Rendered(format!("Vpc {owner}")),
            position: u64::MAX,
        });
    }
    let Some(sourced) = inventory.ovn_eips.get_mut(&key) else {
        return;
    };
    let object = &mut sourced.object;
    let status = object.status.get_or_insert_with(OvnEipStatus::default);
    let problem = claim.problem.as_ref();
    let result = match problem {
        None => Ok("AddressAllocated"),
        Some(problem) => Err(("AddressNotAllocated", problem.to_string())),
    };
    conditions::set(&mut status.conditions, "Ready", result, now);
    let (v4, v6) = (address_text(&claim.found, false), address_text(&claim.found, true));
    let wished = [&status.mac_address, &object.spec.mac_address];
    let mac = wished.iter().find(|mac| !mac.is_empty());
    let mac = mac.map(|mac| (*mac).clone()).or_else(|| gateway_mac(claim.found.iter().copied()));
    status.ready = problem.is_none() && !claim.found.is_empty();
    kind.as_str().clone_into(&mut status.type_);
    status.v4_ip.clone_from(&v4);
    status.v6_ip.clone_from(&v6);
    status.mac_address = mac.filter(|_| status.ready).unwrap_or_default();
    if status.ready {
        object.spec.v4_ip.clone_from(&v4);
        object.spec.v6_ip.clone_from(&v6);
        object.spec.mac_address.clone_from(&status.mac_address);
        object.spec.external_subnet = claim.subnet.to_string();
        status.type_.clone_into(&mut object.spec.type_);
    }
    let labels = object.metadata.labels.get_or_insert_default();
    for (label, value) in [
        ("subnet", claim.subnet.to_string()),
        ("ovn_eip_type", kind.as_str().to_owned()),
        ("eip_v4_ip", v4),
        ("eip_v6_ip", label_value(&v6)),
    ] {
        labels.insert(format!("{PREFIX}/{label}"), value);
    }
}

fn write_virtual_ip(object: &mut Vip, claim: &Claim) {
    let Vip { spec, status, .. } = object;
    let status = status.get_or_insert_default();
    status.v4_ip = address_text(&claim.found, false);
    status.v6_ip = address_text(&claim.found, true);
    let wished = Some(&spec.mac_address).filter(|mac| !mac.is_empty());
    let former = Some(&status.mac).filter(|mac| !mac.is_empty());
    let mac = wished.or(former).map(|mac| mac.to_ascii_lowercase());
    let mac = mac.or_else(|| gateway_mac(claim.found.iter().copied()));
    status.mac = mac.filter(|_| !claim.found.is_empty()).unwrap_or_default();
    status.type_.clone_from(&spec.type_);
    status.selector.clone_from(&spec.selector);
}

fn write_port(
    inventory: &mut Inventory,
    scene: &VpcScene,
    (name, claim): (&Arc<str>, &Claim),
    request: &PortRequest,
) {
    let Ok(subnet) = scene.usable_subnet(&claim.subnet) else {
        return;
    };
    let is_mac_only = subnet.nets.is_empty();
    if claim.found.is_empty() && !is_mac_only {
        inventory.ips.remove(&ObjectKey::cluster(&**name));
        return;
    }
    let key = ObjectKey::cluster(&**name);
    let former = inventory.ips.get(&key);
    let kept =
        former.map(|former| &former.object.spec.mac_address).filter(|mac| !mac.is_empty()).cloned();
    let mac = request
        .mac
        .clone()
        .or(kept)
        .or_else(|| gateway_mac(claim.found.iter().copied()))
        .unwrap_or_else(|| mac_of_name(name));
    let (v4, v6) = (address_text(&claim.found, false), address_text(&claim.found, true));
    let both: Vec<&str> =
        [&v4, &v6].into_iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
    let node = request.node.as_deref().unwrap_or_default();
    let spec = IpSpec {
        pod_name: request.machine.to_string(),
        namespace: request.pod.namespace.to_string(),
        subnet: claim.subnet.to_string(),
        node_name: node.to_owned(),
        ip_address: both.join(","),
        v4_ip_address: v4,
        v6_ip_address: v6,
        mac_address: mac.clone(),
        ..former.map(|former| former.object.spec.clone()).unwrap_or_default()
    };
    let mut object =
        former.map_or_else(|| IP::new(name, IpSpec::default()), |former| former.object.clone());
    let ip_address = spec.ip_address.clone();
    object.spec = spec;
    let labels = object.metadata.labels.get_or_insert_default();
    for (label, value) in [
        (format!("{PREFIX}/subnet"), claim.subnet.to_string()),
        (format!("{PREFIX}/node-name"), node.to_owned()),
        (format!("{PREFIX}/ip_reserved"), "false".to_owned()),
        (claim.subnet.to_string(), String::new()),
    ] {
        labels.insert(label, value);
    }
    let (origin, position) = former.map_or_else(
        || (Origin::Rendered(format!("Pod {}", request.pod)), u64::MAX),
        |former| (former.origin.clone(), former.position),
    );
    inventory.ips.insert(Sourced { object, origin, position });
    let nets = |text: fn(&patchbay_model::vpc::SubnetNet) -> String| {
        let texts: Vec<String> = subnet.nets.iter().map(text).collect();
        texts.join(",")
    };
    let mut annotations = BTreeMap::from([
        ("allocated", "true".to_owned()),
        ("cidr", nets(|net| net.net.to_string())),
        ("gateway", nets(|net| net.gateway.to_string())),
        ("ip_address", ip_address),
        ("logical_router", subnet.vpc.to_string()),
        ("logical_switch", claim.subnet.to_string()),
        ("mac_address", mac),
        ("pod_nic_type", "veth-pair".to_owned()),
    ]);
    if request.node.is_some() {
        annotations.insert("routed", "true".to_owned());
    }
    if let Some(vlan) = subnet.vlan.as_ref().and_then(|of| scene.objects.vlans.get(of)) {
        annotations.insert("vlan_id", vlan.id.to_string());
        annotations.insert("provider_network", vlan.provider.to_string());
    }
    let pod = ObjectKey::namespaced(&*request.pod.namespace, &*request.pod.name);
    if let Some(sourced) = inventory.pods.get_mut(&pod) {
        let of_pod = sourced.object.annotations_mut();
        for (key, value) in annotations {
            let key = format!("{}.kubernetes.io/{key}", request.provider);
            of_pod.entry(key).or_insert(value);
        }
    }
}
