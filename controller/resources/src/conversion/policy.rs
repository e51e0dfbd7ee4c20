//! Conversion of NetworkPolicies and MultiNetworkPolicies.

use std::collections::BTreeSet;

use ipnet::IpNet;
use patchbay_model::{
    FieldProblem, IpBlock, NadKey, POLICY_FOR, PodPeer, Policy, PolicyDirection, PolicyKey,
    PolicyKind, PolicyPeers, PolicyPort, PolicyRule, PortNumbers, Protocol, Selector,
};
use serde_json::Value;

use crate::object::{
    self, LabelSelector, MultiNetworkPolicy, NetworkPolicy, Object, PolicyPeer, PolicySpec,
};
use crate::selector;

/// A NetworkPolicy. Fields that cannot be used allow nothing, and are its problems.
pub fn network_policy(object: &NetworkPolicy) -> Policy {
    Reading::default().policy(key(PolicyKind::NetworkPolicy, object), &object.spec)
}

/// A MultiNetworkPolicy. Fields that cannot be used allow nothing, and are its problems.
pub fn multi_network_policy(object: &MultiNetworkPolicy) -> Policy {
    let key = key(PolicyKind::MultiNetworkPolicy, object);
    let text = object.annotations().get(POLICY_FOR);
    let names = text
        .into_iter()
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let definitions: Vec<NadKey> = names
        .map(|text| {
            let (namespace, name) = text.split_once('/').unwrap_or((&key.namespace, text));
            NadKey { namespace: namespace.to_owned(), name: name.to_owned() }
        })
        .collect();
    let mut reading = Reading::default();
    if definitions.is_empty() {
        let reason = "the policy names no NetworkAttachmentDefinition";
        reading.problems.push(FieldProblem::of_annotation(POLICY_FOR, reason));
    }
    Policy { definitions, ..reading.policy(key, &object.spec) }
}

fn key(kind: PolicyKind, object: &impl Object) -> PolicyKey {
    PolicyKey {
        kind,
        namespace: object.namespace().unwrap_or_default().into(),
        name: object.name_any().into(),
    }
}

/// Fields found up to now that cannot be used.
#[derive(Default)]
struct Reading {
    problems: Vec<FieldProblem>,
}

impl Reading {
    /// Adds the problem of a field, which has no value.
    fn fail<T>(&mut self, field: impl Into<String>, reason: impl Into<String>) -> Option<T> {
        self.problems.push(FieldProblem::new(field, reason));
        None
    }

    fn policy(mut self, key: PolicyKey, spec: &PolicySpec) -> Policy {
        let pods = self.selector("spec.podSelector", &spec.pod_selector);
        let isolated = self.types(spec);
        let mut rules = |direction, field, rules: &Option<Vec<object::PolicyRule>>| {
            let rules = rules.iter().flatten();
            if isolated.contains(&direction) {
                let rule = |(index, rule)| self.rule(&format!("spec.{field}[{index}]"), rule);
                return Some(rules.enumerate().map(rule).collect());
            }
            if rules.count() > 0 {
                let reason = format!("ignored, because spec.policyTypes does not have {direction}");
                return self.fail(format!("spec.{field}"), reason);
            }
            None
        };
        let ingress = rules(PolicyDirection::Ingress, "ingress", &spec.ingress);
        let egress = rules(PolicyDirection::Egress, "egress", &spec.egress);
        Policy { key, definitions: Vec::new(), pods, ingress, egress, problems: self.problems }
    }

    /// Directions that are isolated.
    fn types(&mut self, spec: &PolicySpec) -> BTreeSet<PolicyDirection> {
        let types = spec.policy_types.as_ref();
        let Some(types) = types.filter(|types| !types.is_empty()) else {
            let has_egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
            let egress = has_egress.then_some(PolicyDirection::Egress);
            return egress.into_iter().chain([PolicyDirection::Ingress]).collect();
        };
        let types = types.iter().enumerate();
        let directions = types.filter_map(|(index, text)| match text.as_str() {
            "Ingress" => Some(PolicyDirection::Ingress),
            "Egress" => Some(PolicyDirection::Egress),
            _ => self.fail(
                format!("spec.policyTypes[{index}]"),
                format!("{text:?} is neither Ingress nor Egress"),
            ),
        });
        directions.collect()
    }

