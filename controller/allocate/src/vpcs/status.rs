//! Status of the objects of VPCs, and what cannot be done as they specify.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use patchbay_model::vpc::{
    AddressUse, BalancerKey, BalancerKind, DEFAULT_VPC, EipKind, NatKey, NatKind, NatProblem,
    ResolvedRules, SubnetProblem, VpcAddressPool, VpcScene, WiredGroup, WiredNat, port_group,
};
use patchbay_model::{FieldProblem, PodKey};
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Problem};
use patchbay_resources::object::kube_ovn::{
    IPPool, KubeOvnCondition, OvnDnatRule, OvnDnatRuleStatus, OvnEip, OvnFip, OvnFipStatus,
    OvnSnatRule, OvnSnatRuleStatus, RouterLBRule, SecurityGroup, Subnet, SwitchLBRule, Vip, Vpc,
};
use patchbay_resources::object::{Object as _, Pod, Service, Time};
use serde_json::Number;

use super::balancers;
use super::claims::Pools;
use super::conditions;
use super::objects::{PREFIX, label_value};
use super::unsupported;

/// Condition of a subnet of which a field, or an entry of one, cannot be used.
const FIELDS_ACCEPTED: &str = "FieldsAccepted";

/// Collector of problems.
struct Problems<'a> {
    inventory: &'a Inventory,
    found: Vec<Problem>,
}

impl Problems<'_> {
    /// Adds a problem of an object, if the object is there.
    fn add<T: InventoryKind>(&mut self, key: &ObjectKey, message: &dyn Display) {
        if let Some(sourced) = T::objects(self.inventory).get(key) {
            self.found.push(sourced.problem(message.to_string()));
        }
    }
}

impl Problems<'_> {
    fn add_of_balancer(&mut self, key: &BalancerKey, message: &dyn Display) {
        match (key.kind, key.name.split_once('/')) {
            (BalancerKind::Service, Some((namespace, name))) => {
                self.add::<Service>(&ObjectKey::namespaced(namespace, name), message);
            }
            (BalancerKind::Service, None) => {}
            (BalancerKind::SwitchRule, _) => {
                self.add::<SwitchLBRule>(&ObjectKey::cluster(&*key.name), message);
            }
            (BalancerKind::RouterRule, _) => {
                self.add::<RouterLBRule>(&ObjectKey::cluster(&*key.name), message);
            }
        }
    }
}

/// Sets the status of all objects, and returns what cannot be done as they specify, in the order of
/// kinds and names.
pub(super) fn write(
    inventory: &mut Inventory,
    scene: &VpcScene,
    (rules, pools): (&ResolvedRules, &Pools),
    now: &Time,
) -> Vec<Problem> {
    let nats = &rules.nats;
    let groups = scene.groups();
    write_links(inventory, scene);
    write_subnets(inventory, scene, pools, now);
    write_vpcs(inventory, scene, now);
    write_eips(inventory, scene, nats);
    write_rules(inventory, nats, now);
    balancers::write(inventory, rules, now);
    write_virtual_ips(inventory, scene, now);
    write_ip_pools(inventory, scene, pools, now);
    write_groups(inventory, &groups);
    problems(inventory, scene, rules, &groups)
}

/// Names of VLANs and subnets in the status of provider networks and VLANs.
fn write_links(inventory: &mut Inventory, scene: &VpcScene) {
    let vlans = &scene.objects.vlans;
    inventory.provider_networks.change_each(|key, sourced| {
        let of_network = vlans.iter().filter(|(_, vlan)| *vlan.provider == *key.name);
        let names = of_network.map(|(name, _)| name.to_string());
        let status = sourced.object.status.get_or_insert_default();
        status.vlans = names.collect();
    });
    let subnets = &scene.objects.subnets;
    inventory.vlans.change_each(|key, sourced| {
        let of_vlan =
            subnets.values().flatten().filter(|subnet| subnet.vlan.as_deref() == Some(&*key.name));
        let status = sourced.object.status.get_or_insert_default();
        status.subnets = of_vlan.map(|subnet| subnet.name.to_string()).collect();
        let vlan = vlans.get(&*key.name);
        let has_network = vlan.is_some_and(|vlan| vlan.problem.is_some());
        let network = vlan.map(|vlan| &*vlan.provider).unwrap_or_default();
        let is_known = inventory.provider_networks.named(network).is_some();
        status.conflict = has_network && is_known;
    });
}

