//! What rules of load balancers and security groups specify, and what they have.

use std::collections::BTreeSet;

use patchbay_model::vpc::{AclFlow, BalancerKey, PortRequest, VpcScene, port_group};

use super::facts::list;

/// Facts about a rule of load balancers.
pub(super) fn of_balancer(key: &BalancerKey, scene: &VpcScene) -> Vec<String> {
    let mut rules = scene.rules();
    let Some(Ok(balancer)) = rules.balancers.remove(key) else {
        return Vec::new();
    };
    let vpc = &balancer.vpc;
    let mut facts: Vec<String> = balancer
        .vips
        .iter()
        .map(|vip| {
            format!("{} {} in Vpc {vpc} leads to {}", vip.protocol, vip.vip, list(&vip.backends))
        })
        .collect();
    if balancer.has_affinity {
        facts.push("a client keeps its machine".to_owned());
    }
    let checked = balancer.vips.iter().flat_map(|vip| vip.checked.values());
    let subnets: BTreeSet<&str> = checked.map(|checked| &*checked.subnet).collect();
    facts.extend(subnets.into_iter().map(|subnet| {
        let address = scene.virtual_ip(subnet).map(|(of, _)| list(&of.addresses));
        let address = address.unwrap_or_else(|_| "no address".to_owned());
        format!("machines on Subnet {subnet} are checked for health by {address}")
    }));
    facts
}

/// Facts about a security group.
pub(super) fn of_group(name: &str, scene: &VpcScene) -> Vec<String> {
    let Some(Ok(group)) = scene.objects.groups.get(name) else {
        return Vec::new();
    };
    let mut facts = vec![format!("tier {}, port group {}", group.tier, port_group(name))];
    for (flow, word) in [(AclFlow::ToPort, "in"), (AclFlow::FromPort, "out")] {
        let rules = group.rules.iter().filter(|rule| rule.acl.flow == flow);
        facts.push(format!("rules about packets {word}: {}", rules.count()));
    }
    let requests = scene.objects.requests.iter();
    let members = requests.filter(|request| request.groups.iter().any(|of| **of == *name));
    let ports: Vec<String> = members.map(PortRequest::port).collect();
    facts.push(format!("ports: {}", list(&ports)));
    facts
}
