//! Rules K and R about rows of a live Northbound database, and rule G8.

use std::collections::BTreeSet;

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_schemas::nb::{LogicalRouterStaticRoutePolicy, Nat, NatType};

use crate::cluster::{Cluster, VpcView, name_of, objects};
use crate::northbound::{NorthboundRows, RouterRows};
use crate::ranges::read_net;
use crate::report::Report;

/// Maximum number of rows that a message lists.
const MAX_LISTED: usize = 5;
/// Keys of `external_ids` of policies that Kube-OVN keeps, though no VPC has them.
const KEPT_POLICIES: [&str; 3] = ["subnet", "vpc-egress-gateway", "isU2ORoutePolicy"];
/// Key of `external_ids`: the object that a row is of.
const OWNER: &str = "owner";
/// Kinds of owners in that key.
const OWNER_KINDS: [&str; 7] =
    ["Vpc/", "Subnet/", "OvnEip/", "OvnSnatRule/", "OvnDnatRule/", "OvnFip/", "RouterLBRule/"];

/// Rows of the database, if there is one.
fn northbound<'c>(cluster: &'c Cluster<'_>) -> Option<&'c NorthboundRows> {
    cluster.northbound.as_ref()
}

/// Custom VPCs with the rows of their routers.
fn routers<'c, 'a>(
    cluster: &'c Cluster<'a>,
) -> impl Iterator<Item = (&'c VpcView<'a>, &'c RouterRows)> {
    let rows = northbound(cluster);
    cluster.custom_vpcs().filter_map(move |vpc| Some((vpc, rows?.routers.get(vpc.name)?)))
}

pub(super) fn former_gateways(cluster: &Cluster<'_>, report: &mut Report) {
    let nodes = cluster.gateway_nodes();
    let wanted: BTreeSet<&str> = nodes.filter_map(|node| node.node.chassis.as_deref()).collect();
    for (vpc, rows) in routers(cluster).filter(|(vpc, _)| vpc.has_external()) {
        for external in cluster.externals_of(vpc) {
            let port = format!("{}-{}", vpc.name, external.name);
            let Some(chassis) = rows.chassis.get(&port).filter(|chassis| !chassis.is_empty())
            else {
                continue;
            };
            let found: BTreeSet<&str> = chassis.iter().map(String::as_str).collect();
            if found != wanted && !wanted.is_empty() {
                let former: Vec<String> = found.iter().map(|&name| name.to_owned()).collect();
                let message = format!(
                    "Vpc {} still uses the chassis {}; in Kube-OVN labels act only at connect time.",
                    vpc.name,
                    abbreviate_list(&former, MAX_LISTED)
                );
                let draft = report.about(vpc.sourced).other(external.sourced);
                draft.field("spec.enableExternal").found(
                    message,
                    "Disconnect the VPC and connect it again, or restore the labels.",
                );
            }
        }
    }
}

pub(super) fn own_gateway_route(cluster: &Cluster<'_>, report: &mut Report) {
    if !cluster.facts.is_northd_stock {
        return;
    }
    for (vpc, rows) in routers(cluster) {
        for route in &rows.routes {
            let by_source = route.policy == Some(LogicalRouterStaticRoutePolicy::SrcIp);
            let (net, hop) = (read_net(&route.ip_prefix), route.nexthop.parse().ok());
            let (true, Some(net), Some(hop)) = (by_source, net, hop) else {
                continue;
            };
            let mut subnets = cluster.subnets_of(vpc);
            let is_own =
                subnets.any(|subnet| subnet.cidrs.contains(&net) && subnet.gateways.contains(&hop));
            if is_own {
                let message = format!(
                    "Vpc {}: route src-ip {} -> {} takes all traffic on a stock ovn-northd.",
                    vpc.name, route.ip_prefix, route.nexthop
                );
                let repair =
                    "Use --stock-northd=false if yours is Kube-OVN's, else remove the row.";
                report.about(vpc.sourced).found(message, repair);
            }
        }
    }
}