fn write_subnets(inventory: &mut Inventory, scene: &VpcScene, pools: &Pools, now: &Time) {
    inventory.subnets.change_each(|key, sourced| {
        let status = sourced.object.status.get_or_insert_default();
        let result = match scene.objects.subnets.get(&*key.name) {
            Some(Err(problem)) => Err(SubnetProblem::from(problem.clone())),
            _ => scene.standing(&key.name).cloned().unwrap_or(Ok(())),
        };
        let read = scene.objects.subnets.get(&*key.name).and_then(|subnet| subnet.as_ref().ok());
        let is_private = read.is_some_and(|subnet| subnet.is_private);
        let result = match &result {
            Ok(()) if is_private => Ok("SetPrivateLogicalSwitchSuccess"),
            Ok(()) => Ok("ResetLogicalSwitchAclSuccess"),
            Err(problem) => Err((problem.reason(), problem.to_string())),
        };
        conditions::set(&mut status.conditions, "Validated", result.clone(), now);
        conditions::set(&mut status.conditions, "Ready", result, now);
        match read.and_then(|subnet| subnet.problems.first()) {
            Some(problem) => {
                let result = Err(("InvalidField", problem.to_string()));
                conditions::set(&mut status.conditions, FIELDS_ACCEPTED, result, now);
            }
            None => status.conditions.retain(|condition| condition.type_ != FIELDS_ACCEPTED),
        }
        let usage = |is_ipv6: bool| {
            let mut pools = pools.of(&key.name).iter();
            let pool = pools.find(|pool| pool.net().addr().is_ipv6() == is_ipv6);
            pool.map(VpcAddressPool::usage).unwrap_or_default()
        };
        let AddressUse { available, available_ranges, used, used_ranges } = usage(false);
        status.v4_available_ips = Some(number(available));
        status.v4_available_ip_range = available_ranges;
        status.v4_using_ips = Some(number(used));
        status.v4_using_ip_range = used_ranges;
        let AddressUse { available, available_ranges, used, used_ranges } = usage(true);
        status.v6_available_ips = Some(number(available));
        status.v6_available_ip_range = available_ranges;
        status.v6_using_ips = Some(number(used));
        status.v6_using_ip_range = used_ranges;
    });
}

/// A count as a number of JSON, which is rounded above 64 bits.
#[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of large IPv6 ranges are rounded, as in Kube-OVN"
)]
fn number(count: u128) -> Number {
    u64::try_from(count)
        .map(Number::from)
        .ok()
        .or_else(|| Number::from_f64(count as f64))
        .unwrap_or_else(|| Number::from(u64::MAX))
}

fn write_vpcs(inventory: &mut Inventory, scene: &VpcScene, now: &Time) {
    inventory.vpcs.change_each(|key, sourced| {
        let name = &*key.name;
        let status = sourced.object.status.get_or_insert_default();
        let subnets = scene.subnets_of(name);
        status.subnets = subnets.map(|subnet| subnet.name.to_string()).collect();
        let Some(vpc) = scene.objects.vpcs.get(name) else {
            status.default = name == DEFAULT_VPC;
            return;
        };
        status.standby = true;
        name.clone_into(&mut status.router);
        name_balancers(status, name);
        let peers = vpc.peerings.iter().map(|peering| peering.remote.to_string());
        status.vpc_peerings = peers.collect();
        let connections = scene.connections(vpc);
        let is_external = !connections.is_empty();
        let mut connected = Vec::new();
        let mut problem = None;
        for connection in connections {
            match scene.external_port(&vpc.name, connection) {
                Ok(port) => connected.push(port.subnet.to_string()),
                Err(found) => {
                    problem.get_or_insert(found);
                }
            }
        }
        status.enable_external = !connected.is_empty();
        let is_listed = sourced.object.spec.extra_external_subnets.is_some();
        status.extra_external_subnets = if is_listed { connected } else { Vec::new() };
        let all = &mut status.conditions;
        conditions::set(all, "Ready", Ok("RouterPlanned"), now);
        if is_external {
            let result = match &problem {
                None => Ok("Connected"),
                Some(problem) => Err((problem.reason(), problem.to_string())),
            };
            conditions::set(all, "ExternalConnected", result, now);
        } else {
            all.retain(|condition| condition.type_ != "ExternalConnected");
        }
        let result = match vpc.problems.first() {
            None => Ok("Accepted"),
            Some(problem) if problem.field.starts_with("spec.policyRoutes") => {
                Err(("InvalidPolicy", problem.to_string()))
            }
            Some(problem) => Err(("InvalidRoute", problem.to_string())),
        };
        conditions::set(all, "RoutesAccepted", result, now);
    });
}

