//! Objects that cannot be used as they are: each is named, and stops no other one.

use patchbay_schemas::nb::{LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, Nat};

use crate::changes::tenant;
use crate::world::World;

/// Problems of the tenant with a replaced text and further objects.
#[track_caller]
fn problems((from, to): (&str, &str), objects: &str) -> Vec<String> {
    let manifests = tenant();
    assert!(manifests.contains(from), "{from}");
    let world = World::new(&format!("{}---\n{objects}", manifests.replace(from, to)));
    let problems = world.problems.into_iter();
    let without_place = |problem: String| match problem.split_once("): ") {
        Some((_, rest)) => rest.to_owned(),
        None => problem,
    };
    problems.map(without_place).collect()
}

#[test]
fn a_bad_route_or_policy_does_not_stop_its_vpc() {
    let routes = "staticRoutes: [{cidr: nowhere, nextHopIP: 10.0.0.1}, {cidr: 10.9.0.0/16, nextHopIP: 'fd00::1'}, {policy: up, cidr: 10.9.0.0/16, nextHopIP: 10.0.0.1}, ";
    let policies = "policyRoutes: [{priority: 40000, match: ip4, action: drop}, {priority: 1, match: ip4, action: reroute}, {priority: 1, match: ip4, action: pass}, {priority: 2, match: ip4, action: reroute, nextHopIP: '10.100.0.9, 10.100.0.8'}, ";
    let manifests =
        tenant().replace("staticRoutes: [", routes).replace("policyRoutes: [", policies);
    let world = World::new(&manifests);
    assert_eq!(world.problems.len(), 6, "{:#?}", world.problems);
    for field in [
        "spec.staticRoutes[0].cidr: \"nowhere\" is neither a range nor an address",
        "spec.staticRoutes[1].nextHopIP: \"fd00::1\" is of another IP family than 10.9.0.0/16",
        "spec.staticRoutes[2].policy: \"up\" is neither policyDst nor policySrc",
        "spec.policyRoutes[0].priority: 40000 is not in 0..=32767",
        "spec.policyRoutes[1].nextHopIP: reroute needs an address",
        "spec.policyRoutes[2].action: \"pass\" is none of allow, drop and reroute",
    ] {
        let mut problems = world.problems.iter();
        assert!(problems.any(|one| one.ends_with(field)), "{field}: {:#?}", world.problems);
    }
    assert_eq!(world.rows::<LogicalRouterStaticRoute>().len(), 1);
    let policies = world.rows::<LogicalRouterPolicy>();
    let rerouted = policies.iter().find(|policy| policy.priority == 2).unwrap();
    assert_eq!(rerouted.nexthops.len(), 2);
    let vpc = world.inventory.vpcs.named("alpha-vpc").unwrap();
    let conditions = &vpc.status.as_ref().unwrap().conditions;
    let accepted = conditions.iter().find(|one| one.type_ == "RoutesAccepted").unwrap();
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "InvalidRoute"));
}

#[test]
fn a_vpc_without_gateway_nodes_has_no_external_port() {
    let manifests = tenant().replace("external-gw: \"true\"", "external-gw: \"false\"");
    let world = World::new(&manifests);
    let ports: Vec<String> =
        world.rows::<LogicalRouterPort>().into_iter().map(|port| port.name).collect();
    assert_eq!(ports, ["alpha-vpc-alpha-subnet"]);
    assert_eq!(world.rows::<Nat>(), []);
    assert!(world.inventory.ovn_eips.is_empty());
    let vpc = world.inventory.vpcs.named("alpha-vpc").unwrap();
    let conditions = &vpc.status.as_ref().unwrap().conditions;
    let external = conditions.iter().find(|one| one.type_ == "ExternalConnected").unwrap();
    assert_eq!((&*external.status, &*external.reason), ("False", "NoGatewayNodes"));
    let rule = world.inventory.ovn_snat_rules.named("alpha-snat").unwrap();
    let status = rule.status.as_ref().unwrap();
    assert!(!status.ready);
    assert_eq!(status.conditions[0].reason, "EipNotFound");
}

