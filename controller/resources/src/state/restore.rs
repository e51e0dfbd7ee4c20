//! Restoration of state into the objects of manifests.

use std::fmt::Display;

use patchbay_model::{
    ConnectSubnetMap, DatapathKey, NETWORK_ID, NETWORK_NAME, NODE_ID, NODE_SUBNETS, NetworkId,
    POD_NETWORKS, PodNetworks, ROUTER_TUNNEL_KEY, TUNNEL_KEYS,
};
use serde_json::{Map, Value};

use crate::cnc::ClusterNetworkConnect;
use crate::ipam_claim::IPAMClaim;
use crate::manifests::{
    Inventory, InventoryKind, LoadError, ObjectKey, Origin, Problem, Sourced, describe,
};
use crate::nad::NetworkAttachmentDefinition;
use crate::object::kube_ovn::{
    IP, IPPool, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, RouterLBRule,
    SecurityGroup, Subnet, SwitchLBRule, Vip, Vlan, Vpc, VpcDns, VpcNatGateway,
};
use crate::object::platform::{
    BGPAdvertisement, BGPPeer, Deployment, IPAddressPool, L2Advertisement, Lease, ServiceCIDR,
};
use crate::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, ConfigMap, EgressFirewall, EgressIP,
    EndpointSlice, MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object, Pod,
    RouteAdvertisements, Service, VTEP,
};
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use patchbay_model::FieldProblem;