fn name_balancers(status: &mut patchbay_resources::object::kube_ovn::VpcStatus, vpc: &str) {
    let name = |kind: &str| format!("vpc-{vpc}-{kind}");
    status.tcp_load_balancer = name("tcp-load");
    status.udp_load_balancer = name("udp-load");
    status.sctp_load_balancer = name("sctp-load");
    status.tcp_session_load_balancer = name("tcp-sess-load");
    status.udp_session_load_balancer = name("udp-sess-load");
    status.sctp_session_load_balancer = name("sctp-sess-load");
}

/// Rules about external addresses: what their rows follow from, or why they have none.
type Nats = BTreeMap<NatKey, Result<WiredNat, NatProblem>>;

fn write_eips(inventory: &mut Inventory, scene: &VpcScene, nats: &Nats) {
    // Uses have the order of their words.
    let mut uses: BTreeMap<Arc<str>, BTreeMap<&str, &NatKey>> = BTreeMap::new();
    let mut vpcs: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for (key, nat) in nats {
        let (Some(Ok(rule)), Ok(nat)) = (scene.objects.nats.get(key), nat) else {
            continue;
        };
        let of_eip = uses.entry(rule.eip.clone()).or_default();
        of_eip.entry(key.kind.usage()).or_insert(key);
        vpcs.insert(rule.eip.clone(), nat.vpc.clone());
    }
    inventory.ovn_eips.change_each(|key, sourced| {
        let name = &*key.name;
        let object = &mut sourced.object;
        let of_eip = uses.get(name);
        let status = object.status.get_or_insert_default();
        let problem = scene.objects.eips.get(name);
        if problem.is_some_and(|eip| eip.problem.is_some()) {
            status.ready = false;
        }
        let words = of_eip.into_iter().flat_map(BTreeMap::keys).copied();
        status.nat = words.collect::<Vec<&str>>().join(",");
        let rule = of_eip.and_then(|of_eip| of_eip.values().next());
        let (label, annotation) = (format!("{PREFIX}/vpc"), format!("{PREFIX}/vpc_nat"));
        if let (Some(vpc), Some(rule)) = (vpcs.get(name), rule) {
            let labels = object.metadata.labels.get_or_insert_default();
            labels.insert(label, vpc.to_string());
            let annotations = object.annotations_mut();
            annotations.insert(annotation, rule.name.to_string());
        } else {
            let labels = object.metadata.labels.iter_mut();
            labels.for_each(|labels| drop(labels.remove(&label)));
            let annotations = object.metadata.annotations.iter_mut();
            annotations.for_each(|annotations| drop(annotations.remove(&annotation)));
        }
    });
}

