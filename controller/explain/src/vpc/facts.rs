//! What an object of a VPC specifies, and what it has.

use std::fmt::Display;
use std::net::IpAddr;

use patchbay_model::vpc::{
    BalancerKey, BalancerKind, DEFAULT_VPC, ForwardedPort, NatKey, NatKind, PolicyAction,
    PolicyRoute, StaticRoute, SubnetProvider, VirtualIpKind, VpcScene, VpcSubnet, WiredNat,
};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::kube_ovn::KubeOvnCondition;

use super::{VpcKind, balancer_facts};

/// Maximum number of elements of a list in words. The others are counted.
const MAX_NAMED: usize = 10;

/// Facts about an object, one sentence each.
pub(super) fn of(
    kind: VpcKind,
    name: &str,
    inventory: &Inventory,
    scene: &VpcScene,
) -> Vec<String> {
    match kind {
        VpcKind::Vpc => of_vpc(name, scene),
        VpcKind::Subnet => of_subnet(name, inventory, scene),
        VpcKind::Eip => of_eip(name, scene),
        VpcKind::Nat(kind) => of_nat(&NatKey { kind, name: name.into() }, scene),
        VpcKind::SwitchRule => {
            let kind = BalancerKind::SwitchRule;
            balancer_facts::of_balancer(&BalancerKey { kind, name: name.into() }, scene)
        }
        VpcKind::RouterRule => {
            let kind = BalancerKind::RouterRule;
            balancer_facts::of_balancer(&BalancerKey { kind, name: name.into() }, scene)
        }
        VpcKind::Group => balancer_facts::of_group(name, scene),
        VpcKind::VirtualIp => of_virtual_ip(name, scene),
        VpcKind::IpPool => of_ip_pool(name, inventory, scene),
        VpcKind::Ip => of_port(name, scene),
    }
}

/// A condition in words.
pub(super) fn condition(condition: &KubeOvnCondition) -> String {
    let KubeOvnCondition { type_, status, reason, message, .. } = condition;
    if message.is_empty() {
        format!("{type_}: {status} ({reason})")
    } else {
        format!("{type_}: {status} ({reason}): {message}")
    }
}

fn of_vpc(name: &str, scene: &VpcScene) -> Vec<String> {
    let Some(vpc) = scene.objects.vpcs.get(name) else {
        return vec!["the default VPC, whose rows are those of the platform".to_owned()];
    };
    let mut facts = vec![format!("namespaces: {}", list(&vpc.namespaces))];
    let subnets: Vec<&str> = scene.subnets_of(name).map(|subnet| &*subnet.name).collect();
    facts.push(format!("subnets: {}", list(&subnets)));
    facts.extend(limited(&vpc.routes, "routes", route));
    facts.extend(limited(&vpc.policies, "policies", policy));
    facts.extend(limited(&vpc.peerings, "peerings", |peering| {
        format!("peering with Vpc {}: {}", peering.remote, list(&peering.networks))
    }));
    facts.extend(scene.external_ports(vpc).iter().map(|port| {
        let on = format!("port on Subnet {}: {}", port.subnet, list(&port.networks));
        format!("{on}, {}", gateways(&port.chassis, scene))
    }));
    facts
}

fn route(route: &StaticRoute) -> String {
    let source = if route.is_of_source { "from " } else { "" };
    let table = if route.table.is_empty() { String::new() } else { format!(" ({})", route.table) };
    format!("route {source}{} via {}{table}", route.prefix, route.next_hop)
}

fn policy(policy: &PolicyRoute) -> String {
    let action = match &policy.action {
        PolicyAction::Allow => "allow".to_owned(),
        PolicyAction::Drop => "drop".to_owned(),
        PolicyAction::Reroute(hops) => format!("reroute to {}", list(hops)),
    };
    format!("policy {} {}: {action}", policy.priority, policy.expression)
}

/// The nodes that may host a port, the active one first.
fn gateways<T: AsRef<str>>(chassis: &[T], scene: &VpcScene) -> String {
    let nodes: Vec<String> = chassis
        .iter()
        .map(|chassis| {
            let mut nodes = scene.objects.nodes.iter();
            let node = nodes.find(|node| node.chassis.as_deref() == Some(chassis.as_ref()));
            node.map_or_else(
                || format!("chassis {}", chassis.as_ref()),
                |node| node.name.to_string(),
            )
        })
        .collect();
    format!("gateway nodes in their order: {}", list(&nodes))
}

