//! Warnings about objects that are valid but probably not what the user wants.

use std::collections::BTreeSet;

use patchbay_resources::object::{
    Condition, EgressFirewall, EndpointSlice, LabelSelector, MultiNetworkPolicy, Namespace,
    NetworkPolicy, Object, Pod, Service,
};

use patchbay_allocate::connects::ACCEPTED;
use patchbay_allocate::networks::{NETWORK_CREATED, TRANSPORT_ACCEPTED};
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::{
    NadKey, NadProblem, NetConfError, Networks, PRIMARY_NETWORK_LABEL, unreadable_annotations,
};
use patchbay_resources::cnc::NetworkSelector;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Problem, Sourced, describe,
};
use patchbay_resources::selector::{self, LabelIndex};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, NetworkStatus, UnmaskedSubnet};

/// Maximum number of namespaces or reasons that a warning lists; the rest is a count.
const MAX_LISTED: usize = 5;

/// Namespaces that every cluster has.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Returns warnings about single objects.
pub(crate) fn object_warnings(inventory: &Inventory, networks: &Networks) -> Vec<Problem> {
    let mut found = network_warnings(inventory);
    found.extend(host_bits_warnings(inventory));
    found.extend(selector_warnings(inventory, networks));
    found.extend(namespace_warnings(inventory));
    found.extend(address_warnings(inventory));
    found
}

/// Returns warnings about objects in namespaces that do not exist, which have no effect.
fn namespace_warnings(inventory: &Inventory) -> Vec<Problem> {
    let mut found = in_no_namespace::<Pod>(inventory);
    found.extend(in_no_namespace::<Service>(inventory));
    found.extend(in_no_namespace::<EndpointSlice>(inventory));
    found.extend(in_no_namespace::<NetworkPolicy>(inventory));
    found.extend(in_no_namespace::<MultiNetworkPolicy>(inventory));
    found.extend(in_no_namespace::<EgressFirewall>(inventory));
    found
}

/// Objects of one kind in namespaces that do not exist.
fn in_no_namespace<T: InventoryKind>(inventory: &Inventory) -> Vec<Problem> {
    let objects = T::objects(inventory).in_order().into_iter();
    let in_no_namespace = objects.filter_map(|(key, object)| {
        let namespace = key.namespace.as_deref()?;
        let exists = SYSTEM_NAMESPACES.contains(&namespace)
            || inventory.namespaces.named(namespace).is_some();
        let problem = || object.problem(format!("there is no namespace {namespace}"));
        (!exists).then(|| problem().in_field("metadata.namespace"))
    });
    in_no_namespace.collect()
}

/// Returns warnings about addresses and gateways of nodes that cannot be read.
fn address_warnings(inventory: &Inventory) -> Vec<Problem> {
    let nodes = inventory.nodes.in_order().into_iter();
    let unread = nodes.flat_map(|(_, node)| {
        let unreadable = unreadable_annotations(Some(node.object.annotations())).into_iter();
        unreadable.map(|(annotation, reason)| node.problem(reason).in_annotation(annotation))
    });
    unread.collect()
}

/// Returns warnings about selectors of connects that match nothing or only a part.
fn selector_warnings(inventory: &Inventory, networks: &Networks) -> Vec<Problem> {
    let connects = inventory.cluster_network_connects.in_order().into_iter();
    let labels = &Labels::new(inventory);
    connects
        .flat_map(|(_, connect)| {
            let selectors = connect.object.spec.network_selectors.iter().enumerate();
            selectors.flat_map(move |(place, entry)| {
                let (member, messages) = check_selector(labels, networks, entry);
                let field = format!("spec.networkSelectors[{place}].{member}");
                let messages = messages.into_iter();
                messages.map(move |message| connect.problem(message).in_field(&*field))
            })
        })
        .collect()
}

/// Objects that selectors select, by label.
struct Labels<'a> {
    /// ClusterUserDefinedNetworks, and the definitions of such networks. The manifests may contain
    /// definitions without their network.
    networks: LabelIndex<'a, ()>,
    namespaces: LabelIndex<'a, (&'a ObjectKey, &'a Sourced<Namespace>)>,
}