fn write_rules(inventory: &mut Inventory, nats: &Nats, now: &Time) {
    let of = |kind, name: &str| nats.get(&NatKey { kind, name: name.into() });
    inventory.ovn_snat_rules.change_each(|key, sourced| {
        let object: &mut OvnSnatRule = &mut sourced.object;
        let former = object.status.take().map(|status| status.conditions);
        let (conditions, found) = judged(of(NatKind::Snat, &key.name), former, now);
        let mut status = OvnSnatRuleStatus { conditions, ..OvnSnatRuleStatus::default() };
        if let Some(found) = found {
            status.ready = true;
            status.vpc = found.vpc.to_string();
            [status.v4_eip, status.v6_eip] = found.external;
            [status.v4_ip_cidr, status.v6_ip_cidr] = found.logical;
            let addresses = [&status.v4_eip, &status.v6_eip].map(Clone::clone);
            mark(object, &object.spec.ovn_eip.clone(), &addresses);
        }
        object.status = Some(status);
    });
    inventory.ovn_fips.change_each(|key, sourced| {
        let object: &mut OvnFip = &mut sourced.object;
        let former = object.status.take().map(|status| status.conditions);
        let (conditions, found) = judged(of(NatKind::Fip, &key.name), former, now);
        let mut status = OvnFipStatus { conditions, ..OvnFipStatus::default() };
        if let Some(found) = found {
            status.ready = true;
            status.vpc = found.vpc.to_string();
            [status.v4_eip, status.v6_eip] = found.external;
            [status.v4_ip, status.v6_ip] = found.logical;
            let machine = found.machine.as_ref();
            status.mac_address = machine.map(|(_, mac)| mac.to_string()).unwrap_or_default();
            let addresses = [&status.v4_eip, &status.v6_eip].map(Clone::clone);
            mark(object, &object.spec.ovn_eip.clone(), &addresses);
        }
        object.status = Some(status);
    });
    inventory.ovn_dnat_rules.change_each(|key, sourced| {
        let object: &mut OvnDnatRule = &mut sourced.object;
        let former = object.status.take().map(|status| status.conditions);
        let (conditions, found) = judged(of(NatKind::Dnat, &key.name), former, now);
        let mut status = OvnDnatRuleStatus { conditions, ..OvnDnatRuleStatus::default() };
        if let Some(found) = found {
            status.ready = true;
            status.vpc = found.vpc.to_string();
            [status.v4_eip, status.v6_eip] = found.external;
            [status.v4_ip, status.v6_ip] = found.logical;
            status.ip_name.clone_from(&object.spec.ip_name);
            if let Some(port) = found.port {
                status.protocol = port.protocol.as_str().to_ascii_lowercase();
                status.external_port = port.external.to_string();
                status.internal_port = port.internal.to_string();
            }
            let addresses = [&status.v4_eip, &status.v6_eip].map(Clone::clone);
            mark(object, &object.spec.ovn_eip.clone(), &addresses);
        }
        object.status = Some(status);
    });
}

/// Conditions of virtual addresses, which have their addresses already.
fn write_virtual_ips(inventory: &mut Inventory, scene: &VpcScene, now: &Time) {
    inventory.vips.change_each(|key, sourced| {
        let status = sourced.object.status.get_or_insert_default();
        let result = match scene.virtual_ip(&key.name) {
            Err(problem) => Err((problem.reason(), problem.to_string())),
            Ok((virtual_ip, _)) if virtual_ip.addresses.is_empty() => {
                Err(("AddressNotAllocated", "it has no address".to_owned()))
            }
            Ok(_) => Ok("AddressAllocated"),
        };
        conditions::set(&mut status.conditions, "Ready", result, now);
    });
}

/// Numbers and conditions of pools of addresses.
fn write_ip_pools(inventory: &mut Inventory, scene: &VpcScene, pools: &Pools, now: &Time) {
    let found = scene.ip_pools();
    inventory.ip_pools.change_each(|key, sourced| {
        let status = sourced.object.status.get_or_insert_default();
        let resolved = found.get(&*key.name).and_then(|pool| pool.as_ref().ok());
        let usage = |is_ipv6: bool| {
            let of_pool = resolved?;
            let mut of_subnet = pools.of(&of_pool.subnet).iter();
            let pool = of_subnet.find(|pool| pool.net().addr().is_ipv6() == is_ipv6)?;
            Some(pool.usage_of(&of_pool.ranges))
        };
        let AddressUse { available, available_ranges, used, used_ranges } =
            usage(false).unwrap_or_default();
        status.v4_available_ips = Some(number(available));
        status.v4_available_ip_range = available_ranges;
        status.v4_using_ips = Some(number(used));
        status.v4_using_ip_range = used_ranges;
        let AddressUse { available, available_ranges, used, used_ranges } =
            usage(true).unwrap_or_default();
        status.v6_available_ips = Some(number(available));
        status.v6_available_ip_range = available_ranges;
        status.v6_using_ips = Some(number(used));
        status.v6_using_ip_range = used_ranges;
        let result = match found.get(&*key.name) {
            Some(Err(problem)) => Err(("UpdateIPAMFailed", problem.to_string())),
            _ => Ok("UpdateIPAMSucceeded"),
        };
        conditions::set(&mut status.conditions, "Ready", result, now);
    });
}