fn of_subnet(name: &str, inventory: &Inventory, scene: &VpcScene) -> Vec<String> {
    let mut facts = Vec::new();
    let Some(Ok(subnet)) = scene.objects.subnets.get(name) else {
        return facts;
    };
    let VpcSubnet { vpc, provider, vlan, nets, .. } = subnet;
    let gateways: Vec<String> =
        nets.iter().map(|net| format!("{}, gateway {}", net.net, net.gateway)).collect();
    facts.push(format!("range of Vpc {vpc}: {}", list(&gateways)));
    if let Some(vlan) = vlan {
        facts.push(match scene.objects.vlans.get(vlan) {
            Some(known) if known.id != 0 => format!(
                "underlay: Vlan {vlan}, frames with tag {} on ProviderNetwork {}",
                known.id, known.provider
            ),
            Some(known) => format!(
                "underlay: Vlan {vlan}, frames without tag on ProviderNetwork {}",
                known.provider
            ),
            None => format!("underlay: Vlan {vlan}"),
        });
    }
    facts.push(match provider {
        SubnetProvider::Attachment(provider) => format!(
            "pods select it by NetworkAttachmentDefinition {}/{}",
            provider.namespace, provider.name
        ),
        SubnetProvider::Default => "pods do not select it, because it has no provider".to_owned(),
        SubnetProvider::Foreign => "not served by OVN, because of its provider".to_owned(),
    });
    let object = inventory.subnets.named(name);
    if let Some(status) = object.and_then(|object| object.status.as_ref()) {
        let families = [
            (&status.v4_available_ips, &status.v4_using_ips, &status.v4_using_ip_range, false),
            (&status.v6_available_ips, &status.v6_using_ips, &status.v6_using_ip_range, true),
        ];
        for (available, used, ranges, is_ipv6) in families {
            let has_family = nets.iter().any(|net| net.net.addr().is_ipv6() == is_ipv6);
            if let (Some(available), Some(used), true) = (available, used, has_family) {
                let family = if is_ipv6 { "IPv6" } else { "IPv4" };
                let ranges = if ranges.is_empty() { String::new() } else { format!(" ({ranges})") };
                facts.push(format!("{family} addresses: {used} used{ranges}, {available} left"));
            }
        }
    }
    facts
}

fn of_eip(name: &str, scene: &VpcScene) -> Vec<String> {
    let Some(eip) = scene.objects.eips.get(name) else {
        return Vec::new();
    };
    let mac = eip.mac.as_deref().map(|mac| format!(", {mac}")).unwrap_or_default();
    let addresses = list::<IpAddr>(&eip.addresses);
    let mut facts =
        vec![format!("type {} on Subnet {}: {addresses}{mac}", eip.kind.as_str(), eip.subnet)];
    let vpcs = scene.objects.vpcs.values();
    let owner =
        vpcs.flat_map(|vpc| scene.external_ports(vpc).into_iter().map(move |port| (vpc, port)));
    facts.extend(owner.filter(|(vpc, port)| format!("{}-{}", vpc.name, port.subnet) == name).map(
        |(vpc, port)| format!("port of Vpc {}, {}", vpc.name, gateways(&port.chassis, scene)),
    ));
    let nats = scene.nats();
    let users: Vec<String> = nats
        .iter()
        .filter(|(key, nat)| {
            let rule = scene.objects.nats.get(key);
            nat.is_ok() && matches!(rule, Some(Ok(rule)) if &*rule.eip == name)
        })
        .map(|(key, _)| key.to_string())
        .collect();
    facts.push(format!("used by {}", list(&users)));
    facts
}

