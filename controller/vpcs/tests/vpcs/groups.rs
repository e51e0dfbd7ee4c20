//! Security groups.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Database;
use patchbay_resources::conversion::vpc_scene;
use patchbay_rows::Engine;
use patchbay_schemas::nb;
use patchbay_schemas::nb::{Acl, AddressSet, LogicalSwitchPort, PortGroup};
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{Vpcs, ZoneVpcs};

use crate::changes::tenant;
use crate::world::{World, read};

/// The tenant, whose machine is in these groups, with further objects.
fn manifests(groups: &str, objects: &str) -> String {
    let annotation =
        format!("networks: net, net.alpha.ovn.kubernetes.io/security_groups: '{groups}'}}");
    format!("{}{objects}", tenant().replace("networks: net}", &annotation))
}

fn group(name: &str, fields: &str) -> String {
    format!(
        "---\n{{apiVersion: kubeovn.io/v1, kind: SecurityGroup, metadata: {{name: {name}}}, spec: {{{fields}}}}}\n"
    )
}

/// Ports of all port groups.
fn members(world: &World) -> BTreeMap<String, Vec<String>> {
    let snapshot = world.database.snapshot();
    let name = |port| snapshot.get::<LogicalSwitchPort>(port).unwrap().unwrap().name;
    let groups = world.rows::<PortGroup>().into_iter();
    groups.map(|group| (group.name, group.ports.into_iter().map(name).collect())).collect()
}