/// Security groups with their ACLs, or the reasons why ports cannot be in them.
type Groups = BTreeMap<Arc<str>, Result<WiredGroup, FieldProblem>>;

/// Status of security groups, which has no conditions.
fn write_groups(inventory: &mut Inventory, groups: &Groups) {
    inventory.security_groups.change_each(|key, sourced| {
        let allows_own = sourced.object.spec.allow_same_group_traffic;
        let group = groups.get(&*key.name).and_then(|group| group.as_ref().ok());
        let status = sourced.object.status.get_or_insert_default();
        status.port_group = group.map(|_| port_group(&key.name)).unwrap_or_default();
        status.allow_same_group_traffic = allows_own && group.is_some();
        let is_whole = group.is_some_and(|group| group.problems.is_empty());
        status.ingress_last_sync_success = is_whole;
        status.egress_last_sync_success = is_whole;
    });
}

/// Addresses of a rule that is in effect, by family.
struct Found<'a> {
    vpc: &'a str,
    external: [String; 2],
    logical: [String; 2],
    machine: &'a Option<(Arc<str>, Arc<str>)>,
    port: Option<patchbay_model::vpc::ForwardedPort>,
}

/// Conditions of a rule, and its addresses if it is in effect.
fn judged<'a>(
    nat: Option<&'a Result<WiredNat, NatProblem>>,
    former: Option<Vec<KubeOvnCondition>>,
    now: &Time,
) -> (Vec<KubeOvnCondition>, Option<Found<'a>>) {
    let mut all = former.unwrap_or_default();
    let result = match nat {
        Some(Err(problem)) => Err((problem.reason(), problem.to_string())),
        _ => Ok("Translated"),
    };
    conditions::set(&mut all, "Ready", result, now);
    let nat = nat.and_then(|nat| nat.as_ref().ok());
    let found = nat.map(|nat| {
        let pick = |texts: Vec<&String>| {
            let of = |is_ipv6: bool| {
                let mut texts = texts.iter();
                let text = texts.find(|text| text.contains(':') == is_ipv6);
                text.map(|text| (*text).clone()).unwrap_or_default()
            };
            [of(false), of(true)]
        };
        Found {
            vpc: &nat.vpc,
            external: pick(nat.rows.iter().map(|row| &row.external).collect()),
            logical: pick(nat.rows.iter().map(|row| &row.logical).collect()),
            machine: &nat.machine,
            port: nat.port,
        }
    });
    (all, found)
}

/// Sets the labels and the annotation of a rule: its external address.
fn mark<T: InventoryKind>(object: &mut T, eip: &str, [v4, v6]: &[String; 2]) {
    let labels = object.meta_mut().labels.get_or_insert_default();
    labels.insert(format!("{PREFIX}/eip_v4_ip"), v4.clone());
    labels.insert(format!("{PREFIX}/eip_v6_ip"), label_value(v6));
    object.annotations_mut().insert(format!("{PREFIX}/vpc_eip"), eip.to_owned());
}