/// Addresses that a rule's row has, as far as they are known: type, external and logical one.
fn wanted_nat(cluster: &Cluster<'_>) -> Vec<(NatType, String, Option<String>)> {
    let mut wanted = Vec::new();
    let inventory = cluster.inventory;
    for rule in objects(&inventory.ovn_snat_rules) {
        if let Some(status) = &rule.object.status {
            let pairs =
                [(&status.v4_eip, &status.v4_ip_cidr), (&status.v6_eip, &status.v6_ip_cidr)];
            for (eip, source) in pairs.into_iter().filter(|(eip, _)| !eip.is_empty()) {
                wanted.push((NatType::Snat, eip.clone(), Some(source.clone())));
            }
        }
    }
    for rule in objects(&inventory.ovn_fips) {
        if let Some(status) = &rule.object.status {
            for eip in [&status.v4_eip, &status.v6_eip].into_iter().filter(|eip| !eip.is_empty()) {
                wanted.push((NatType::DnatAndSnat, eip.clone(), None));
            }
        }
    }
    wanted
}

/// `true` if a row is that of a rule.
fn is_row(row: &Nat, (kind, external, logical): &(NatType, String, Option<String>)) -> bool {
    let is_source = |logical: &String| read_net(logical) == read_net(&row.logical_ip);
    row.r#type == *kind && row.external_ip == *external && logical.as_ref().is_none_or(is_source)
}

pub(super) fn unmatched_rows(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    if northbound(cluster).is_none() {
        return;
    }
    let wanted = wanted_nat(cluster);
    let dnat: BTreeSet<&str> = objects(&inventory.ovn_dnat_rules).map(name_of).collect();
    let router_rules: Vec<String> =
        objects(&inventory.router_lb_rules).map(|rule| format!("rlr-{}", name_of(rule))).collect();
    for (vpc, rows) in routers(cluster) {
        for row in &rows.nat {
            if !wanted.iter().any(|wanted| is_row(row, wanted)) && !has_pending_rules(cluster) {
                let message = format!(
                    "Vpc {}: row {} {} -> {} of NAT belongs to nothing.",
                    vpc.name,
                    row.r#type.as_str(),
                    row.external_ip,
                    row.logical_ip
                );
                let draft = report.about(vpc.sourced);
                draft.found(message, "Remove the row, or create its rule again.");
            }
        }
        let own = format!("vpc-{}-", vpc.name);
        for balancer in &rows.load_balancers {
            let name = &balancer.name;
            let is_rule = router_rules.iter().any(|rule| name.starts_with(&**rule));
            if !name.starts_with(&own) && !dnat.contains(&**name) && !is_rule {
                let message = format!("Vpc {}: load balancer {name} belongs to nothing.", vpc.name);
                let draft = report.about(vpc.sourced);
                draft.found(message, "Remove the row, or create its OvnDnatRule again.");
            }
        }
    }
    missing_rows(cluster, report);
}

/// `true` if a rule has no status, so that its row is not known.
fn has_pending_rules(cluster: &Cluster<'_>) -> bool {
    let inventory = cluster.inventory;
    objects(&inventory.ovn_snat_rules).any(|rule| rule.object.status.is_none())
        || objects(&inventory.ovn_fips).any(|rule| rule.object.status.is_none())
}

/// Reports rules that are ready and have no row.
fn missing_rows(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    let rows = |vpc: &str| northbound(cluster).and_then(|rows| rows.routers.get(vpc));
    let found = |kind: &str, name: &str| format!("{kind} {name} is ready and has no row.");
    let repair = "Create the rule anew.";
    for rule in objects(&inventory.ovn_snat_rules) {
        let Some(status) = rule.object.status.as_ref().filter(|status| status.ready) else {
            continue;
        };
        let wanted = (NatType::Snat, status.v4_eip.clone(), Some(status.v4_ip_cidr.clone()));
        let nat = rows(&status.vpc).map_or(&[][..], |rows| &rows.nat);
        if !status.v4_eip.is_empty() && !nat.iter().any(|row| is_row(row, &wanted)) {
            report.about(rule).found(found("OvnSnatRule", name_of(rule)), repair);
        }
    }
    for rule in objects(&inventory.ovn_fips) {
        let Some(status) = rule.object.status.as_ref().filter(|status| status.ready) else {
            continue;
        };
        let wanted = (NatType::DnatAndSnat, status.v4_eip.clone(), None);
        let nat = rows(&status.vpc).map_or(&[][..], |rows| &rows.nat);
        if !status.v4_eip.is_empty() && !nat.iter().any(|row| is_row(row, &wanted)) {
            report.about(rule).found(found("OvnFip", name_of(rule)), repair);
        }
    }
    for rule in objects(&inventory.ovn_dnat_rules) {
        let Some(status) = rule.object.status.as_ref().filter(|status| status.ready) else {
            continue;
        };
        let balancers = rows(&status.vpc).map_or(&[][..], |rows| &rows.load_balancers);
        if !balancers.iter().any(|one| one.name == name_of(rule)) {
            report.about(rule).found(found("OvnDnatRule", name_of(rule)), repair);
        }
    }
}

