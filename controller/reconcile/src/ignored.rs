//! Warnings about what has no effect although nothing is wrong with it: one for each kind, with the
//! number of objects and the first of them.

use std::collections::BTreeSet;

use patchbay_model::{
    ClusterSettings, Databases, Feature, Networks, PodPeer, Policy, PolicyDirection, Role, Selector,
};
use patchbay_resources::conversion::{endpoint_slice, network_policy};
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects, Problem};
use patchbay_resources::object::kube_ovn::KUBE_OVN_GROUP;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressIP, EndpointSlice, Object as _,
};

/// Returns the warnings about the objects of manifests.
pub(crate) fn ignored_warnings(
    inventory: &Inventory,
    networks: &Networks,
    settings: &ClusterSettings,
) -> Vec<Problem> {
    let found = [
        slices(inventory, networks),
        egress_ips(inventory, settings),
        peers(inventory, networks),
        admin_policies(inventory, networks, settings),
        vpcs(inventory, settings),
        lint_only(inventory),
        egress_ips_without_gateways(inventory, settings),
    ];
    found.into_iter().flatten().map(Problem::from).collect()
}

/// EndpointSlices of the default network, in namespaces with another primary network.
fn slices(inventory: &Inventory, networks: &Networks) -> Option<String> {
    let slices = inventory.endpoint_slices.iter().filter(|(key, slice)| {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let slice = endpoint_slice(&slice.object);
        networks.primary_nad(namespace).is_some()
            && slice.is_none_or(|slice| slice.network.is_none())
    });
    let counted = counted(EndpointSlice::KIND, slices.map(|(key, _)| key.to_string()))?;
    Some(format!(
        "{counted} of no user-defined network: ignored, because endpoints in namespaces with a \
         primary network follow from the selectors of Services and the pods"
    ))
}

/// EgressIPs that no cluster manager has assigned to nodes.
fn egress_ips(inventory: &Inventory, settings: &ClusterSettings) -> Option<String> {
    if !settings.has_feature(Feature::EgressIp) {
        // Zones report the feature.
        return None;
    }
    let unassigned = inventory.egress_ips.iter().filter(|(_, object)| {
        let status = object.object.status.as_ref();
        status.is_none_or(|status| status.items.is_empty())
    });
    let counted = counted(EgressIP::KIND, unassigned.map(|(key, _)| key.to_string()))?;
    Some(format!(
        "{counted} without status.items: ignored, because OVN-Kubernetes' cluster manager assigns \
         the addresses to nodes"
    ))
}

/// Peers of NetworkPolicies that select pods, but none in the policy's network.
fn peers(inventory: &Inventory, networks: &Networks) -> Option<String> {
    let policies = inventory.network_policies.iter();
    let found = policies.flat_map(|(_, object)| {
        let policy = network_policy(&object.object);
        let directions =
            [(PolicyDirection::Ingress, "ingress"), (PolicyDirection::Egress, "egress")];
        let rules = directions.into_iter().flat_map(|(direction, field)| {
            let rules = policy.rules(direction).iter().enumerate();
            let peers = rules.flat_map(move |(index, rule)| {
                let peers = rule.peers.iter().flat_map(|peers| &peers.pods);
                peers.map(move |peer| (format!("spec.{field}[{index}]"), peer))
            });
            peers.collect::<Vec<_>>()
        });
        let foreign = rules.filter(|(_, peer)| is_foreign(peer, &policy, inventory, networks));
        let key = policy.key.to_string();
        let names = foreign.map(|(field, _)| format!("{key}: {field}"));
        names.collect::<Vec<String>>()
    });
    let counted = counted("peer of", found)?;
    Some(format!(
        "{counted}, selects pods of other networks only: nothing is allowed, because labels select \
         pods of the policy's network; use ipBlock for pods of connected networks"
    ))
}