fn problems(
    inventory: &Inventory,
    scene: &VpcScene,
    rules: &ResolvedRules,
    groups: &Groups,
) -> Vec<Problem> {
    let mut problems = Problems { inventory, found: Vec::new() };
    for (name, subnet) in &scene.objects.subnets {
        let key = ObjectKey::cluster(&**name);
        match (subnet, scene.standing(name)) {
            (Err(problem), _) => problems.add::<Subnet>(&key, &problem),
            (_, Some(Err(problem))) => problems.add::<Subnet>(&key, &problem),
            (Ok(subnet), _) => {
                for problem in &subnet.problems {
                    problems.add::<Subnet>(&key, problem);
                }
            }
        }
    }
    for (key, sourced) in inventory.subnets.iter() {
        for problem in unsupported::of_subnet(&sourced.object.spec) {
            problems.add::<Subnet>(key, &problem);
        }
    }
    for (key, sourced) in inventory.vpcs.iter() {
        for problem in unsupported::of_vpc(&sourced.object.spec) {
            problems.add::<Vpc>(key, &problem);
        }
    }
    for (name, vpc) in &scene.objects.vpcs {
        let key = ObjectKey::cluster(&**name);
        for problem in &vpc.problems {
            problems.add::<Vpc>(&key, &problem);
        }
        for connection in scene.connections(vpc) {
            if let Err(problem) = scene.external_port(name, connection) {
                problems.add::<Vpc>(&key, &problem);
            }
        }
    }
    for (name, eip) in &scene.objects.eips {
        let key = ObjectKey::cluster(&**name);
        if let Some(problem) = &eip.problem {
            problems.add::<OvnEip>(&key, &problem);
        } else if eip.addresses.is_empty() {
            let message = eip_problem(inventory, &key, scene);
            problems.add::<OvnEip>(&key, &message);
        } else if eip.kind == EipKind::NodePort && eip.mac.is_none() {
            problems.add::<OvnEip>(&key, &"it has no MAC address");
        }
    }
    for (key, nat) in &rules.nats {
        let Err(problem) = nat else {
            continue;
        };
        let object = ObjectKey::cluster(&*key.name);
        match key.kind {
            NatKind::Snat => problems.add::<OvnSnatRule>(&object, &problem),
            NatKind::Fip => problems.add::<OvnFip>(&object, &problem),
            NatKind::Dnat => problems.add::<OvnDnatRule>(&object, &problem),
        }
    }
    for (key, balancer) in &rules.balancers {
        match balancer {
            Err(problem) => problems.add_of_balancer(key, problem),
            Ok(balancer) => {
                for problem in &balancer.problems {
                    problems.add_of_balancer(key, problem);
                }
            }
        }
    }
    for name in scene.objects.virtual_ips.keys() {
        let key = ObjectKey::cluster(&**name);
        match scene.virtual_ip(name) {
            Err(problem) => problems.add::<Vip>(&key, &problem),
            Ok((virtual_ip, _)) => {
                for problem in &virtual_ip.problems {
                    problems.add::<Vip>(&key, problem);
                }
            }
        }
    }
    for (name, pool) in scene.ip_pools() {
        let key = ObjectKey::cluster(&*name);
        let found = match pool {
            Err(problem) => vec![problem],
            Ok(pool) => pool.problems,
        };
        for problem in &found {
            problems.add::<IPPool>(&key, problem);
        }
    }
    for (name, group) in groups {
        let key = ObjectKey::cluster(&**name);
        match group {
            Err(problem) => problems.add::<SecurityGroup>(&key, problem),
            Ok(group) => {
                for problem in &group.problems {
                    problems.add::<SecurityGroup>(&key, problem);
                }
            }
        }
    }
    for request in &scene.objects.requests {
        let PodKey { namespace, name } = &request.pod;
        let pod = ObjectKey::namespaced(&**namespace, &**name);
        if let Err(problem) = scene.subnet_of(request) {
            problems.add::<Pod>(&pod, &problem);
        }
        for problem in &request.problems {
            problems.add::<Pod>(&pod, problem);
        }
        for problem in VpcScene::idle_groups(request, groups) {
            problems.add::<Pod>(&pod, &problem);
        }
    }
    problems.found
}

/// Reason why an external address has none.
fn eip_problem(inventory: &Inventory, key: &ObjectKey, scene: &VpcScene) -> String {
    let object = inventory.ovn_eips.named(&key.name);
    let conditions = object.and_then(|object| object.status.as_ref());
    let mut conditions =
        conditions.map(|status| status.conditions.as_slice()).unwrap_or_default().iter();
    let condition = conditions.find(|one| one.type_ == "Ready" && one.status == "False");
    if let Some(condition) = condition {
        return condition.message.clone();
    }
    let eip = scene.objects.eips.get(&*key.name);
    let subnet = eip.map(|eip| eip.subnet.to_string()).unwrap_or_default();
    let reason = scene.usable_subnet(&subnet).err();
    format!("Subnet {subnet}: {}", reason.unwrap_or_else(|| "no address".to_owned()))
}
