//! Conversion of AdminNetworkPolicies and the BaselineAdminNetworkPolicy.

use std::collections::BTreeSet;

use ipnet::IpNet;
use patchbay_model::{
    ACL_LOGGING, AdminAction, AdminPolicy, AdminPolicyKey, AdminPolicyKind, AdminRule,
    BASELINE_POLICY, FieldProblem, MAX_ADMIN_PRIORITY, MAX_ADMIN_RULES, PodScope, PolicyDirection,
    PolicyPort, PortNumbers, Protocol, Selector,
};

use crate::object::{
    AdminNetworkPolicy, AdminPolicyPeer, AdminPolicyPort, AdminPolicyRule, AdminPolicySpec,
    BaselineAdminNetworkPolicy, LabelSelector, Object,
};
use crate::selector;

/// An AdminNetworkPolicy. With a field that cannot be used it has no rules.
pub fn admin_network_policy(object: &AdminNetworkPolicy) -> AdminPolicy {
    Reading::new(AdminPolicyKind::Admin).policy(object, &object.spec)
}

/// A BaselineAdminNetworkPolicy. With a field that cannot be used it has no rules.
pub fn baseline_admin_network_policy(object: &BaselineAdminNetworkPolicy) -> AdminPolicy {
    let mut reading = Reading::new(AdminPolicyKind::Baseline);
    if object.name_any() != BASELINE_POLICY {
        let reason = format!("the one BaselineAdminNetworkPolicy is named {BASELINE_POLICY:?}");
        reading.add("metadata.name", reason);
    }
    reading.policy(object, &object.spec)
}

/// Fields found up to now that cannot be used.
struct Reading {
    kind: AdminPolicyKind,
    problems: Vec<FieldProblem>,
}

impl Reading {
    fn new(kind: AdminPolicyKind) -> Self {
        Self { kind, problems: Vec::new() }
    }

    fn policy(mut self, object: &impl Object, spec: &AdminPolicySpec) -> AdminPolicy {
        let priority = match (self.kind, spec.priority) {
            (AdminPolicyKind::Baseline, _) => 0,
            (AdminPolicyKind::Admin, priority) => priority.unwrap_or_default(),
        };
        if !(0..=MAX_ADMIN_PRIORITY).contains(&priority) {
            let reason = format!(
                "{priority} is not in 0..={MAX_ADMIN_PRIORITY}, for which there are priorities of ACLs"
            );
            self.add("spec.priority", reason);
        }
        let subject = self.subject(&spec.subject).unwrap_or_default();
        let ingress = self.rules(PolicyDirection::Ingress, &spec.ingress);
        let egress = self.rules(PolicyDirection::Egress, &spec.egress);
        let (ingress, egress) =
            if self.problems.is_empty() { (ingress, egress) } else { Default::default() };
        let logging = object.annotations().get(ACL_LOGGING);
        AdminPolicy {
            key: AdminPolicyKey { kind: self.kind, name: object.name_any().into() },
            priority,
            subject,
            ingress,
            egress,
            logging: logging.cloned().unwrap_or_default(),
            problems: self.problems,
        }
    }

    fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.problems.push(FieldProblem::new(field, reason));
    }

    /// Adds the problem of a field that has none or several of its alternatives.
    fn add_alternative(&mut self, field: &str, expected: &str) {
        self.add(field, format!("exactly one of {expected} is required"));
    }

    /// `None`: a field cannot be used.
    fn subject(&mut self, raw: &AdminPolicyPeer) -> Option<PodScope> {
        let is_of_pods =
            raw.nodes.is_none() && raw.networks.is_empty() && raw.domain_names.is_empty();
        if !is_of_pods || raw.namespaces.is_some() == raw.pods.is_some() {
            self.add_alternative("spec.subject", "namespaces and pods");
            return None;
        }
        self.pods("spec.subject", raw)
    }

    fn rules(&mut self, direction: PolicyDirection, raw: &[AdminPolicyRule]) -> Vec<AdminRule> {
        let field = match direction {
            PolicyDirection::Ingress => "spec.ingress",
            PolicyDirection::Egress => "spec.egress",
        };
        if raw.len() > MAX_ADMIN_RULES {
            let count = raw.len();
            let reason = format!("{count} rules, but at most {MAX_ADMIN_RULES} have priorities");
            self.add(field, reason);
        }
        let rules = raw.iter().take(MAX_ADMIN_RULES).enumerate();
        rules
            .filter_map(|(index, rule)| self.rule(&format!("{field}[{index}]"), direction, rule))
            .collect()
    }

    /// `None`: the action is unknown.
    fn rule(
        &mut self,
        field: &str,
        direction: PolicyDirection,
        raw: &AdminPolicyRule,
    ) -> Option<AdminRule> {
        let action = match (raw.action.as_str(), self.kind) {
            ("Allow", _) => AdminAction::Allow,
            ("Deny", _) => AdminAction::Deny,
            ("Pass", AdminPolicyKind::Admin) => AdminAction::Pass,
            (other, kind) => {
                let expected = match kind {
                    AdminPolicyKind::Admin => "Allow, Deny and Pass",
                    AdminPolicyKind::Baseline => "Allow and Deny",
                };
                let reason = format!("{other:?} is none of {expected}");
                self.add(format!("{field}.action"), reason);
                return None;
            }
        };
        let mut rule = AdminRule {
            action,
            pods: Vec::new(),
            nodes: Vec::new(),
            networks: Vec::new(),
            ports: Vec::new(),
            named_ports: BTreeSet::new(),
        };
        let (side, peers) = match direction {
            PolicyDirection::Ingress => ("from", &raw.from),
            PolicyDirection::Egress => ("to", &raw.to),
        };
        for (index, peer) in peers.iter().enumerate() {
            self.peer(&format!("{field}.{side}[{index}]"), direction, peer, &mut rule);
        }
        for (index, port) in raw.ports.iter().flatten().enumerate() {
            self.port(&format!("{field}.ports[{index}]"), port, &mut rule);
        }
        Some(rule)
    }

    fn peer(
        &mut self,
        field: &str,
        direction: PolicyDirection,
        raw: &AdminPolicyPeer,
        rule: &mut AdminRule,
    ) {
        let is_egress = direction == PolicyDirection::Egress;
        let kinds = [
            raw.namespaces.is_some(),
            raw.pods.is_some(),
            raw.nodes.is_some(),
            !raw.networks.is_empty(),
            !raw.domain_names.is_empty(),
        ];
        let has_others = kinds[2] || kinds[3] || kinds[4];
        if kinds.into_iter().filter(|is_set| *is_set).count() != 1 || has_others && !is_egress {
            let expected = if is_egress {
                "namespaces, pods, nodes and networks"
            } else {
                "namespaces and pods"
            };
            return self.add_alternative(field, expected);
        }
        if !raw.domain_names.is_empty() {
            let reason = "domain names are not resolved; use networks";
            self.add(format!("{field}.domainNames"), reason);
        } else if let Some(nodes) = &raw.nodes {
            let nodes = self.selector(&format!("{field}.nodes"), nodes);
            rule.nodes.extend(nodes);
        } else if raw.networks.is_empty() {
            rule.pods.extend(self.pods(field, raw));
        }
        for (index, text) in raw.networks.iter().enumerate() {
            let Ok(cidr) = text.parse::<IpNet>() else {
                let reason = format!("{text:?} is not a CIDR");
                self.add(format!("{field}.networks[{index}]"), reason);
                continue;
            };
            rule.networks.push(cidr.trunc());
        }
    }

    /// Pods of `namespaces` or `pods`. `None`: a selector cannot be read.
    fn pods(&mut self, field: &str, raw: &AdminPolicyPeer) -> Option<PodScope> {
        if let Some(namespaces) = &raw.namespaces {
            return Some(PodScope {
                namespaces: self.selector(&format!("{field}.namespaces"), namespaces)?,
                pods: Selector::default(),
            });
        }
        let raw = raw.pods.as_ref()?;
        let namespaces =
            self.selector(&format!("{field}.pods.namespaceSelector"), &raw.namespace_selector);
        let pods = self.selector(&format!("{field}.pods.podSelector"), &raw.pod_selector);
        Some(PodScope { namespaces: namespaces?, pods: pods? })
    }

    fn selector(&mut self, field: &str, raw: &LabelSelector) -> Option<Selector> {
        let parsed = selector::parse(field, raw);
        parsed.map_or_else(
            |violations| {
                self.problems.extend(violations);
                None
            },
            Some,
        )
    }

    fn port(&mut self, field: &str, raw: &AdminPolicyPort, rule: &mut AdminRule) {
        let (name, protocol, first, last) = match (&raw.port_number, &raw.port_range) {
            _ if alternatives(raw) != 1 => {
                return self.add_alternative(field, "portNumber, portRange and namedPort");
            }
            (Some(one), _) => ("portNumber.port", &one.protocol, one.port, one.port),
            (_, Some(range)) => ("portRange.end", &range.protocol, range.start, range.end),
            (None, None) => return rule.named_ports.extend(raw.named_port.clone()),
        };
        let protocol = protocol.as_deref().unwrap_or("TCP").parse::<Protocol>();
        let number = |value: i64| u16::try_from(value).ok().filter(|number| *number > 0);
        match (protocol, number(first), number(last)) {
            (Ok(protocol), Some(first), Some(last)) if first <= last => {
                let numbers = if raw.port_range.is_some() {
                    PortNumbers::Range(first, last)
                } else {
                    PortNumbers::One(first)
                };
                rule.ports.push(PolicyPort { protocol, numbers });
            }
            (Err(unknown), ..) => self.add(format!("{field}.protocol"), unknown.to_string()),
            _ => {
                let reason = format!("{last} is not a number from port to 65535");
                self.add(format!("{field}.{name}"), reason);
            }
        }
    }
}