#[test]
fn references_that_lead_nowhere_are_named() {
    assert_eq!(
        problems(("name: external\n", "name: outside\n"), ""),
        [
            "Vpc alpha-vpc: Subnet external: there is no such Subnet",
            "OvnSnatRule alpha-snat: spec.ovnEip: there is no OvnEip alpha-vpc-external"
        ]
    );
    assert_eq!(
        problems(("provider: net.alpha.ovn, ", "provider: other.alpha.ovn, "), ""),
        ["Pod alpha/vm1: NetworkAttachmentDefinition alpha/net: no Subnet has its provider"]
    );
    assert_eq!(
        problems(("namespaces: [alpha]\n  enable", "namespaces: [beta]\n  enable"), ""),
        [
            "Subnet alpha-subnet: spec.namespaces: namespace alpha is not in spec.namespaces of Vpc alpha-vpc",
            "OvnSnatRule alpha-snat: spec.vpcSubnet: Subnet alpha-subnet: spec.namespaces: namespace alpha is not in \
             spec.namespaces of Vpc alpha-vpc",
            "Pod alpha/vm1: Subnet alpha-subnet: spec.namespaces: namespace alpha is not in spec.namespaces of Vpc \
             alpha-vpc",
        ]
    );
}

#[test]
fn addresses_that_cannot_be_had_are_named() {
    let wish = |address: &str| {
        let annotation =
            format!("annotations: {{net.alpha.ovn.kubernetes.io/ip_address: {address}, k8s.v1");
        problems(("annotations: {k8s.v1", &annotation), "")
    };
    assert_eq!(wish("10.100.0.9"), Vec::<String>::new());
    assert_eq!(
        wish("10.100.0.1"),
        ["Pod alpha/vm1: Subnet alpha-subnet: 10.100.0.1 is the gateway"]
    );
    assert_eq!(
        wish("10.7.0.1"),
        [
            "Pod alpha/vm1: Subnet alpha-subnet: 10.7.0.1 is not an address of a machine in 10.100.0.0/24"
        ]
    );
    let eip = "{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: one}, spec: {v4Ip: 77.220.68.99}}\n---\n{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: two}, spec: {v4Ip: 77.220.68.99}}";
    assert_eq!(problems(("a", "a"), eip), ["OvnEip two: 77.220.68.99 is used by OvnEip one"]);
}

#[test]
fn rules_that_exclude_each_other_are_named() {
    let dnat = |name: &str, protocol: &str| {
        format!(
            "---\n{{apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {{name: {name}}}, spec: {{ovnEip: eip, ipName: \
             vm1.alpha.net.alpha.ovn, protocol: {protocol}, externalPort: '53', internalPort: '53'}}}}\n"
        )
    };
    let eip = "{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: eip}, spec: {}}\n";
    let rules = [dnat("z", "UDP"), dnat("b", "udp"), dnat("c", "tcp")].concat();
    assert_eq!(
        problems(("a", "a"), &format!("{eip}{rules}")),
        ["OvnDnatRule b: spec.ovnEip: UDP 77.220.68.99:53 is used by OvnDnatRule z"]
    );
}

#[test]
fn names_that_collide_when_they_are_joined_are_named() {
    let other = "
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: alpha}, spec: {namespaces: [alpha]}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: vpc-alpha-subnet}, spec: {vpc: alpha, cidrBlock: 10.5.0.0/24, provider: x.alpha.ovn}}
";
    let problems = problems(("a", "a"), other);
    assert_eq!(
        problems,
        ["Subnet vpc-alpha-subnet: Subnet alpha-subnet needs the same row of Logical_Router_Port",]
    );
}

#[test]
fn subnets_of_one_vpc_do_not_overlap_and_those_of_two_may() {
    let subnet = |name: &str, vpc: &str| {
        format!(
            "---\n{{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {{name: {name}}}, spec: {{vpc: {vpc}, cidrBlock: \
             10.100.0.128/25, provider: {name}.alpha.ovn}}}}\n"
        )
    };
    let vpc = "{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: beta-vpc}, spec: {namespaces: [alpha]}}\n";
    let objects = [vpc.to_owned(), subnet("again", "alpha-vpc"), subnet("same", "beta-vpc")];
    assert_eq!(
        problems(("a", "a"), &objects.concat()),
        ["Subnet again: spec.cidrBlock: overlaps with Subnet alpha-subnet (10.100.0.0/24)"]
    );
}

#[test]
fn fields_without_effect_are_named() {
    assert_eq!(
        problems(
            (
                "spec: {vpc: alpha-vpc,",
                "spec: {u2oInterconnection: true, enableMulticastSnoop: true, vpc: alpha-vpc,"
            ),
            ""
        ),
        [
            "Subnet alpha-subnet: spec.u2oInterconnection: not supported yet: no row follows from it",
            "Subnet alpha-subnet: spec.enableMulticastSnoop: not supported yet: no row follows from it",
        ]
    );
}
