//! Load balancers of services and rules.

use std::collections::BTreeMap;

use patchbay_schemas::nb::{LoadBalancer, LoadBalancerHealthCheck, LogicalRouter, LogicalSwitch};

use crate::changes::tenant;
use crate::world::{World, read};

/// Two web servers of the tenant, and one of another VPC.
const MACHINES: &str = "
---
{apiVersion: v1, kind: Pod, metadata: {name: web1, namespace: alpha, labels: {app: web, tier: a}, annotations: {k8s.v1.cni.cncf.io/networks: net}}, spec: {nodeName: w1, containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web2, namespace: alpha, labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: net}}, spec: {nodeName: w2, containers: [{name: c, image: i, ports: [{name: http, containerPort: 8081}]}]}}
---
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: beta-vpc}, spec: {namespaces: [alpha]}}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: other, namespace: alpha}, spec: {config: '{\"type\": \"kube-ovn\", \"server_socket\": \"/run/s.sock\", \"provider\": \"other.alpha.ovn\"}'}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: beta-subnet}, spec: {vpc: beta-vpc, cidrBlock: 10.100.0.0/24, provider: other.alpha.ovn, namespaces: [alpha]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web3, namespace: alpha, labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: other}}, spec: {nodeName: w2, containers: [{name: c, image: i, ports: [{name: http, containerPort: 80}]}]}}
";

/// A rule of a kind.
fn rule(kind: &str, name: &str, fields: &str) -> String {
    format!(
        "---\n{{apiVersion: kubeovn.io/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{{fields}}}}}\n"
    )
}

fn world(objects: &str) -> World {
    World::new(&format!("{}{MACHINES}{objects}", tenant()))
}