/// `true` if a peer selects pods, and all of them have another primary network than the policy.
fn is_foreign(peer: &PodPeer, policy: &Policy, inventory: &Inventory, networks: &Networks) -> bool {
    let primary = |namespace: &str| {
        let network = networks.by_nad(networks.primary_nad(namespace)?)?;
        Some(network.name.as_str())
    };
    let Some(own) = primary(&policy.key.namespace) else {
        return false;
    };
    let Some(labels) = &peer.namespaces else {
        return false;
    };
    let selected = inventory
        .namespaces
        .iter()
        .filter(|(_, namespace)| labels.matches(namespace.object.labels()))
        .map(|(key, _)| key.name.as_str());
    let all = Selector::default();
    let pods = peer.pods.as_ref().unwrap_or(&all);
    let has_pods = |namespace: &str| {
        let mut of_namespace = inventory.pods.in_namespace(namespace);
        of_namespace.any(|(_, pod)| pods.matches(pod.object.labels()))
    };
    let found: BTreeSet<Option<&str>> =
        selected.filter(|namespace| has_pods(namespace)).map(primary).collect();
    !found.is_empty() && !found.contains(&Some(own))
}

/// Policies of administrators, beside primary networks.
fn admin_policies(
    inventory: &Inventory,
    networks: &Networks,
    settings: &ClusterSettings,
) -> Option<String> {
    let primary = networks.iter().filter(|one| one.role == Role::Primary);
    let is_concerned = settings.has_feature(Feature::AdminNetworkPolicy) && primary.count() > 0;
    if !is_concerned {
        return None;
    }
    let admin = inventory
        .admin_network_policies
        .iter()
        .map(|(key, _)| format!("{} {key}", AdminNetworkPolicy::KIND));
    let baseline = inventory
        .baseline_admin_network_policies
        .iter()
        .map(|(key, _)| format!("{} {key}", BaselineAdminNetworkPolicy::KIND));
    let counted = counted("policy of administrators", admin.chain(baseline))?;
    Some(format!(
        "{counted}: no effect on packets in user-defined networks, because these policies are \
         about the default network only, as in OVN-Kubernetes"
    ))
}

/// Objects of Kube-OVN, which need one database for all nodes.
fn vpcs(inventory: &Inventory, settings: &ClusterSettings) -> Option<String> {
    if settings.databases == Databases::Central {
        return None;
    }
    let counted = counted(KUBE_OVN_GROUP, inventory.kube_ovn_objects())?;
    Some(format!(
        "{counted}: ignored, because a VPC is in one Northbound database for all nodes, and each zone \
         has its own"
    ))
}

/// Objects of Kube-OVN that rows do not follow from yet, each kind by its name.
fn lint_only(inventory: &Inventory) -> Option<String> {
    fn named<T: InventoryKind>(objects: &Objects<T>) -> Option<String> {
        counted(T::KIND, objects.iter().map(|(key, _)| key.to_string()))
    }
    let kinds = [named(&inventory.vpc_dnses), named(&inventory.vpc_nat_gateways)];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    let names = (!kinds.is_empty()).then(|| kinds.join(", "))?;
    Some(format!("{KUBE_OVN_GROUP} {names}: ignored, because only lint reads such objects"))
}

/// EgressIPs, which need the gateway routers of nodes.
fn egress_ips_without_gateways(
    inventory: &Inventory,
    settings: &ClusterSettings,
) -> Option<String> {
    if settings.databases != Databases::Central {
        return None;
    }
    let names = inventory.egress_ips.iter().map(|(key, _)| key.to_string());
    let counted = counted(EgressIP::KIND, names)?;
    Some(format!(
        "{counted}: ignored, because networks in one database for all nodes have no gateway routers"
    ))
}

/// Kind, number and first name of objects, such as `EgressIP a and 2 more`. `None`: there are none.
fn counted(kind: &str, mut names: impl Iterator<Item = String>) -> Option<String> {
    let first = names.next()?;
    Some(match names.count() {
        0 => format!("{kind} {first}"),
        more => format!("{kind} {first} and {more} more"),
    })
}