fn alternatives(raw: &AdminPolicyPort) -> usize {
    let is_set = [raw.port_number.is_some(), raw.port_range.is_some(), raw.named_port.is_some()];
    is_set.into_iter().filter(|is_set| *is_set).count()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value) -> AdminPolicy {
        let object = json!({"metadata": {"name": "anp"}, "spec": spec});
        admin_network_policy(&serde_json::from_value(object).unwrap())
    }

    fn egress(to: &Value, ports: &Value) -> AdminPolicy {
        read(&json!({
            "priority": 3,
            "subject": {"namespaces": {}},
            "egress": [{"action": "Deny", "to": [to], "ports": ports}],
        }))
    }

    #[test]
    fn all_kinds_of_peers_and_ports_are_read() {
        let policy = egress(
            &json!({"networks": ["10.1.2.3/8", "fd00::/8"]}),
            &json!([
                {"portNumber": {"port": 80}},
                {"portRange": {"protocol": "UDP", "start": 5, "end": 9}},
                {"namedPort": "web"},
            ]),
        );
        assert_eq!(policy.problems, []);
        let [rule] = &policy.egress[..] else {
            panic!("{:?}", policy.egress);
        };
        let networks: Vec<String> = rule.networks.iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(rule.ports[0].numbers, PortNumbers::One(80));
        assert_eq!(rule.ports[1].numbers, PortNumbers::Range(5, 9));
        assert_eq!(rule.named_ports, ["web".to_owned()].into());
        let nodes = egress(&json!({"nodes": {"matchLabels": {"a": "b"}}}), &Value::Null);
        assert_eq!((nodes.egress[0].nodes.len(), nodes.problems.len()), (1, 0));
        let pods =
            egress(&json!({"pods": {"podSelector": {}, "namespaceSelector": {}}}), &Value::Null);
        assert_eq!((pods.egress[0].pods.len(), pods.problems.len()), (1, 0));
    }

    #[test]
    fn a_field_that_cannot_be_used_leaves_no_rule_and_is_named() {
        let all = json!({"namespaces": {}});
        let cases = [
            (
                egress(&json!({}), &Value::Null),
                "spec.egress[0].to[0]: exactly one of namespaces, pods, nodes and networks is \
                 required",
            ),
            (
                egress(&json!({"namespaces": {}, "nodes": {}}), &Value::Null),
                "spec.egress[0].to[0]: exactly one of namespaces, pods, nodes and networks is \
                 required",
            ),
            (
                egress(&json!({"domainNames": ["a.io"]}), &Value::Null),
                "spec.egress[0].to[0].domainNames: domain names are not resolved; use networks",
            ),
            (
                egress(&json!({"networks": ["10.0.0.0"]}), &Value::Null),
                "spec.egress[0].to[0].networks[0]: \"10.0.0.0\" is not a CIDR",
            ),
            (
                egress(&all, &json!([{}])),
                "spec.egress[0].ports[0]: exactly one of portNumber, portRange and namedPort is \
                 required",
            ),
            (
                egress(&all, &json!([{"portRange": {"start": 9, "end": 5}}])),
                "spec.egress[0].ports[0].portRange.end: 5 is not a number from port to 65535",
            ),
            (
                egress(&all, &json!([{"portNumber": {"protocol": "ICMP", "port": 5}}])),
                "spec.egress[0].ports[0].protocol: \"ICMP\" is none of TCP, UDP and SCTP",
            ),
            (
                read(&json!({"priority": 100, "subject": all})),
                "spec.priority: 100 is not in 0..=99, for which there are priorities of ACLs",
            ),
            (
                read(&json!({"priority": 1, "subject": {}})),
                "spec.subject: exactly one of namespaces and pods is required",
            ),
            (
                read(&json!({"priority": 1, "subject": all, "ingress": [{"action": "Log"}]})),
                "spec.ingress[0].action: \"Log\" is none of Allow, Deny and Pass",
            ),
            (
                read(&json!({"priority": 1, "subject": all,
                    "ingress": [{"action": "Allow", "from": [{"nodes": {}}]}]})),
                "spec.ingress[0].from[0]: exactly one of namespaces and pods is required",
            ),
            (
                read(&json!({"priority": 1, "subject": all,
                    "ingress": vec![json!({"action": "Allow"}); 101]})),
                "spec.ingress: 101 rules, but at most 100 have priorities",
            ),
        ];
        for (policy, message) in cases {
            assert_eq!((&policy.ingress[..], &policy.egress[..]), (&[][..], &[][..]));
            let problems: Vec<String> = policy.problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems, [message]);
        }
    }

    #[test]
    fn a_baseline_has_one_name_and_does_not_pass() {
        let object = json!({"metadata": {"name": "other"}, "spec": {
            "subject": {"namespaces": {}}, "ingress": [{"action": "Pass"}]}});
        let policy = baseline_admin_network_policy(&serde_json::from_value(object).unwrap());
        let problems: Vec<String> = policy.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "metadata.name: the one BaselineAdminNetworkPolicy is named \"default\"",
                "spec.ingress[0].action: \"Pass\" is none of Allow and Deny",
            ]
        );
    }
}
