//! Explanation of a NetworkPolicy.

use patchbay_model::{
    Pod, PodPeer, PolicyDirection, PolicyPort, PolicyRule, PortNumbers, Selector,
};
use patchbay_resources::conversion::{network_policy, pod};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object as _;

use super::Findings;
use super::labels::{known_labels, names, selector_text};

/// Explains a policy.
pub(super) fn of(key: &ObjectKey, inventory: &Inventory) -> Option<Findings> {
    let policy = network_policy(&inventory.network_policies.get(key)?.object);
    let mut found = Findings::default();
    let named = format!("NetworkPolicy {key}");
    let namespace = key.namespace.as_deref().unwrap_or_default();
    if let Some(selector) = &policy.pods {
        let pods = pods_in(namespace, inventory);
        let selected: Vec<&str> = selected(selector, &pods);
        if selected.is_empty() {
            let known = known_labels(selector, pods.iter().map(|pod| &pod.labels));
            let of_labels = with_labels(selector);
            let message = format!("no pod of namespace {namespace}{of_labels}; {known}");
            found.stop(message, &named, "spec.podSelector");
        } else {
            found.facts.push(format!("pods {}", names(&selected)));
        }
    }
    for (direction, field, side, word) in [
        (PolicyDirection::Ingress, "ingress", "from", "to"),
        (PolicyDirection::Egress, "egress", "to", "from"),
    ] {
        if !policy.isolates(direction) {
            continue;
        }
        let rules = policy.rules(direction);
        if rules.is_empty() {
            found.facts.push(format!("drops all packets {word} them"));
        }
        for (index, rule) in rules.iter().enumerate() {
            let mut of_rule = Rule { namespace, inventory, found: &mut found };
            let peers = of_rule.peers(rule, &format!("spec.{field}[{index}].{side}"));
            let ports = ports(rule);
            found.facts.push(format!("allows packets {word} them {side} {peers}{ports}"));
        }
    }
    Some(found)
}

/// Rule of a policy.
struct Rule<'a> {
    namespace: &'a str,
    inventory: &'a Inventory,
    found: &'a mut Findings,
}

impl Rule<'_> {
    /// The peers in words, with notices about selectors that select none.
    fn peers(&mut self, rule: &PolicyRule, field: &str) -> String {
        let Some(peers) = &rule.peers else {
            return "all".to_owned();
        };
        let mut texts: Vec<String> = peers.pods.iter().map(|peer| self.peer(peer, field)).collect();
        for block in &peers.blocks {
            for cidr in [block.cidr].iter().chain(&block.except) {
                let network = cidr.trunc();
                if network != *cidr {
                    let note = format!("{field}: {cidr} has host bits, and means {network}");
                    self.found.notices.push(note);
                }
            }
            let except: Vec<String> =
                block.except.iter().map(|net| net.trunc().to_string()).collect();
            let cidr = block.cidr.trunc();
            texts.push(if except.is_empty() {
                cidr.to_string()
            } else {
                format!("{cidr} without {}", except.join(", "))
            });
        }
        names(&texts)
    }

    fn peer(&mut self, peer: &PodPeer, field: &str) -> String {
        let mut namespaces = vec![self.namespace.to_owned()];
        let mut of_namespaces = format!("namespace {}", self.namespace);
        if let Some(selector) = &peer.namespaces {
            let all = self.inventory.namespaces.iter();
            let matching = all.filter(|(_, one)| selector.matches(one.object.labels()));
            namespaces = matching.map(|(key, _)| key.name.clone()).collect();
            of_namespaces = format!("namespaces {}", names(&namespaces));
            if namespaces.is_empty() {
                let labels = self.inventory.namespaces.iter().map(|(_, one)| one.object.labels());
                let known = known_labels(selector, labels);
                let of_labels = with_labels(selector);
                self.found.notices.push(format!("{field}: no namespace{of_labels}; {known}"));
                return format!("no namespace, as none{of_labels}");
            }
        }
        let all = Selector::default();
        let selector = peer.pods.as_ref().unwrap_or(&all);
        let pods: Vec<Pod> =
            namespaces.iter().flat_map(|name| pods_in(name, self.inventory)).collect();
        let selected = selected(selector, &pods);
        if selected.is_empty() {
            let known = known_labels(selector, pods.iter().map(|pod| &pod.labels));
            let of_labels = with_labels(selector);
            self.found
                .notices
                .push(format!("{field}: no pod of {of_namespaces}{of_labels}; {known}"));
        }
        format!("pods of {of_namespaces}: {}", names(&selected))
    }
}

/// ` has the labels ...`, or nothing if the selector needs none.
fn with_labels(selector: &Selector) -> String {
    match selector_text(selector) {
        text if text.is_empty() => " is there".to_owned(),
        text => format!(" has the labels {text}"),
    }
}

fn pods_in(namespace: &str, inventory: &Inventory) -> Vec<Pod> {
    inventory.pods.in_namespace(namespace).map(|(_, object)| pod(&object.object)).collect()
}

fn selected<'a>(selector: &Selector, pods: &'a [Pod]) -> Vec<&'a str> {
    let selected = pods.iter().filter(|pod| selector.matches(&pod.labels));
    selected.map(|pod| &*pod.key.name).collect()
}

/// The ports of a rule in words. Empty: all packets.
fn ports(rule: &PolicyRule) -> String {
    let Some(ports) = &rule.ports else {
        return String::new();
    };
    let ports: Vec<String> = ports.iter().map(port).collect();
    format!(", {}", names(&ports))
}

fn port(port: &PolicyPort) -> String {
    let protocol = port.protocol;
    match &port.numbers {
        PortNumbers::All => protocol.to_string(),
        PortNumbers::One(number) => format!("{protocol} {number}"),
        PortNumbers::Range(first, last) => format!("{protocol} {first}-{last}"),
        PortNumbers::Name(name) => format!("{protocol} {name}"),
    }
}
