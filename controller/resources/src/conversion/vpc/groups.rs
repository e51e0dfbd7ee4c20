//! Security groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::FieldProblem;
use patchbay_model::vpc::{AclFlow, GroupRule, GroupRuleFields, SecurityGroup as Group};

use crate::manifests::{Inventory, Sourced};
use crate::object::kube_ovn::{SecurityGroup, SecurityGroupRule};

/// Security groups by name.
pub(super) fn groups(inventory: &Inventory) -> BTreeMap<Arc<str>, Result<Group, FieldProblem>> {
    let groups = inventory.security_groups.iter();
    groups.map(|(key, sourced)| (Arc::from(&*key.name), group(&key.name, sourced))).collect()
}

fn group(name: &str, sourced: &Sourced<SecurityGroup>) -> Result<Group, FieldProblem> {
    let spec = &sourced.object.spec;
    let tier = spec.tier.unwrap_or_default();
    if !(0..=1).contains(&tier) {
        return Err(FieldProblem::new("spec.tier", format!("{tier} is neither 0 nor 1")));
    }
    let mut group = Group {
        name: name.into(),
        tier,
        allows_own: spec.allow_same_group_traffic,
        rules: Vec::new(),
        refused: Vec::new(),
        position: sourced.position,
    };
    let lists = [
        (AclFlow::ToPort, "ingressRules", &spec.ingress_rules),
        (AclFlow::FromPort, "egressRules", &spec.egress_rules),
    ];
    for (flow, list, rules) in lists {
        for (index, rule) in rules.iter().enumerate() {
            let field = format!("spec.{list}[{index}]");
            match GroupRule::read(&field, (name, tier), &fields(flow, rule)) {
                Ok(read) => add(&mut group, read),
                Err(problem) => group.refused.push((problem, rule.policy != "allow")),
            }
        }
    }
    Ok(group)
}

/// Adds a rule, unless another one has its row.
fn add(group: &mut Group, rule: GroupRule) {
    let same = group.rules.iter().find(|other| other.acl.is_same_row(&rule.acl));
    match same.map(|other| other.acl.verdict == rule.acl.verdict) {
        None => group.rules.push(rule),
        Some(true) => {}
        Some(false) => {
            let reason = "another rule has its priority, addresses and ports, and another policy";
            let would_open = !rule.acl.verdict.is_allowing();
            group.refused.push((FieldProblem::new(rule.field, reason), would_open));
        }
    }
}

fn fields(flow: AclFlow, rule: &SecurityGroupRule) -> GroupRuleFields<'_> {
    GroupRuleFields {
        flow,
        ip_version: &rule.ip_version,
        protocol: &rule.protocol,
        priority: rule.priority,
        remote_type: &rule.remote_type,
        remote_address: &rule.remote_address,
        remote_group: &rule.remote_security_group,
        local_address: &rule.local_address,
        ports: (rule.port_range_min, rule.port_range_max),
        source_ports: (rule.source_port_range_min, rule.source_port_range_max),
        policy: &rule.policy,
    }
}
