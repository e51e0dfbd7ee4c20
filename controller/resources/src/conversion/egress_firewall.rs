//! Conversion of EgressFirewalls.

use patchbay_model::{
    EgressFirewall, FieldProblem, FirewallAction, FirewallDestination, FirewallPort, FirewallRule,
    UnknownProtocol,
};

use crate::object::{
    self, EgressFirewallDestination, EgressFirewallPort, EgressFirewallRule, Object,
};
use crate::selector;

/// An EgressFirewall. With a field that cannot be used it has no rules.
pub fn egress_firewall(object: &object::EgressFirewall) -> EgressFirewall {
    let mut problems = Vec::new();
    let rules: Vec<FirewallRule> = object
        .spec
        .egress
        .iter()
        .enumerate()
        .filter_map(|(index, raw)| {
            let read = rule(&format!("spec.egress[{index}]"), raw);
            read.map_err(|problem| problems.push(problem)).ok()
        })
        .collect();
    EgressFirewall {
        namespace: object.namespace().unwrap_or_default().into(),
        version: object.resource_version().map(Into::into),
        rules: if problems.is_empty() { rules } else { Vec::new() },
        problems,
    }
}

fn rule(field: &str, raw: &EgressFirewallRule) -> Result<FirewallRule, FieldProblem> {
    let action = match raw.action.as_str() {
        "Allow" => FirewallAction::Allow,
        "Deny" => FirewallAction::Deny,
        other => {
            let reason = format!("{other:?} is neither Allow nor Deny");
            return Err(FieldProblem::new(format!("{field}.type"), reason));
        }
    };
    let ports = raw.ports.iter().enumerate();
    let ports = ports.map(|(index, raw)| port(&format!("{field}.ports[{index}]"), raw));
    Ok(FirewallRule {
        action,
        destination: destination(&format!("{field}.to"), &raw.to)?,
        ports: ports.collect::<Result<_, _>>()?,
    })
}

fn destination(
    field: &str,
    raw: &EgressFirewallDestination,
) -> Result<FirewallDestination, FieldProblem> {
    match (raw.cidr_selector.as_str(), raw.dns_name.as_str(), &raw.node_selector) {
        (text, "", None) if !text.is_empty() => {
            let cidr = text.parse().map_err(|_| {
                let reason = format!("{text:?} is not a CIDR");
                FieldProblem::new(format!("{field}.cidrSelector"), reason)
            })?;
            let text = text.to_owned();
            Ok(FirewallDestination::Cidr { cidr, text })
        }
        ("", name, None) if !name.is_empty() => Ok(FirewallDestination::Name(name.to_owned())),
        ("", "", Some(labels)) => {
            let parsed = selector::parse(&format!("{field}.nodeSelector"), labels);
            parsed.map(FirewallDestination::Nodes).map_err(|violations| {
                let joined = violations.into_iter().reduce(|first, other| {
                    FieldProblem::new(first.field, format!("{}; {other}", first.reason))
                });
                joined.unwrap_or_else(|| FieldProblem::new(field, "cannot be read"))
            })
        }
        _ => {
            let reason = "exactly one of cidrSelector, dnsName and nodeSelector is required";
            Err(FieldProblem::new(field, reason))
        }
    }
}

fn port(field: &str, raw: &EgressFirewallPort) -> Result<FirewallPort, FieldProblem> {
    let protocol = raw.protocol.parse();
    let protocol = protocol.map_err(|unknown: UnknownProtocol| {
        FieldProblem::new(format!("{field}.protocol"), unknown.to_string())
    })?;
    let port = u16::try_from(raw.port).map_err(|_| {
        let reason = format!("{} is not in 1..=65535", raw.port);
        FieldProblem::new(format!("{field}.port"), reason)
    })?;
    Ok(FirewallPort { protocol, port: (port > 0).then_some(port) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(rule: &Value) -> EgressFirewall {
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "EgressFirewall",
            "metadata": {"name": "default", "namespace": "blue"},
            "spec": {"egress": [rule]},
        });
        egress_firewall(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_rule_has_one_kind_of_destination() {
        let destinations = [
            json!({"cidrSelector": "10.0.0.0/8"}),
            json!({"dnsName": "example.com"}),
            json!({"nodeSelector": {"matchLabels": {"zone": "a"}}}),
        ];
        for to in &destinations {
            let firewall = read(&json!({"type": "Deny", "to": to}));
            assert_eq!(firewall.problems, []);
            assert_eq!(firewall.rules[0].action, FirewallAction::Deny);
        }
        for to in [json!({}), json!({"cidrSelector": "10.0.0.0/8", "dnsName": "example.com"})] {
            let firewall = read(&json!({"type": "Deny", "to": to}));
            assert_eq!(firewall.rules, []);
            let [problem] = &firewall.problems[..] else {
                panic!("{:?}", firewall.problems);
            };
            assert_eq!(
                problem.to_string(),
                "spec.egress[0].to: exactly one of cidrSelector, dnsName and nodeSelector is required"
            );
        }
    }

    #[test]
    fn fields_that_cannot_be_used_are_named() {
        let to = json!({"cidrSelector": "10.0.0.0/8"});
        let cases = [
            (
                json!({"type": "Drop", "to": to}),
                "spec.egress[0].type: \"Drop\" is neither Allow nor Deny",
            ),
            (
                json!({"type": "Deny", "to": {"cidrSelector": "10.0.0.0"}}),
                "spec.egress[0].to.cidrSelector: \"10.0.0.0\" is not a CIDR",
            ),
            (
                json!({"type": "Deny", "to": to, "ports": [{"protocol": "tcp", "port": 80}]}),
                "spec.egress[0].ports[0].protocol: \"tcp\" is none of TCP, UDP and SCTP",
            ),
            (
                json!({"type": "Deny", "to": to, "ports": [{"protocol": "TCP", "port": 65536}]}),
                "spec.egress[0].ports[0].port: 65536 is not in 1..=65535",
            ),
        ];
        for (rule, message) in cases {
            let firewall = read(&rule);
            assert_eq!(
                (firewall.rules.len(), firewall.problems[0].to_string()),
                (0, message.to_owned())
            );
        }
    }
}