/// Adds the state of an earlier run to the objects of the manifests.
///
/// Added are the controller's annotations and the status where the manifests lack them, and
/// attachment definitions that belong to a custom resource. The spec is always that of the
/// manifests. State of objects that are no longer in the manifests is dropped. An object of the
/// manifests that cannot be decoded has the former version of the state, if the state has it whole.
/// Otherwise it has what the state has, so that others do not get its numbers and addresses, and
/// stays among the objects that cannot be decoded.
///
/// # Errors
/// [`LoadError`] if an annotation of the state cannot be read, or if a spec has changed in a way
/// that an API server would refuse. Nothing is restored then.
pub fn restore(manifests: &mut Inventory, state: &Inventory) -> Result<(), LoadError> {
    let mut problems = annotation_problems(state);
    problems.extend(refused_changes(manifests, state, |new: &UserDefinedNetwork, old| {
        new.spec.transition_violations(&old.spec)
    }));
    problems.extend(refused_changes(manifests, state, |new: &ClusterUserDefinedNetwork, old| {
        new.spec.transition_violations(&old.spec)
    }));
    problems.extend(refused_changes(manifests, state, |new: &ClusterNetworkConnect, old| {
        new.spec.transition_violations(&old.spec)
    }));
    if !problems.is_empty() {
        return Err(LoadError { problems });
    }
    restore_former_versions(manifests, state);
    restore_kind(manifests, state, |new: &mut Node, old| {
        restore_annotations(new, old, &[NODE_ID]);
        restore_node_subnets(new, old);
    });
    restore_kind(manifests, state, |new: &mut Pod, old| {
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        // A pod of this name on another node is another pod.
        if node(new) == node(old) {
            restore_annotations(new, old, &[POD_NETWORKS]);
        }
    });
    restore_kind(manifests, state, |new: &mut NetworkAttachmentDefinition, old| {
        restore_annotations(new, old, &[NETWORK_NAME, NETWORK_ID, TUNNEL_KEYS]);
    });
    restore_kind(manifests, state, |new: &mut IPAMClaim, old| {
        // A claim of another network is another claim.
        if new.spec.network == old.spec.network {
            restore_status(&mut new.status, old.status.as_ref());
        }
    });
    restore_kind(manifests, state, |new: &mut UserDefinedNetwork, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut ClusterUserDefinedNetwork, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut ClusterNetworkConnect, old| {
        restore_annotations(new, old, &[ConnectSubnetMap::ANNOTATION, ROUTER_TUNNEL_KEY]);
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_vpcs(manifests, state);
    for (key, nad) in state.network_attachment_definitions.iter() {
        let has_controller =
            nad.object.owner_references().iter().any(|owner| owner.controller == Some(true));
        if has_controller && manifests.network_attachment_definitions.get(key).is_none() {
            manifests.network_attachment_definitions.insert(nad.clone());
        }
    }
    Ok(())
}

/// Restores the status of the objects of VPCs, and the objects that an earlier run has made.
fn restore_vpcs(manifests: &mut Inventory, state: &Inventory) {
    restore_kind(manifests, state, |new: &mut ProviderNetwork, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut Vlan, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut Subnet, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut Vpc, old| {
        restore_status(&mut new.status, old.status.as_ref());
        // The id, by which connects know the VPC.
        if let Some(id) = old.annotations().get(NETWORK_ID) {
            let annotations = new.annotations_mut();
            annotations.entry(NETWORK_ID.to_owned()).or_insert_with(|| id.clone());
        }
    });
    restore_kind(manifests, state, |new: &mut OvnEip, old| {
        let subnet = |eip: &OvnEip| eip.spec.external_subnet.clone();
        // An address of another subnet is another address.
        if subnet(new).is_empty() || subnet(new) == subnet(old) {
            restore_status(&mut new.status, old.status.as_ref());
        }
    });
    restore_kind(manifests, state, |new: &mut OvnSnatRule, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut OvnDnatRule, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut OvnFip, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut SwitchLBRule, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut RouterLBRule, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    restore_kind(manifests, state, |new: &mut Vip, old| {
        // An address of another subnet is another address.
        if new.spec.subnet == old.spec.subnet {
            restore_status(&mut new.status, old.status.as_ref());
        }
    });
    restore_kind(manifests, state, |new: &mut IPPool, old| {
        restore_status(&mut new.status, old.status.as_ref());
    });
    let is_made = |origin: &Origin| !matches!(origin, Origin::Manifest(_));
    for (key, eip) in state.ovn_eips.iter() {
        // Addresses of routers' ports have no object of a user.
        let is_of_port = eip.object.spec.type_ == "lrp" && is_made(&eip.origin);
        if is_of_port && manifests.ovn_eips.get(key).is_none() {
            manifests.ovn_eips.insert(eip.clone());
        }
    }
    for (key, vip) in state.vips.iter() {
        // Addresses that check machines have the name of their subnet.
        let is_check = vip.object.spec.subnet == key.name && is_made(&vip.origin);
        if is_check && manifests.vips.get(key).is_none() {
            manifests.vips.insert(vip.clone());
        }
    }
    for (key, record) in state.ips.iter() {
        if is_made(&record.origin) && manifests.ips.get(key).is_none() {
            manifests.ips.insert(record.clone());
        }
    }
}

/// Problems of annotations that cannot be read. They are reported before the restoration, because
/// afterwards the annotations seem to come from the manifests.
fn annotation_problems(state: &Inventory) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (_, sourced) in state.nodes.iter() {
        for error in crate::conversion::node(&sourced.object).1 {
            problems.push(annotation_problem(sourced, error.annotation, &error.reason));
        }
    }
    for (_, sourced) in state.pods.iter() {
        let networks = sourced.object.annotations().get(POD_NETWORKS);
        if let Some(Err(error)) = networks.map(|text| PodNetworks::parse(text)) {
            problems.push(annotation_problem(sourced, POD_NETWORKS, &error));
        }
    }
    for (_, sourced) in state.network_attachment_definitions.iter() {
        let id = sourced.object.annotations().get(NETWORK_ID);
        if let Some(Err(error)) = id.map(|id| id.parse::<NetworkId>()) {
            problems.push(annotation_problem(sourced, NETWORK_ID, &error));
        }
    }
    for (_, sourced) in state.cluster_network_connects.iter() {
        let annotations = sourced.object.annotations();
        let key = annotations.get(ROUTER_TUNNEL_KEY);
        if let Some(Err(error)) = key.map(|key| key.parse::<DatapathKey>()) {
            problems.push(annotation_problem(sourced, ROUTER_TUNNEL_KEY, &error));
        }
        let subnets = annotations.get(ConnectSubnetMap::ANNOTATION);
        if let Some(Err(error)) = subnets.map(|text| ConnectSubnetMap::parse(text)) {
            let (key, error) = (ConnectSubnetMap::ANNOTATION, error.reason());
            problems.push(annotation_problem(sourced, key, error));
        }
    }
    problems
}

fn annotation_problem<T: InventoryKind>(
    sourced: &Sourced<T>,
    annotation: &str,
    error: &dyn Display,
) -> Problem {
    let message = format!("{error} (correct the file, or remove it to discard the state)");
    sourced.problem(message).in_annotation(annotation)
}

/// Problems of changes that an API server would refuse. Without its state, the object is a new
/// one, for which the new spec is valid.
fn refused_changes<T: InventoryKind>(
    manifests: &Inventory,
    state: &Inventory,
    violations: impl Fn(&T, &T) -> Vec<FieldProblem>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, new) in T::objects(manifests).in_order() {
        let Some(old) = T::objects(state).get(key) else {
            continue;
        };
        problems.extend(violations(&new.object, &old.object).into_iter().map(|violation| {
            Problem {
                location: new.origin.location().cloned(),
                object: Some(describe(&new.object)),
                field: Some(violation.field),
                message: format!("{} ({})", violation.reason, recreation_hint(old)),
            }
        }));
    }
    problems
}

/// Advice for a user who wants the refused change.
fn recreation_hint<T>(sourced: &Sourced<T>) -> String {
    match &sourced.origin {
        Origin::State(location) => format!("remove {} to recreate the object", location.file),
        // The old object is in the memory of this process.
        Origin::Manifest(_) | Origin::Archive(_) | Origin::Rendered(_) | Origin::Cluster => {
            "restart patchbay to recreate the object".to_owned()
        }
    }
}

/// Puts former versions in place of objects that cannot be decoded.
fn restore_former_versions(manifests: &mut Inventory, state: &Inventory) {
    // State files have whole objects of the first kinds, a part of nodes and pods, and no objects of
    // other kinds.
    restore_former::<UserDefinedNetwork>(manifests, state, true);
    restore_former::<ClusterUserDefinedNetwork>(manifests, state, true);
    restore_former::<ClusterNetworkConnect>(manifests, state, true);
    restore_former::<NetworkAttachmentDefinition>(manifests, state, true);
    restore_former::<IPAMClaim>(manifests, state, true);
    restore_former::<Node>(manifests, state, false);
    restore_former::<Pod>(manifests, state, false);
    restore_former::<Namespace>(manifests, state, false);
    restore_former::<Service>(manifests, state, false);
    restore_former::<EndpointSlice>(manifests, state, false);
    restore_former::<NetworkPolicy>(manifests, state, false);
    restore_former::<MultiNetworkPolicy>(manifests, state, false);
    restore_former::<AdminNetworkPolicy>(manifests, state, false);
    restore_former::<BaselineAdminNetworkPolicy>(manifests, state, false);
    restore_former::<EgressFirewall>(manifests, state, false);
    restore_former::<EgressIP>(manifests, state, false);
    restore_former::<RouteAdvertisements>(manifests, state, false);
    restore_former::<VTEP>(manifests, state, false);
    restore_former::<ProviderNetwork>(manifests, state, true);
    restore_former::<Vlan>(manifests, state, true);
    restore_former::<Subnet>(manifests, state, true);
    restore_former::<Vpc>(manifests, state, true);
    restore_former::<OvnEip>(manifests, state, true);
    restore_former::<OvnSnatRule>(manifests, state, true);
    restore_former::<OvnDnatRule>(manifests, state, true);
    restore_former::<OvnFip>(manifests, state, true);
    restore_former::<IP>(manifests, state, true);
    restore_former::<SwitchLBRule>(manifests, state, true);
    restore_former::<RouterLBRule>(manifests, state, true);
    restore_former::<SecurityGroup>(manifests, state, false);
    restore_former::<Vip>(manifests, state, true);
    restore_former::<IPPool>(manifests, state, true);
    restore_former::<VpcDns>(manifests, state, false);
    restore_former::<VpcNatGateway>(manifests, state, false);
    restore_former::<IPAddressPool>(manifests, state, false);
    restore_former::<L2Advertisement>(manifests, state, false);
    restore_former::<BGPAdvertisement>(manifests, state, false);
    restore_former::<BGPPeer>(manifests, state, false);
    restore_former::<ConfigMap>(manifests, state, false);
    restore_former::<ServiceCIDR>(manifests, state, false);
    restore_former::<Lease>(manifests, state, false);
    restore_former::<Deployment>(manifests, state, false);
}

/// Puts former versions of one kind. `is_whole`: state files have whole objects of the kind.
fn restore_former<T: InventoryKind>(manifests: &mut Inventory, state: &Inventory, is_whole: bool) {
    let missing: Vec<(ObjectKey, u64)> =
        manifests.missing(T::KIND).map(|one| (one.key.clone(), one.position)).collect();
    for (key, position) in missing {
        let Some(former) = T::objects(state).get(&key) else {
            continue;
        };
        T::objects_mut(manifests).insert(Sourced { position, ..former.clone() });
        if is_whole || !matches!(former.origin, Origin::State(_)) {
            manifests.undecoded.remove(&(T::KIND, key));
        }
    }
}

fn restore_kind<T: InventoryKind>(
    manifests: &mut Inventory,
    state: &Inventory,
    restore: impl Fn(&mut T, &T),
) {
    let objects = T::objects_mut(manifests);
    objects.change_each(|key, new| {
        if let Some(old) = T::objects(state).get(key) {
            restore(&mut new.object, &old.object);
        }
    });
}

fn restore_annotations<T: InventoryKind>(new: &mut T, old: &T, keys: &[&str]) {
    for key in keys {
        if let Some(value) = old.annotations().get(*key) {
            new.annotations_mut().entry((*key).to_owned()).or_insert_with(|| value.clone());
        }
    }
}

/// Restores the node subnets of networks for which the manifest has none. The annotation has one
/// entry for each network.
fn restore_node_subnets(new: &mut Node, old: &Node) {
    let read = |node: &Node| -> Option<Map<String, Value>> {
        serde_json::from_str(node.annotations().get(NODE_SUBNETS)?).ok()
    };
    match (read(new), read(old)) {
        (Some(given), Some(mut entries)) => {
            entries.extend(given);
            new.annotations_mut().insert(NODE_SUBNETS.to_owned(), Value::from(entries).to_string());
        }
        // An unreadable annotation of the manifest stays, and is reported where it is used.
        _ => restore_annotations(new, old, &[NODE_SUBNETS]),
    }
}

fn restore_status<S: Clone>(new: &mut Option<S>, old: Option<&S>) {
    if new.is_none() {
        *new = old.cloned();
    }
}