pub(super) fn doomed_rows(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(rows) = northbound(cluster).filter(|_| cluster.is_kube_ovn_live()) else {
        return;
    };
    if cluster.flags.has_external_vpc != Some(false) {
        return;
    }
    let routers = rows
        .routers
        .keys()
        .filter(|name| cluster.vpc(name).is_none())
        .filter(|name| **name != cluster.default_vpc());
    let switches = rows.switches.keys().filter(|name| cluster.subnet(name).is_none());
    let doomed = routers
        .map(|name| format!("Logical_Router/{name}"))
        .chain(switches.map(|name| format!("Logical_Switch/{name}")));
    for row in doomed {
        let message = format!("{row} is deleted at the next start of Kube-OVN's controller.");
        let draft = report.about_text(row);
        draft.found(message, "Run the controller with --enable-external-vpc=true.");
    }
}

pub(super) fn doomed_balancers(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(rows) = northbound(cluster).filter(|_| cluster.is_kube_ovn_live()) else {
        return;
    };
    if !cluster.flags.has_load_balancers {
        return;
    }
    let dnat: BTreeSet<&str> = objects(&cluster.inventory.ovn_dnat_rules).map(name_of).collect();
    let is_of_vpc = |name: &str| {
        cluster.vpcs.iter().any(|vpc| {
            let rest = name.strip_prefix("vpc-").and_then(|rest| rest.strip_prefix(vpc.name));
            rest.is_some_and(|rest| rest.ends_with("-load"))
        })
    };
    let is_of_default = |name: &str| name.starts_with("cluster-") && name.ends_with("loadbalancer");
    for balancer in &rows.load_balancers {
        let name = &*balancer.name;
        if is_of_vpc(name) || is_of_default(name) || dnat.contains(name) {
            continue;
        }
        let message = format!(
            "{name} is deleted at the next start of Kube-OVN's controller; only OvnDnatRule, RouterLBRule and \
             Services survive."
        );
        let draft = report.about_text(format!("Load_Balancer/{name}"));
        draft.found(message, "Write it as an OvnDnatRule.");
    }
}

pub(super) fn doomed_policies(cluster: &Cluster<'_>, report: &mut Report) {
    if !cluster.is_kube_ovn_live() {
        return;
    }
    for (vpc, rows) in routers(cluster) {
        for policy in &rows.policies {
            let is_kept = KEPT_POLICIES.iter().any(|key| policy.external_ids.contains_key(*key));
            let is_own = vpc
                .spec
                .policy_routes
                .iter()
                .any(|own| own.priority == policy.priority && own.match_ == policy.r#match);
            if !is_kept && !is_own {
                let message = format!(
                    "Policy {} {:?} is deleted at the next change of Vpc {}.",
                    policy.priority, policy.r#match, vpc.name
                );
                let draft = report.about(vpc.sourced);
                draft.found(
                    message,
                    "Give the row the key subnet in external_ids, or add it to the VPC.",
                );
            }
        }
    }
}

pub(super) fn two_controllers(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(rows) = northbound(cluster).filter(|_| cluster.is_kube_ovn_live()) else {
        return;
    };
    let routers = rows.routers.values().map(|router| &router.external_ids);
    let owned = routers.chain(rows.switches.values()).filter_map(|ids| ids.get(OWNER));
    let is_ours = |owner: &&String| OWNER_KINDS.iter().any(|kind| owner.starts_with(kind));
    let owned: BTreeSet<&String> = owned.filter(is_ours).collect();
    for owner in owned {
        let message = format!(
            "Two controllers claim {owner}: Kube-OVN's holds its lease, and rows have Patchbay's owner."
        );
        let draft = report.about_text(owner.as_str());
        draft.found(message, "Stop one of the controllers.");
    }
}