fn of_nat(key: &NatKey, scene: &VpcScene) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(Ok(rule)) = scene.objects.nats.get(key) {
        facts.push(format!("address of OvnEip {}", rule.eip));
    }
    let mut nats = scene.nats();
    let Some(Ok(nat)) = nats.remove(key) else {
        return facts;
    };
    let WiredNat { vpc, subnet, rows, port, machine, .. } = &nat;
    facts.extend(rows.iter().map(|row| {
        let (external, logical) = (&row.external, &row.logical);
        match (key.kind, port) {
            (NatKind::Dnat, Some(ForwardedPort { protocol, external: from, internal: to })) => {
                format!(
                    "{protocol} {external} port {from} leads to {logical} port {to} in Vpc {vpc}"
                )
            }
            (NatKind::Snat, _) => format!("packets of {logical} in Vpc {vpc} leave as {external}"),
            _ => format!("{external} is {logical} in Vpc {vpc}, in both directions"),
        }
    }));
    let of_vpc = scene.objects.vpcs.get(vpc);
    let ports = of_vpc.map(|vpc| scene.external_ports(vpc)).unwrap_or_default();
    facts.extend(ports.iter().filter(|port| port.subnet == *subnet).map(|port| match machine {
        Some(_) => "translated on the node of the machine".to_owned(),
        None => format!("translated at port {vpc}-{subnet}, {}", gateways(&port.chassis, scene)),
    }));
    facts
}

fn of_port(name: &str, scene: &VpcScene) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(port) = scene.objects.ports.get(name) {
        let addresses = list(&port.addresses);
        let vpc = scene.usable_subnet(&port.subnet).map(|subnet| subnet.vpc.clone());
        let vpc = vpc.unwrap_or_else(|_| DEFAULT_VPC.into());
        facts.push(format!("{addresses}, {} on Subnet {} of Vpc {vpc}", port.mac, port.subnet));
    }
    let mut requests = scene.objects.requests.iter();
    facts.push(match requests.find(|request| request.port() == name) {
        Some(request) => {
            let on = request.node.as_deref().map(|node| format!(" on Node {node}"));
            format!("port of Pod {}{}", request.pod, on.unwrap_or_default())
        }
        None => "no pod has the port, which keeps its addresses".to_owned(),
    });
    facts
}

fn of_virtual_ip(name: &str, scene: &VpcScene) -> Vec<String> {
    let Ok((virtual_ip, subnet)) = scene.virtual_ip(name) else {
        return Vec::new();
    };
    let addresses = list(&virtual_ip.addresses);
    let mut facts = vec![format!("{addresses} on Subnet {} of Vpc {}", subnet.name, subnet.vpc)];
    let mut wired = scene.wired_virtual_ips();
    facts.extend(match (virtual_ip.kind, wired.remove(name)) {
        (VirtualIpKind::Balancer, _) => Some("the router answers for the address".to_owned()),
        (VirtualIpKind::Host, Some(wired)) => {
            wired.host.map(|host| format!("address of a machine on its node: port {}", host.name))
        }
        (_, Some(wired)) => {
            let shared = wired.shared;
            shared.map(|(_, ports)| format!("ports that may have the address: {}", list(&ports)))
        }
        _ => Some("reserved: no machine has the address".to_owned()),
    });
    facts
}

fn of_ip_pool(name: &str, inventory: &Inventory, scene: &VpcScene) -> Vec<String> {
    let mut pools = scene.ip_pools();
    let Some(Ok(pool)) = pools.remove(name) else {
        return Vec::new();
    };
    let mut facts = vec![format!("addresses of Subnet {}: {}", pool.subnet, list(&pool.ranges))];
    let object = inventory.ip_pools.named(name);
    let namespaces = object.map_or(&[][..], |object| &object.spec.namespaces);
    facts.push(format!("namespaces whose pods get them: {}", list(namespaces)));
    if let Some(status) = object.and_then(|object| object.status.as_ref()) {
        let families = [
            ("IPv4", &status.v4_using_ip_range, &status.v4_available_ips),
            ("IPv6", &status.v6_using_ip_range, &status.v6_available_ips),
        ];
        for (family, used, available) in families {
            if let Some(available) = available {
                let used = if used.is_empty() { "none" } else { used };
                facts.push(format!("{family} addresses: {used} used, {available} left"));
            }
        }
    }
    facts
}

/// Facts about the first elements, and the number of the others.
fn limited<T>(all: &[T], noun: &str, fact: impl Fn(&T) -> String) -> Vec<String> {
    let mut facts: Vec<String> = all.iter().take(MAX_NAMED).map(fact).collect();
    if let more @ 1.. = all.len().saturating_sub(MAX_NAMED) {
        facts.push(format!("{more} more {noun}"));
    }
    facts
}

/// The first elements with commas between them, and the number of the others.
pub(super) fn list<T: Display>(all: &[T]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let named: Vec<String> = all.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let named = named.join(", ");
    match all.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