    fn selector(&mut self, field: &str, selector: &LabelSelector) -> Option<Selector> {
        let parsed = selector::parse(field, selector);
        parsed.map_or_else(
            |violations| {
                self.problems.extend(violations);
                None
            },
            Some,
        )
    }

    fn rule(&mut self, field: &str, rule: &object::PolicyRule) -> PolicyRule {
        let (side, peers) = match (&rule.from, &rule.to) {
            (None, Some(to)) => ("to", Some(to)),
            (from, _) => ("from", from.as_ref()),
        };
        let peers = peers.filter(|peers| !peers.is_empty()).map(|peers| {
            let mut read = PolicyPeers::default();
            for (index, peer) in peers.iter().enumerate() {
                self.peer(&format!("{field}.{side}[{index}]"), peer, &mut read);
            }
            read
        });
        let ports = rule.ports.as_ref().filter(|ports| !ports.is_empty());
        let ports = ports.map(|ports| {
            let ports = ports.iter().enumerate();
            let read = |(index, port)| self.port(&format!("{field}.ports[{index}]"), port);
            ports.filter_map(read).collect()
        });
        PolicyRule { peers, ports }
    }

    fn peer(&mut self, field: &str, peer: &PolicyPeer, read: &mut PolicyPeers) {
        let has_selector = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
        match &peer.ip_block {
            Some(block) if !has_selector => read.blocks.extend(self.block(field, block)),
            None if has_selector => read.pods.extend(self.pod_peer(field, peer)),
            _ => {
                let reason = "a peer has either ipBlock, or podSelector and namespaceSelector";
                self.problems.push(FieldProblem::new(field, reason));
            }
        }
    }

    /// `None`: a selector cannot be read.
    fn pod_peer(&mut self, field: &str, peer: &PolicyPeer) -> Option<PodPeer> {
        let mut read = |name, selector: &Option<LabelSelector>| match selector {
            None => Some(None),
            Some(selector) => self.selector(&format!("{field}.{name}"), selector).map(Some),
        };
        let namespaces = read("namespaceSelector", &peer.namespace_selector);
        let pods = read("podSelector", &peer.pod_selector);
        Some(PodPeer { namespaces: namespaces?, pods: pods? })
    }

    /// `None`: a CIDR of the block cannot be used.
    fn block(&mut self, field: &str, block: &object::IpBlock) -> Option<IpBlock> {
        let cidr = self.cidr(format!("{field}.ipBlock.cidr"), &block.cidr);
        let except = block.except.iter().flatten().enumerate();
        let except: Vec<Option<IpNet>> = except
            .map(|(index, text)| {
                let field = format!("{field}.ipBlock.except[{index}]");
                let except = self.cidr(field.clone(), text)?;
                let Some(cidr) = cidr.filter(|cidr| !cidr.contains(&except)) else {
                    return Some(except);
                };
                self.fail(field, format!("{except} is not within {cidr}"))
            })
            .collect();
        Some(IpBlock { cidr: cidr?, except: except.into_iter().collect::<Option<_>>()? })
    }

    fn cidr(&mut self, field: String, text: &str) -> Option<IpNet> {
        match text.parse() {
            Ok(cidr) => Some(cidr),
            Err(_) => self.fail(field, format!("{text:?} is not a CIDR")),
        }
    }

    /// `None`: a field of the port cannot be used.
    fn port(&mut self, field: &str, port: &object::PolicyPort) -> Option<PolicyPort> {
        let name = port.protocol.as_deref().unwrap_or("TCP");
        let protocol = match name.parse::<Protocol>() {
            Ok(protocol) => Some(protocol),
            Err(unknown) => self.fail(format!("{field}.protocol"), unknown.to_string()),
        };
        let numbers = self.numbers(field, port);
        Some(PolicyPort { protocol: protocol?, numbers: numbers? })
    }

    fn numbers(&mut self, field: &str, port: &object::PolicyPort) -> Option<PortNumbers> {
        let number = |value: i64| u16::try_from(value).ok().filter(|number| *number != 0);
        let first = match &port.port {
            None => PortNumbers::All,
            Some(Value::String(name)) if is_port_name(name) => PortNumbers::Name(name.clone()),
            Some(value) => {
                let Some(number) = value.as_i64().and_then(number) else {
                    let reason = format!("{value} is neither a number in 1..=65535 nor a name");
                    return self.fail(format!("{field}.port"), reason);
                };
                PortNumbers::One(number)
            }
        };
        let Some(value) = port.end_port else {
            return Some(first);
        };
        let last = number(value);
        if let (PortNumbers::One(first), Some(last)) = (&first, last)
            && *first <= last
        {
            return Some(PortNumbers::Range(*first, last));
        }
        self.fail(format!("{field}.endPort"), format!("{value} is not a number from port to 65535"))
    }
}

