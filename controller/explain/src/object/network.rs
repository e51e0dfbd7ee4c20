//! Explanation of a network's resource.

use patchbay_model::{Network, Role, Selector};
use patchbay_resources::conversion::{network_of_resource, node, pod};
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use patchbay_resources::object::Object as _;
use patchbay_resources::selector;
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, NetworkStatus, UnmaskedSubnet, UserDefinedNetwork,
};

use super::labels::{known_labels, names, selector_text};
use super::{Findings, ObjectView};
use crate::reasons::Reason;
use crate::refusals::Definition;

/// Explains a network of one namespace.
pub(super) fn of_udn(
    key: &ObjectKey,
    inventory: &Inventory,
    view: ObjectView<'_>,
) -> Option<Findings> {
    let udn = &inventory.user_defined_networks.get(key)?.object;
    let mut found = Findings::default();
    let namespace = key.namespace.as_deref().unwrap_or_default();
    found.facts.push(format!("of the pods in namespace {namespace}"));
    let own = Own { key, subnets: udn.spec.unmasked_subnets(), status: udn.status.as_ref() };
    own.describe::<UserDefinedNetwork>(&Definition::of_udn(udn), inventory, view, &mut found);
    Some(found)
}

/// Explains a network of several namespaces.
pub(super) fn of_cudn(
    key: &ObjectKey,
    inventory: &Inventory,
    view: ObjectView<'_>,
) -> Option<Findings> {
    let cudn = &inventory.cluster_user_defined_networks.get(key)?.object;
    let mut found = Findings::default();
    let selector = &cudn.spec.namespace_selector;
    let namespaces = || inventory.namespaces.iter();
    let selected = namespaces().filter(|(_, one)| selector::matches(selector, one.object.labels()));
    let selected: Vec<&str> = selected.map(|(key, _)| key.name.as_str()).collect();
    let selector = Selector::from(selector);
    if selected.is_empty() {
        let labels = namespaces().map(|(_, one)| one.object.labels());
        let message = format!(
            "no namespace has the labels {}; {}",
            selector_text(&selector),
            known_labels(&selector, labels)
        );
        let object = format!("{} {key}", ClusterUserDefinedNetwork::KIND);
        found.stop(message, &object, "spec.namespaceSelector");
    } else {
        found.facts.push(format!("of the pods in namespaces {}", names(&selected)));
    }
    let own = Own { key, subnets: cudn.spec.unmasked_subnets(), status: cudn.status.as_ref() };
    own.describe::<ClusterUserDefinedNetwork>(
        &Definition::of_cudn(cudn),
        inventory,
        view,
        &mut found,
    );
    Some(found)
}

/// What both kinds of resources have.
struct Own<'a> {
    key: &'a ObjectKey,
    /// Subnets that are written with host bits.
    subnets: Vec<UnmaskedSubnet>,
    status: Option<&'a NetworkStatus>,
}

impl Own<'_> {
    fn describe<T: InventoryKind>(
        &self,
        definition: &Definition<'_>,
        inventory: &Inventory,
        view: ObjectView<'_>,
        found: &mut Findings,
    ) {
        let object = format!("{} {}", T::KIND, self.key);
        let name = network_of_resource(T::KIND, self.key).unwrap_or_default();
        let network = view.networks.by_name(&name);
        match network {
            Some(network) => found.facts.extend(described(network, inventory)),
            None => found.facts.push(format!("network {name}")),
        }
        for UnmaskedSubnet { field, subnet } in &self.subnets {
            let network = subnet.trunc();
            found.notices.push(format!("{field}: {subnet} has host bits, and means {network}"));
        }
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        // The messages of failed conditions are the reasons.
        found.conditions.extend(conditions.map(|condition| {
            format!("{}: {} ({})", condition.type_, condition.status, condition.reason)
        }));
        // The words of the status begin with the object, which the first line has already.
        let of_object = format!("{object}: ");
        found.reasons.extend(definition.refusals().into_iter().map(|reason| {
            let message = reason.message.strip_prefix(&of_object).map(str::to_owned);
            Reason { message: message.unwrap_or(reason.message), ..reason }
        }));
        if network.is_some() {
            found.reasons.extend(definition.without_subnets());
        }
        let definition = view.networks.definition(&name);
        for (zone, skipped) in view.skipped.iter().filter(|(_, one)| one.network == name) {
            let reason = Reason::of_rows(&skipped.reason, definition, &object);
            let message = format!("zone {zone}: {}", reason.message);
            found.reasons.insert(Reason { message, ..reason });
        }
    }
}

/// A network in words: its configuration, the subnets of nodes, and its pods.
fn described(network: &Network, inventory: &Inventory) -> Vec<String> {
    let Network { name, id, topology, role, pod_subnets, .. } = network;
    let role = match role {
        Role::Primary => "primary",
        Role::Secondary => "secondary",
    };
    let mut facts = vec![format!("network {name}: {topology}, {role}, id {}", id.get())];
    let subnets = pod_subnets.iter().map(|subnet| match subnet.host_prefix {
        Some(prefix) => format!("{}, /{prefix} for each node", subnet.cidr),
        None => subnet.cidr.to_string(),
    });
    let subnets: Vec<String> = subnets.collect();
    if !subnets.is_empty() {
        facts.push(format!("subnets {}", names(&subnets)));
    }
    let nodes = inventory.nodes.iter().filter_map(|(key, object)| {
        let (node, _) = node(&object.object);
        let subnets: Vec<String> = node.subnets_of(name).iter().map(ToString::to_string).collect();
        (!subnets.is_empty()).then(|| format!("{} on {}", subnets.join(", "), key.name))
    });
    let nodes: Vec<String> = nodes.collect();
    if !nodes.is_empty() {
        facts.push(format!("node subnets {}", names(&nodes)));
    }
    let pods = inventory.pods.iter().map(|(key, object)| (key, pod(&object.object)));
    let on_it = pods.filter(|(_, pod)| {
        let mut keys = pod.networks.iter().map(|(key, _)| key);
        keys.any(|key| network.nads.iter().any(|nad| nad.to_string() == key))
    });
    let on_it: Vec<String> = on_it.map(|(key, _)| key.to_string()).collect();
    facts.push(format!("pods {}", names(&on_it)));
    facts
}
