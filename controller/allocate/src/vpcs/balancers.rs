//! Status of load balancers' rules.

use patchbay_model::vpc::{
    BalancerKey, BalancerKind, BalancerProblem, ResolvedRules, WiredBalancer,
};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Time;
use patchbay_resources::object::kube_ovn::{LBRulePort, LBRuleStatus};

use super::conditions;

/// Condition of a rule of which some ports or machines cannot be used.
const FIELDS_ACCEPTED: &str = "FieldsAccepted";
/// Namespace of the machines of a `RouterLBRule` that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Sets the status of all rules.
pub(super) fn write(inventory: &mut Inventory, rules: &ResolvedRules, now: &Time) {
    let of = |kind, name: &str| rules.balancers.get(&BalancerKey { kind, name: name.into() });
    inventory.switch_lb_rules.change_each(|key, sourced| {
        let spec = &sourced.object.spec;
        let service = format!("{}/slr-{}", spec.namespace, key.name);
        let ports = ports(&spec.ports);
        let status = sourced.object.status.get_or_insert_default();
        set(status, (service, ports), of(BalancerKind::SwitchRule, &key.name), now);
    });
    inventory.router_lb_rules.change_each(|key, sourced| {
        let spec = &sourced.object.spec;
        let namespace = Some(&*spec.namespace).filter(|namespace| !namespace.is_empty());
        let service = format!("{}/rlr-{}", namespace.unwrap_or(DEFAULT_NAMESPACE), key.name);
        let ports = ports(&spec.ports);
        let status = sourced.object.status.get_or_insert_default();
        set(status, (service, ports), of(BalancerKind::RouterRule, &key.name), now);
    });
}

fn set(
    status: &mut LBRuleStatus,
    (service, ports): (String, String),
    balancer: Option<&Result<WiredBalancer, BalancerProblem>>,
    now: &Time,
) {
    let all = &mut status.conditions;
    match balancer {
        Some(Ok(balancer)) => {
            status.service = service;
            status.ports = ports;
            conditions::set(all, "Ready", Ok("Balanced"), now);
            if let Some(problem) = balancer.problems.first() {
                let result = Err(("InvalidField", problem.to_string()));
                conditions::set(all, FIELDS_ACCEPTED, result, now);
                return;
            }
        }
        Some(Err(problem)) => {
            *status = LBRuleStatus { conditions: std::mem::take(all), ..LBRuleStatus::default() };
            let result = Err((problem.reason(), problem.to_string()));
            conditions::set(&mut status.conditions, "Ready", result, now);
        }
        None => {}
    }
    status.conditions.retain(|condition| condition.type_ != FIELDS_ACCEPTED);
}

/// Ports with their protocols, as Kube-OVN writes them.
fn ports(ports: &[LBRulePort]) -> String {
    let text = |port: &LBRulePort| {
        let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
        format!("{}/{protocol}", port.port)
    };
    let texts: Vec<String> = ports.iter().map(text).collect();
    texts.join(",")
}