impl<'a> Labels<'a> {
    fn new(inventory: &'a Inventory) -> Self {
        let networks = inventory.cluster_user_defined_networks.iter();
        let nads = inventory
            .network_attachment_definitions
            .iter()
            .filter(|(_, nad)| nad.object.controlling_cudn().is_some());
        let namespaces = inventory.namespaces.iter();
        Self {
            networks: networks
                .map(|(_, network)| ((), network.object.labels()))
                .chain(nads.map(|(_, nad)| ((), nad.object.labels())))
                .collect(),
            namespaces: namespaces
                .map(|(key, namespace)| ((key, namespace), namespace.object.labels()))
                .collect(),
        }
    }
}

/// Selects objects. A selector with violations selects none.
fn select<'i, T>(index: &'i LabelIndex<'_, T>, labels: &LabelSelector) -> Vec<&'i T> {
    selector::parse("", labels).map_or_else(|_| Vec::new(), |selector| index.select(&selector))
}

/// Returns the path of the selector in the entry, and the warnings about it.
fn check_selector(
    labels: &Labels<'_>,
    networks: &Networks,
    entry: &NetworkSelector,
) -> (&'static str, Vec<String>) {
    if let Some(member) = &entry.cluster_user_defined_network_selector {
        let is_found = !select(&labels.networks, &member.network_selector).is_empty();
        let messages = (!is_found).then(|| "matches no network".to_owned());
        return (
            "clusterUserDefinedNetworkSelector.networkSelector",
            messages.into_iter().collect(),
        );
    }
    let Some(member) = &entry.primary_user_defined_network_selector else {
        return ("networkSelectionType", Vec::new());
    };
    (
        "primaryUserDefinedNetworkSelector.namespaceSelector",
        check_namespaces(&labels.namespaces, networks, &member.namespace_selector),
    )
}

/// Returns warnings about selected namespaces that have no primary network. A selector of all
/// namespaces gives no warning about single namespaces.
fn check_namespaces(
    namespaces: &LabelIndex<'_, (&ObjectKey, &Sourced<Namespace>)>,
    networks: &Networks,
    labels: &LabelSelector,
) -> Vec<String> {
    let selected = select(namespaces, labels).into_iter().copied();
    let (labelled, others): (Vec<_>, Vec<_>) = selected.partition(|(_, namespace)| {
        let labels = namespace.object.labels();
        labels.contains_key(PRIMARY_NETWORK_LABEL)
    });
    let names = |namespaces: &[(&ObjectKey, &Sourced<Namespace>)]| {
        let plural = if namespaces.len() == 1 { "" } else { "s" };
        let names: Vec<&str> = namespaces.iter().map(|(key, _)| &*key.name).collect();
        format!("namespace{plural} {}", abbreviate_list(&names, MAX_LISTED))
    };
    let selects_all = *labels == LabelSelector::default();
    let mut messages = Vec::new();
    if labelled.is_empty() {
        messages.push("matches no network".to_owned());
    }
    if !others.is_empty() && !selects_all {
        messages.push(format!(
            "selects {} without the label {PRIMARY_NETWORK_LABEL}: pods there are on the default network",
            names(&others)
        ));
    }
    let without: Vec<_> =
        labelled.into_iter().filter(|(key, _)| networks.primary_nad(&key.name).is_none()).collect();
    if !without.is_empty() && !selects_all {
        messages.push(format!("selects {} without a primary network", names(&without)));
    }
    messages
}

/// Returns a warning about the condition `Accepted` of a connect, if it is `False`.
pub(crate) fn connect_refusals(inventory: &Inventory, connect: &str) -> Vec<Problem> {
    let key = ObjectKey::cluster(connect);
    let Some(sourced) = inventory.cluster_network_connects.get(&key) else {
        return Vec::new();
    };
    let status = sourced.object.status.as_ref();
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == ACCEPTED && condition.status == "False")
        .map(|condition| {
            let message = format!("{} is False: {}", condition.type_, condition.message);
            sourced.problem(message)
        })
        .collect()
}

/// Returns a warning for each network that a cluster would refuse, and for others with an uplink.
fn network_warnings(inventory: &Inventory) -> Vec<Problem> {
    let mut warnings = network_refusals(inventory);
    let cudns = inventory.cluster_user_defined_networks.iter();
    let accepted = cudns.filter(|(_, cudn)| refusal(cudn, cudn.object.status.as_ref()).is_none());
    warnings.extend(accepted.filter_map(|(_, cudn)| unread_uplink(cudn)));
    warnings
}