/// Tier, priority, direction, match and action of the ACLs of a port group, without those that each
/// group has.
fn acls(world: &World, group: &str) -> BTreeSet<String> {
    let acls = world.rows::<Acl>().into_iter();
    let of_group = acls.filter(|acl| acl.external_ids["parent"] == group && acl.priority != 2005);
    let text = |acl: Acl| {
        let (direction, action) = (acl.direction, acl.action);
        format!("{} {} {direction:?} {} {action:?}", acl.tier, acl.priority, acl.r#match)
    };
    of_group.map(text).collect()
}

fn problems(world: &World) -> Vec<&str> {
    let texts = world.problems.iter();
    texts.map(|problem| problem.split_once(": ").unwrap().1).collect()
}

#[test]
fn groups_have_the_rows_of_kube_ovn() {
    let web = group(
        "web-tier",
        "allowSameGroupTraffic: true, tier: 1, \
         ingressRules: [{ipVersion: ipv4, protocol: tcp, priority: 1, remoteType: address, remoteAddress: \
         10.0.0.9/8, portRangeMin: 80, portRangeMax: 443, policy: allow}, {ipVersion: ipv6, protocol: icmp, \
         priority: 16384, remoteType: securityGroup, remoteSecurityGroup: web-tier, policy: drop}], \
         egressRules: [{ipVersion: ipv4, protocol: udp, priority: 5, remoteType: address, remoteAddress: 8.8.8.8, \
         localAddress: 10.100.0.0/24, portRangeMin: 53, portRangeMax: 53, sourcePortRangeMin: 1024, \
         sourcePortRangeMax: 65535, policy: allow}]",
    );
    let mut world = World::new(&manifests("web-tier", &web));
    let idle = "Pod alpha/vm1: metadata.annotations[net.alpha.ovn.kubernetes.io/security_groups]: SecurityGroup \
                web-tier has tier 1, and no group of tier 0 passes packets to it";
    assert_eq!(problems(&world), [idle]);
    let port = "vm1.alpha.net.alpha.ovn".to_owned();
    let expected = ["ovn.sg.kubeovn_deny_all", "ovn.sg.web.tier"];
    assert_eq!(members(&world), expected.map(|name| (name.to_owned(), vec![port.clone()])).into());
    let own = "ovn.sg.web.tier";
    assert_eq!(
        acls(&world, own),
        [
            format!("3 18479 FromLport inport == @{own} && ip4 && ip4.dst == 8.8.8.8 && ip4.src == 10.100.0.0/24 && 53 <= udp.dst <= 53 && 1024 <= udp.src <= 65535 AllowRelated"),
            format!("3 18483 ToLport outport == @{own} && ip4 && ip4.src == 10.0.0.0/8 && 80 <= tcp.dst <= 443 AllowRelated"),
            format!("3 2004 FromLport inport == @{own} && ip4 && ip4.dst == ${own}.associated.v4 AllowRelated"),
            format!("3 2004 FromLport inport == @{own} && ip6 && ip6.dst == ${own}.associated.v6 AllowRelated"),
            format!("3 2004 ToLport outport == @{own} && ip4 && ip4.src == ${own}.associated.v4 AllowRelated"),
            format!("3 2004 ToLport outport == @{own} && ip6 && ip6.src == ${own}.associated.v6 AllowRelated"),
            format!("3 2100 ToLport outport == @{own} && ip6 && ip6.src == ${own}.associated.v6 && icmp6 Drop"),
        ]
        .into()
    );
    let base = world.rows::<Acl>().into_iter().filter(|acl| acl.priority == 2005);
    assert_eq!(base.count(), 20);
    let all_sets = world.rows::<AddressSet>().into_iter();
    let sets: BTreeMap<String, Vec<String>> = all_sets
        .filter(|set| set.name.starts_with("ovn.sg."))
        .map(|set| (set.name, set.addresses.into_iter().collect()))
        .collect();
    assert_eq!(sets[&format!("{own}.associated.v4")], ["10.100.0.2"]);
    assert_eq!(sets[&format!("{own}.associated.v6")], Vec::<String>::new());
    let ids = |world: &World| {
        let ports = world.rows::<LogicalSwitchPort>().into_iter();
        let mut machine = ports.filter(|one| one.name == port);
        machine.next().unwrap().external_ids
    };
    let wanted = ids(&world);
    assert_eq!(
        (&*wanted["security_groups"], &*wanted["associated_sg_web-tier"]),
        ("web-tier", "true")
    );
    assert_eq!(wanted["associated_sg_default-securitygroup"], "false");
    world.apply(read(&tenant()));
    assert_eq!(ids(&world)["associated_sg_web-tier"], "false");
    assert_eq!((world.rows::<PortGroup>(), world.rows::<Acl>()), (Vec::new(), Vec::new()));
}

/// The ACLs of this group in the recordings of Kube-OVN's controller.
#[test]
fn the_group_that_drops_is_the_recorded_one() {
    let world = World::new(&manifests("gone", ""));
    let own = "ovn.sg.kubeovn_deny_all";
    let flows = [("FromLport", "inport"), ("ToLport", "outport")];
    let expected = flows.into_iter().flat_map(|(direction, port)| {
        [2, 3].map(|tier| format!("{tier} 2003 {direction} {port} == @{own} && ip Drop"))
    });
    assert_eq!(acls(&world, own), expected.collect());
    let group = world.rows::<PortGroup>().pop().unwrap();
    let mut ids = group.external_ids;
    ids.remove("owner");
    let expected = [("sg", "kubeovn_deny_all"), ("type", "security_group"), ("vendor", "kube-ovn")];
    assert_eq!(ids, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    // Kube-OVN leaves this port open.
    assert_eq!(group.ports.len(), 1);
    assert_eq!(
        problems(&world),
        [
            "Pod alpha/vm1: metadata.annotations[net.alpha.ovn.kubernetes.io/security_groups]: there is no SecurityGroup gone"
        ]
    );
}

#[test]
fn rules_that_cannot_be_used_are_named_and_open_nothing() {
    let rule =
        |fields: &str| format!("{{ipVersion: ipv4, priority: 7, remoteType: address, {fields}}}");
    let allowed = |fields: &str| rule(&format!("policy: allow, {fields}"));
    let rules = [
        allowed("remoteAddress: 10.0.0.1"),
        allowed("remoteAddress: 'fd00::1'"),
        allowed("remoteAddress: 10.0.0.2, protocol: sctp"),
        allowed("remoteAddress: 10.0.0.3, protocol: tcp, portRangeMin: 0, portRangeMax: 9"),
        allowed("remoteAddress: 10.0.0.4, protocol: tcp, portRangeMin: 10, portRangeMax: 9"),
        allowed("remoteAddress: 10.0.0.5, localAddress: here"),
        allowed("remoteAddress: 10.0.0.6").replace("ipv4", "IPv4"),
        allowed("remoteAddress: 10.0.0.7").replace("priority: 7", "priority: 20000"),
        allowed("remoteAddress: 10.0.0.8").replace("address,", "network,"),
        allowed("remoteSecurityGroup: gone").replace("address,", "securityGroup,"),
    ];
    let one = group("one", &format!("ingressRules: [{}]", rules.join(", ")));
    let drop = rule("policy: drop, remoteAddress: nowhere");
    let two =
        group("two", &format!("ingressRules: [{}, {drop}]", allowed("remoteAddress: 10.0.0.1")));
    let others = [
        group("t-wo", ""),
        group("t.wo", ""),
        group("three", "tier: 2"),
        group(
            "four",
            &format!("tier: 1, egressRules: [{}]", rule("policy: pass, remoteAddress: 10.0.0.1")),
        ),
    ];
    let world = World::new(&manifests("one, two,three", &format!("{one}{two}{}", others.concat())));
    assert_eq!(
        problems(&world),
        [
            "SecurityGroup four: spec.egressRules[0].policy: \"pass\" needs spec.tier 0: no tier is behind it",
            "SecurityGroup four: spec: no rule is in effect, because one that drops or passes cannot be used",
            "SecurityGroup one: spec.ingressRules[1].remoteAddress: \"fd00::1\" is neither an IPv4 address nor a range",
            "SecurityGroup one: spec.ingressRules[2].protocol: \"sctp\" is none of all, icmp, tcp and udp",
            "SecurityGroup one: spec.ingressRules[3].portRangeMin: 0 is not in 1..=65535",
            "SecurityGroup one: spec.ingressRules[4].portRangeMax: 9 is below portRangeMin (10)",
            "SecurityGroup one: spec.ingressRules[5].localAddress: \"here\" is neither an IPv4 address nor a range",
            "SecurityGroup one: spec.ingressRules[6].ipVersion: \"IPv4\" is neither ipv4 nor ipv6",
            "SecurityGroup one: spec.ingressRules[7].priority: 20000 is not in 1..=16384",
            "SecurityGroup one: spec.ingressRules[8].remoteType: \"network\" is neither address nor securityGroup",
            "SecurityGroup one: spec.ingressRules[9].remoteSecurityGroup: there is no SecurityGroup gone",
            "SecurityGroup t.wo: metadata.name: SecurityGroup t-wo has its port group",
            "SecurityGroup three: spec.tier: 2 is neither 0 nor 1",
            "SecurityGroup two: spec.ingressRules[1].remoteAddress: \"nowhere\" is neither an IPv4 address nor a range",
            "SecurityGroup two: spec: no rule is in effect, because one that drops or passes cannot be used",
            "Pod alpha/vm1: metadata.annotations[net.alpha.ovn.kubernetes.io/security_groups]: SecurityGroup three: spec.tier: 2 is neither 0 nor 1",
        ]
    );
    assert_eq!(acls(&world, "ovn.sg.one").len(), 1);
    assert_eq!(acls(&world, "ovn.sg.two").len(), 0);
    let with_ports = members(&world).into_iter().filter(|(_, ports)| !ports.is_empty());
    let of_port: Vec<String> = with_ports.map(|(name, _)| name).collect();
    assert_eq!(of_port, ["ovn.sg.kubeovn_deny_all", "ovn.sg.one", "ovn.sg.two"]);
    let status = world.inventory.security_groups.named("one").unwrap().status.clone().unwrap();
    assert_eq!((&*status.port_group, status.ingress_last_sync_success), ("ovn.sg.one", false));
}

#[test]
fn a_port_with_groups_is_never_without_the_acls_that_drop() {
    let web = group(
        "web",
        "ingressRules: [{ipVersion: ipv4, priority: 1, remoteType: address, remoteAddress: 10.0.0.1, policy: allow}]",
    );
    let inputs = |yaml: &str| {
        let inventory = World::new(yaml).inventory;
        ZoneVpcs::new(&vpc_scene(&inventory), false)
    };
    let with_groups = inputs(&manifests("web", &web));
    let other = inputs(&manifests("gone", &web));
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(7));
    for wanted in [&with_groups, &other, &with_groups] {
        for seed in 0.. {
            let mut controller = Engine::<Vpcs>::new(UuidSource::seeded(seed));
            let plan = controller.plan(wanted, &database.snapshot());
            let Some((_, first)) = plan.changes.into_iter().next() else {
                break;
            };
            let transaction = first.unwrap().transaction.unwrap();
            database.transact(transaction.operations()).unwrap();
            let snapshot = database.snapshot();
            let ports = snapshot.typed::<LogicalSwitchPort>();
            let grouped: Vec<_> = ports
                .iter()
                .map(|row| row.unwrap())
                .filter(|(_, port)| port.external_ids.contains_key("security_groups"))
                .map(|(uuid, _)| uuid)
                .collect();
            let groups = snapshot.typed::<PortGroup>();
            let mut groups = groups.iter().map(|row| row.unwrap().1);
            let deny = groups.find(|group| group.name == "ovn.sg.kubeovn_deny_all");
            for port in grouped {
                let deny = deny.as_ref().unwrap();
                assert!(deny.ports.contains(&port) && deny.acls.len() == 4);
            }
        }
    }
    assert!(database.snapshot().typed::<PortGroup>().iter().count() == 2);
}
