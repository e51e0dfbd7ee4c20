//! Virtual addresses, and the pods that may have them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::vpc::{VirtualIp, VirtualIpKind};
use patchbay_model::{FieldProblem, Pod};

use super::balancers::read_labels;
use crate::manifests::Inventory;
use crate::object::kube_ovn::Vip;
use crate::object::{self, Object as _};

/// Annotation of a pod: names of the virtual addresses that it may have, with commas between them.
const ADDRESS_PAIRS: &str = "ovn.kubernetes.io/aaps";

/// Virtual addresses by name.
pub(super) fn virtual_ips(
    inventory: &Inventory,
) -> BTreeMap<Arc<str>, Result<VirtualIp, FieldProblem>> {
    let vips = inventory.vips.iter();
    vips.map(|(key, sourced)| (Arc::from(&*key.name), virtual_ip(&sourced.object))).collect()
}

fn virtual_ip(object: &Vip) -> Result<VirtualIp, FieldProblem> {
    let spec = &object.spec;
    if spec.subnet.is_empty() {
        return Err(FieldProblem::new("spec.subnet", "the name of a Subnet is required"));
    }
    let kind = VirtualIpKind::parse(&spec.type_).ok_or_else(|| {
        let reason = "is neither switch_lb_vip nor kube_host_vm_vip";
        FieldProblem::of_text("spec.type", &spec.type_, reason)
    })?;
    if kind == VirtualIpKind::Host && spec.namespace.is_empty() {
        return Err(FieldProblem::new(
            "spec.namespace",
            "the namespace of the machine is required",
        ));
    }
    let mut wishes = Vec::new();
    for (field, text, is_ipv6) in
        [("spec.v4ip", &spec.v4_ip, false), ("spec.v6ip", &spec.v6_ip, true)]
    {
        if text.is_empty() {
            continue;
        }
        let address = text.parse::<IpAddr>().ok().filter(|one| one.is_ipv6() == is_ipv6);
        let family = if is_ipv6 { "IPv6" } else { "IPv4" };
        wishes.push(address.ok_or_else(|| {
            FieldProblem::of_text(field, text, &format!("is not an {family} address"))
        })?);
    }
    let mut problems = Vec::new();
    read_labels(&spec.selector, &mut problems);
    if !spec.attach_subnets.is_empty() {
        let reason = "not supported yet: no address follows from it";
        problems.push(FieldProblem::new("spec.attachSubnets", reason));
    }
    let status = object.status.as_ref();
    let allocated = status.into_iter().flat_map(|status| [&status.v4_ip, &status.v6_ip]);
    let former = status.map(|status| &status.mac).filter(|mac| !mac.is_empty());
    let mac = Some(&spec.mac_address).filter(|mac| !mac.is_empty()).or(former);
    Ok(VirtualIp {
        name: object.name_any().into(),
        subnet: spec.subnet.as_str().into(),
        kind,
        namespace: spec.namespace.as_str().into(),
        wishes,
        mac: mac.map(|mac| mac.to_ascii_lowercase()),
        addresses: allocated.filter_map(|text| text.parse().ok()).collect(),
        problems,
    })
}

/// Virtual addresses that a pod may have: its annotation names them, and their objects select the
/// pod. Others are problems.
pub(super) fn of_pod(
    inventory: &Inventory,
    object: &object::Pod,
    pod: &Pod,
) -> (Vec<Arc<str>>, Vec<FieldProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let text = object.annotations().get(ADDRESS_PAIRS).map(String::as_str).unwrap_or_default();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match refusal(inventory, name, pod) {
            None => found.push(Arc::from(name)),
            Some(reason) => problems.push(FieldProblem::of_annotation(ADDRESS_PAIRS, reason)),
        }
    }
    (found, problems)
}

/// Reason why a pod cannot have a virtual address.
fn refusal(inventory: &Inventory, name: &str, pod: &Pod) -> Option<String> {
    let Some(vip) = inventory.vips.named(name) else {
        return Some(format!("there is no Vip {name}"));
    };
    let spec = &vip.spec;
    if !spec.type_.is_empty() {
        return Some(format!("Vip {name} has spec.type {}, so that no machine has it", spec.type_));
    }
    if *spec.namespace != *pod.key.namespace {
        return Some(format!("Vip {name} is not for namespace {}", pod.key.namespace));
    }
    let labels = read_labels(&spec.selector, &mut Vec::new());
    let is_selected = labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
    (!is_selected).then(|| format!("spec.selector of Vip {name} does not select the pod"))
}