/// Addresses of all load balancers that have any.
fn vips(world: &World) -> BTreeMap<String, BTreeMap<String, String>> {
    let rows = world.rows::<LoadBalancer>().into_iter();
    rows.filter(|row| !row.vips.is_empty()).map(|row| (row.name, row.vips)).collect()
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn services_and_rules_have_addresses_in_the_load_balancers_of_their_vpc() {
    let objects = [
        "---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: alpha}, spec: {clusterIP: 10.96.0.10, \
         selector: {app: web}, ports: [{port: 80, targetPort: http}]}}\n"
            .to_owned(),
        "---\n{apiVersion: v1, kind: Service, metadata: {name: of-platform, namespace: alpha}, spec: {clusterIP: \
         10.96.0.11, selector: {app: none}, ports: [{port: 80}]}}\n"
            .to_owned(),
        rule(
            "SwitchLBRule",
            "front",
            "vip: '10.100.0.200,fd00::c8', namespace: alpha, selector: ['app: web ', 'tier:a'], sessionAffinity: \
             ClientIP, ports: [{port: 443, targetPort: 8443, protocol: TCP}, {port: 53, protocol: UDP}]",
        ),
        rule(
            "SwitchLBRule",
            "fixed",
            "vip: 10.100.0.201, namespace: alpha, endpoints: [10.100.0.3, 10.100.0.99], ports: [{port: 80}]",
        ),
    ];
    let mut world = world(&objects.concat());
    let found = vips(&world);
    assert_eq!(
        found,
        [
            (
                "vpc-alpha-vpc-tcp-load".to_owned(),
                map([
                    ("10.100.0.201:80", "10.100.0.3:80,10.100.0.99:80"),
                    ("10.96.0.10:80", "10.100.0.3:8080,10.100.0.4:8081"),
                ])
            ),
            (
                "vpc-alpha-vpc-tcp-sess-load".to_owned(),
                map([("10.100.0.200:443", "10.100.0.3:8443")])
            ),
            ("vpc-alpha-vpc-udp-sess-load".to_owned(), map([("10.100.0.200:53", "10.100.0.3:53")])),
        ]
        .into()
    );
    let problems = world.problems.iter().map(|problem| problem.split_once(": ").unwrap().1);
    assert_eq!(
        problems.collect::<Vec<_>>(),
        [
            "Service alpha/web: spec.selector: Pod alpha/web3 is in Vpc beta-vpc, not in Vpc alpha-vpc"
        ]
    );
    let status = world.inventory.switch_lb_rules.named("front").unwrap().status.clone().unwrap();
    let expected = ("alpha/slr-front", "443/TCP,53/UDP");
    assert_eq!((&*status.service, &*status.ports), expected);
    assert_eq!(status.conditions[0].reason, "Balanced");
    world.apply(read(&format!("{}{MACHINES}", tenant())));
    assert_eq!(vips(&world), BTreeMap::new());
}

#[test]
fn rules_that_cannot_be_used_are_named() {
    let objects = [
        rule(
            "SwitchLBRule",
            "a",
            "vip: 10.100.0.200, namespace: alpha, selector: ['app:web'], ports: [{port: 80}, {port: 80, protocol: icmp}, {port: 99999}]",
        ),
        rule(
            "SwitchLBRule",
            "b",
            "vip: 10.100.0.200, namespace: alpha, selector: ['app:web', 'no'], ports: [{port: 80}, {port: 81, protocol: tcp}]",
        ),
        rule(
            "SwitchLBRule",
            "c",
            "vip: nowhere, namespace: alpha, selector: ['app:web'], ports: [{port: 80}]",
        ),
        rule("SwitchLBRule", "d", "namespace: alpha, selector: ['app:web'], ports: [{port: 80}]"),
        rule(
            "SwitchLBRule",
            "e",
            "vip: 10.100.0.201, namespace: alpha, selector: [':'], ports: [{port: 80}]",
        ),
        rule(
            "SwitchLBRule",
            "f",
            "vip: 10.100.0.201, namespace: alpha, endpoints: [10.9.9.9], ports: [{port: 80}]",
        ),
        rule("SwitchLBRule", "g", "vip: 10.100.0.201, selector: ['app:web'], ports: [{port: 80}]"),
        rule(
            "SwitchLBRule",
            "h",
            "vip: 10.100.0.201, namespace: alpha, selector: ['app:web'], sessionAffinity: Cookie, ports: [{port: 80}]",
        ),
        rule(
            "SwitchLBRule",
            "i",
            "vip: 'fd00::1', namespace: alpha, selector: ['app:web', 'tier:a'], ports: [{port: 80}]",
        ),
        rule("SwitchLBRule", "j", "vip: 10.100.0.201, namespace: alpha, selector: ['app:web']"),
        rule(
            "RouterLBRule",
            "k",
            "vpc: alpha-vpc, namespace: alpha, selector: ['app:web'], ports: [{port: 80}]",
        ),
        rule(
            "RouterLBRule",
            "l",
            "ovnEip: nowhere, vpc: alpha-vpc, namespace: alpha, selector: ['app:web'], ports: [{port: 80}]",
        ),
        rule(
            "RouterLBRule",
            "m",
            "ovnEip: alpha-vpc-external, vpc: beta-vpc, namespace: alpha, selector: ['app:web'], ports: [{port: 80}]",
        ),
        rule(
            "RouterLBRule",
            "p",
            "ovnEip: alpha-vpc-external, vpc: gone, namespace: alpha, selector: ['app:web'], ports: [{port: 80}]",
        ),
        rule(
            "RouterLBRule",
            "o",
            "ovnEip: alpha-vpc-external, vpc: alpha-vpc, selector: ['app:web'], ports: [{port: 80}]",
        ),
    ];
    let world = world(&objects.concat());
    let of_pod = "Pod alpha/web3 is in Vpc beta-vpc, not in Vpc alpha-vpc";
    let no_port =
        "Vpc beta-vpc has no port on Subnet external, the subnet of OvnEip alpha-vpc-external";
    let expected = [
        "SwitchLBRule a: spec.ports[1].protocol: \"icmp\" is none of TCP, UDP and SCTP".to_owned(),
        "SwitchLBRule a: spec.ports[2].port: 99999 is not in 1..=65535".to_owned(),
        format!("SwitchLBRule a: spec.selector: {of_pod}"),
        "SwitchLBRule b: spec.selector[1]: \"no\" is not key:value".to_owned(),
        format!("SwitchLBRule b: spec.selector: {of_pod}"),
        "SwitchLBRule b: spec.ports[0].port: TCP 10.100.0.200:80 is used by SwitchLBRule a".to_owned(),
        "SwitchLBRule c: spec.vip: \"nowhere\" is not an address".to_owned(),
        "SwitchLBRule d: spec.vip: an address is required".to_owned(),
        "SwitchLBRule e: spec.selector[0]: \":\" is not key:value".to_owned(),
        "SwitchLBRule f: no machine of spec.selector or spec.endpoints has a port in a VPC, and the annotation \
         ovn.kubernetes.io/logical_router names none"
            .to_owned(),
        "SwitchLBRule g: spec.namespace: the namespace of the machines is required".to_owned(),
        "SwitchLBRule h: spec.sessionAffinity: \"Cookie\" is neither ClientIP nor None".to_owned(),
        "SwitchLBRule i: no machine in Vpc alpha-vpc has an address of its IP families".to_owned(),
        "SwitchLBRule j: spec.ports: a port is required".to_owned(),
        "RouterLBRule k: spec.ovnEip: the name of an OvnEip is required".to_owned(),
        "RouterLBRule l: spec.ovnEip: there is no OvnEip nowhere".to_owned(),
        format!("RouterLBRule m: {no_port}"),
        "RouterLBRule o: no machine in Vpc alpha-vpc has an address of its IP families".to_owned(),
        "RouterLBRule p: spec.vpc: there is no Vpc gone".to_owned(),
    ];
    let problems = world.problems.iter().map(|problem| problem.split_once(": ").unwrap().1);
    assert_eq!(problems.collect::<Vec<_>>(), expected);
    let expected = map([
        ("10.100.0.200:80", "10.100.0.3:80,10.100.0.4:80"),
        ("10.100.0.200:81", "10.100.0.3:81,10.100.0.4:81"),
    ]);
    assert_eq!(vips(&world), [("vpc-alpha-vpc-tcp-load".to_owned(), expected)].into());
    let reason = |name: &str, type_: &str| {
        let rule = world.inventory.switch_lb_rules.named(name).unwrap();
        let conditions = rule.status.as_ref().unwrap().conditions.iter();
        let mut conditions = conditions.filter(|one| one.type_ == type_);
        conditions.next().map(|one| one.reason.clone()).unwrap_or_default()
    };
    assert_eq!(reason("b", "FieldsAccepted"), "InvalidField");
    assert_eq!(reason("f", "Ready"), "VpcNotFound");
    assert_eq!(reason("i", "Ready"), "NoMachine");
}

#[test]
fn a_rule_of_the_router_opens_no_other_load_balancer() {
    let eip = "---\n{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: front}, spec: {externalSubnet: external, \
               v4Ip: 77.220.68.110, type: nat}}\n";
    let dnat = "---\n{apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {name: first}, spec: {ovnEip: front, ipName: \
                vm1.alpha.net.alpha.ovn, protocol: tcp, externalPort: '22', internalPort: '22'}}\n";
    let inside = rule(
        "SwitchLBRule",
        "inside",
        "vip: 10.100.0.200, namespace: alpha, selector: ['tier:a'], ports: [{port: 80}]",
    );
    let outside = |ports: &str| {
        rule(
            "RouterLBRule",
            "web",
            &format!(
                "ovnEip: front, vpc: alpha-vpc, namespace: alpha, selector: ['tier:a'], ports: [{ports}]"
            ),
        )
    };
    let two = "{port: 443, targetPort: 8443}, {port: 22}, {port: 53, protocol: UDP}";
    let before = format!("{eip}{dnat}{inside}");
    let mut world = world(&format!("{before}{}", outside(two)));
    let problems = world.problems.iter().map(|problem| problem.split_once(": ").unwrap().1);
    assert_eq!(
        problems.collect::<Vec<_>>(),
        ["RouterLBRule web: spec.ports[1].port: TCP 77.220.68.110:22 is used by OvnDnatRule first"]
    );
    let held = |world: &World| {
        let snapshot = world.database.snapshot();
        let name = |uuid| snapshot.get::<LoadBalancer>(uuid).unwrap().unwrap().name;
        let routers = world.rows::<LogicalRouter>().into_iter();
        let mut router = routers.filter(|router| router.name == "alpha-vpc");
        let mut of_router: Vec<String> =
            router.next().unwrap().load_balancer.into_iter().map(name).collect();
        of_router.sort();
        let switches = world.rows::<LogicalSwitch>().into_iter();
        let mut switch = switches.filter(|switch| switch.name == "alpha-subnet");
        let of_switch = switch.next().unwrap().load_balancer.into_iter().map(name);
        (of_router, of_switch.filter(|name| name.starts_with("rlr-")).count())
    };
    let expected: Vec<String> = ["first", "rlr-web-tcp", "rlr-web-udp"].map(str::to_owned).into();
    assert_eq!(held(&world), (expected, 2));
    assert_eq!(vips(&world)["rlr-web-tcp"], map([("77.220.68.110:443", "10.100.0.3:8443")]));
    world.apply(read(&format!("{}{MACHINES}{before}{}", tenant(), outside("{port: 443}"))));
    let expected: Vec<String> = ["first", "rlr-web"].map(str::to_owned).into();
    assert_eq!(held(&world), (expected, 1));
    world.apply(read(&format!("{}{MACHINES}{before}", tenant())));
    assert_eq!(held(&world), (["first".to_owned()].into(), 0));
}

#[test]
fn machines_of_router_rules_are_checked_by_the_load_balancer_of_the_rule() {
    let eip = "---\n{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: front}, spec: {externalSubnet: external, \
               v4Ip: 77.220.68.110, type: nat}}\n";
    let outside = rule(
        "RouterLBRule",
        "web",
        "ovnEip: front, vpc: alpha-vpc, namespace: alpha, selector: ['tier:a'], \
         ports: [{port: 443, targetPort: 8443}, {port: 53, protocol: UDP}]",
    );
    let world = world(&format!("{eip}{outside}"));
    let snapshot = world.database.snapshot();
    let checks = |row: &LoadBalancer| -> Vec<String> {
        let held =
            row.health_check.iter().map(|uuid| snapshot.get::<LoadBalancerHealthCheck>(*uuid));
        held.map(|check| check.unwrap().unwrap().vip).collect()
    };
    let balancers = world.rows::<LoadBalancer>().into_iter();
    let mut checked: Vec<_> = balancers
        .filter(|row| !row.health_check.is_empty())
        .map(|row| (checks(&row).join(","), row.name, row.ip_port_mappings))
        .collect();
    checked.sort();
    let sources = map([("10.100.0.3", "web1.alpha.net.alpha.ovn:10.100.0.5")]);
    let expected = [
        ("77.220.68.110:443".to_owned(), "rlr-web-tcp".to_owned(), sources.clone()),
        ("77.220.68.110:53".to_owned(), "rlr-web-udp".to_owned(), sources),
    ];
    assert_eq!(checked, expected);
}

#[test]
fn machines_of_rules_are_checked_by_an_address_of_their_subnet() {
    let objects = [
        rule(
            "SwitchLBRule",
            "front",
            "vip: '10.100.0.200,fd00::c8', namespace: alpha, selector: ['app:web'], ports: [{port: 443}]",
        ),
        rule(
            "SwitchLBRule",
            "fixed",
            "vip: 10.100.0.201, namespace: alpha, endpoints: [10.100.0.3, 10.100.0.99], ports: [{port: 80}, {port: \
             81, protocol: SCTP}]",
        ),
    ];
    let mut world = world(&objects.concat());
    let balancers = |world: &World| {
        let all = world.rows::<LoadBalancer>().into_iter();
        let checked = all.filter(|one| !one.health_check.is_empty());
        checked.map(|one| (one.name, one.ip_port_mappings)).collect::<Vec<_>>()
    };
    let sources = map([
        ("10.100.0.3", "web1.alpha.net.alpha.ovn:10.100.0.5"),
        ("10.100.0.4", "web2.alpha.net.alpha.ovn:10.100.0.5"),
    ]);
    assert_eq!(balancers(&world), [("vpc-alpha-vpc-tcp-load".to_owned(), sources)]);
    let checks = |world: &World| {
        let rows = world.rows::<LoadBalancerHealthCheck>().into_iter();
        let mut vips: Vec<String> = rows.map(|row| row.vip).collect();
        vips.sort_unstable();
        vips
    };
    assert_eq!(checks(&world), ["10.100.0.200:443", "10.100.0.201:80"]);
    let row = world.rows::<LoadBalancerHealthCheck>().pop().unwrap();
    let expected =
        [("interval", "5"), ("timeout", "20"), ("success_count", "3"), ("failure_count", "3")];
    assert_eq!(row.options, map(expected));
    assert_eq!(row.external_ids["switch_lb_subnet"], "alpha-subnet");
    let made = world.inventory.vips.named("alpha-subnet").unwrap().clone();
    assert_eq!(made.status.unwrap().v4_ip, "10.100.0.5");
    // A later run has the address, and the last rule takes it along.
    let mut later = read(&format!("{}{MACHINES}{}", tenant(), objects[1]));
    later.vips.clone_from(&world.inventory.vips);
    world.apply(later);
    assert_eq!(checks(&world), ["10.100.0.201:80"]);
    let sources = map([("10.100.0.3", "web1.alpha.net.alpha.ovn:10.100.0.5")]);
    assert_eq!(balancers(&world), [("vpc-alpha-vpc-tcp-load".to_owned(), sources)]);
    let mut last = read(&format!("{}{MACHINES}", tenant()));
    last.vips.clone_from(&world.inventory.vips);
    world.apply(last);
    assert_eq!((checks(&world), world.inventory.vips.iter().count()), (Vec::new(), 0));
    let used = &world.inventory.subnets.named("alpha-subnet").unwrap().status.as_ref().unwrap();
    assert_eq!(used.v4_using_ip_range, "10.100.0.2-10.100.0.4");
}