/// Returns a warning for each network that a cluster would refuse.
pub(crate) fn network_refusals(inventory: &Inventory) -> Vec<Problem> {
    let udns = inventory
        .user_defined_networks
        .iter()
        .map(|(_, udn)| refusal(udn, udn.object.status.as_ref()));
    let cudns = inventory
        .cluster_user_defined_networks
        .iter()
        .map(|(_, cudn)| refusal(cudn, cudn.object.status.as_ref()));
    udns.chain(cudns).flatten().collect()
}

/// Returns a warning for each subnet with host bits: it is read without them, as in OVN-Kubernetes.
fn host_bits_warnings(inventory: &Inventory) -> Vec<Problem> {
    let udns = inventory
        .user_defined_networks
        .iter()
        .flat_map(|(_, udn)| unmasked(udn, udn.object.spec.unmasked_subnets()));
    let cudns = inventory
        .cluster_user_defined_networks
        .iter()
        .flat_map(|(_, cudn)| unmasked(cudn, cudn.object.spec.unmasked_subnets()));
    udns.chain(cudns).collect()
}

fn unmasked<T: InventoryKind>(
    network: &Sourced<T>,
    subnets: Vec<UnmaskedSubnet>,
) -> impl Iterator<Item = Problem> {
    subnets.into_iter().map(|UnmaskedSubnet { field, subnet }| {
        let message = format!("{subnet} has host bits, and is read as {}", subnet.trunc());
        network.problem(message).in_field(field)
    })
}

/// Warning about a network with an uplink. OVN-Kubernetes takes the gateway from the `UplinkState`
/// of the node, and makes no gateway router without it.
fn unread_uplink(network: &Sourced<ClusterUserDefinedNetwork>) -> Option<Problem> {
    let uplinks = network.object.spec.uplinks.as_deref().unwrap_or_default();
    let message = "UplinkStates are not read, so gateway routers have the addresses, MAC address and \
                   next hops of the node's own bridge";
    (!uplinks.is_empty()).then(|| network.problem(message).in_field("spec.uplinks"))
}

/// Texts of warnings: first those about objects of files, in their order there.
pub(crate) fn texts(mut warnings: Vec<Problem>) -> Vec<String> {
    warnings.sort_by(|one, other| {
        let place = |of: &Problem| of.location.is_none();
        let places = place(one).cmp(&place(other));
        places.then_with(|| one.location.cmp(&other.location))
    });
    warnings.iter().map(ToString::to_string).collect()
}

/// Returns a warning if the network is refused. Nodes without subnets have warnings of their own.
fn refusal<T: InventoryKind>(
    network: &Sourced<T>,
    status: Option<&NetworkStatus>,
) -> Option<Problem> {
    let conditions = &status?.conditions;
    let is_refused = |condition: &&Condition| condition.status == "False";
    // A network that is not created needs no warning about its transport.
    let condition = [NETWORK_CREATED, TRANSPORT_ACCEPTED].into_iter().find_map(|kind| {
        let mut of_kind = conditions.iter().filter(|condition| condition.type_ == kind);
        of_kind.find(is_refused)
    })?;
    // The message has a line for each namespace. Reasons of the network itself are equal in all
    // lines.
    let lines: BTreeSet<&str> = condition.message.lines().collect();
    let mut named: Vec<String> = lines.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    if let Some(more @ 1..) = lines.len().checked_sub(MAX_LISTED) {
        named.push(format!("and {more} more reasons"));
    }
    let message = format!("{} is False: {}", condition.type_, named.join("; "));
    Some(network.problem(message))
}

/// Returns warnings about attachment definitions that define no network. `reported`: definitions
/// that other warnings are about already.
pub(crate) fn definition_warnings(
    inventory: &Inventory,
    networks: &Networks,
    reported: &BTreeSet<NadKey>,
) -> Vec<Problem> {
    let nads = inventory.network_attachment_definitions.in_order();
    let warned: BTreeSet<&str> = inventory
        .warnings
        .iter()
        .filter(|warning| warning.field.as_deref() == Some("spec.config"))
        .filter_map(|warning| warning.object.as_deref())
        .collect();
    let refused = nads.into_iter().filter_map(|(_, nad)| {
        let key = patchbay_resources::conversion::nad_key(&nad.object);
        let problem = networks.problems().get(&key)?;
        if matches!(problem, NadProblem::Config(NetConfError::Missing)) {
            // Definitions of other CNI plugins need no configuration.
            return None;
        }
        let object = describe(&nad.object);
        let is_reported = reported.contains(&key) || warned.contains(&*object);
        (!is_reported).then_some((nad, problem))
    });
    refused.map(|(nad, reason)| nad.problem(reason.to_string())).collect()
}