/// Returns `true` for a name that a container port can have (RFC 6335, section 5.1).
fn is_port_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=15).contains(&bytes.len())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
        && bytes.iter().any(u8::is_ascii_lowercase)
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(spec: &Value) -> Policy {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"namespace": "blue", "name": "p"}, "spec": spec,
        });
        network_policy(&serde_json::from_value(object).unwrap())
    }

    fn problems(policy: &Policy) -> Vec<String> {
        policy.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn types_follow_from_rules_unless_they_are_given() {
        let rule = json!([{}]);
        let (ingress, egress) = (PolicyDirection::Ingress, PolicyDirection::Egress);
        let cases = [
            (json!({}), vec![ingress]),
            (json!({"egress": rule}), vec![ingress, egress]),
            (json!({"egress": rule, "policyTypes": ["Egress"]}), vec![egress]),
            (json!({"policyTypes": ["Ingress", "Egress"]}), vec![ingress, egress]),
        ];
        for (spec, expected) in cases {
            let policy = policy(&spec);
            let mut isolated = PolicyDirection::BOTH.to_vec();
            isolated.retain(|direction| policy.isolates(*direction));
            assert_eq!(isolated, expected, "{spec}");
        }
        let policy = policy(&json!({"policyTypes": ["ingress"]}));
        assert_eq!(
            problems(&policy),
            ["spec.policyTypes[0]: \"ingress\" is neither Ingress nor Egress"]
        );
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        let policy = policy(&json!({"ingress": [{
            "from": [
                {},
                {"ipBlock": {"cidr": "10.0.0.0/33"}},
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "192.168.0.0/16"]}},
                {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Equals"}]}},
                {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}},
            ],
            "ports": [
                {"protocol": "ICMP"}, {"port": 0}, {"port": "--"}, {"port": 80, "endPort": 79},
                {"port": "http", "endPort": 90},
            ],
        }]}));
        let rules = policy.rules(PolicyDirection::Ingress);
        assert_eq!(rules[0].peers, Some(PolicyPeers::default()));
        assert_eq!(rules[0].ports, Some(Vec::new()));
        assert_eq!(
            problems(&policy),
            [
                "spec.ingress[0].from[0]: a peer has either ipBlock, or podSelector and namespaceSelector",
                "spec.ingress[0].from[1].ipBlock.cidr: \"10.0.0.0/33\" is not a CIDR",
                "spec.ingress[0].from[2].ipBlock.except[1]: 192.168.0.0/16 is not within 10.0.0.0/8",
                "spec.ingress[0].from[3].namespaceSelector.matchExpressions[0].operator: \
                 Invalid value: \"Equals\": not a valid selector operator",
                "spec.ingress[0].from[4]: a peer has either ipBlock, or podSelector and namespaceSelector",
                "spec.ingress[0].ports[0].protocol: \"ICMP\" is none of TCP, UDP and SCTP",
                "spec.ingress[0].ports[1].port: 0 is neither a number in 1..=65535 nor a name",
                "spec.ingress[0].ports[2].port: \"--\" is neither a number in 1..=65535 nor a name",
                "spec.ingress[0].ports[3].endPort: 79 is not a number from port to 65535",
                "spec.ingress[0].ports[4].endPort: 90 is not a number from port to 65535",
            ]
        );
    }

    #[test]
    fn a_multi_network_policy_names_definitions_of_its_own_and_other_namespaces() {
        let object = |annotations: Value| {
            let object = json!({
                "apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy",
                "metadata": {"namespace": "blue", "name": "p", "annotations": annotations},
                "spec": {"podSelector": {}},
            });
            multi_network_policy(&serde_json::from_value(object).unwrap())
        };
        let policy = object(json!({POLICY_FOR: "lan, red/wan"}));
        let names: Vec<String> = policy.definitions.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["blue/lan", "red/wan"]);
        assert_eq!(
            problems(&object(json!({}))),
            [format!(
                "metadata.annotations[{POLICY_FOR}]: the policy names no NetworkAttachmentDefinition"
            )]
        );
    }
}
