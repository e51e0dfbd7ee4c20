//! ACLs of subnets.

use std::collections::BTreeSet;

use patchbay_engine::db::Database;
use patchbay_resources::conversion::vpc_scene;
use patchbay_rows::Engine;
use patchbay_schemas::nb;
use patchbay_schemas::nb::{Acl, LogicalRouterPolicy, LogicalSwitch};
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{Vpcs, ZoneVpcs};

use crate::changes::tenant;
use crate::world::{World, read};

/// The tenant, whose subnet has further fields.
fn with_fields(fields: &str) -> String {
    tenant().replace("spec: {vpc: alpha-vpc,", &format!("spec: {{{fields}, vpc: alpha-vpc,"))
}

/// Priority, direction, match and action of all ACLs, sorted.
fn acls(world: &World) -> Vec<String> {
    let rows = world.rows::<Acl>().into_iter();
    let text =
        |acl: Acl| format!("{} {:?} {} {:?}", acl.priority, acl.direction, acl.r#match, acl.action);
    let texts: BTreeSet<String> = rows.map(text).collect();
    texts.into_iter().collect()
}

#[test]
fn a_private_subnet_has_the_acls_of_kube_ovn() {
    let allowed = "private: true, allowSubnets: [' 10.7.0.9/24 ', '', 'fd00:7::/64', 10.8.0.1]";
    let mut world = World::new(&with_fields(allowed));
    assert_eq!(world.problems, Vec::<String>::new());
    let own = "ip4.src == 10.100.0.0/24 && ip4.dst == ";
    let back = "&& ip4.dst == 10.100.0.0/24";
    assert_eq!(
        acls(&world),
        [
            "1000 ToLport ip Drop".to_owned(),
            format!(
                "1001 ToLport ({own}10.7.0.0/24) || (ip4.src == 10.7.0.0/24 {back}) AllowRelated"
            ),
            format!(
                "1001 ToLport ({own}10.8.0.1/32) || (ip4.src == 10.8.0.1/32 {back}) AllowRelated"
            ),
            format!("1001 ToLport {own}10.100.0.0/24 AllowRelated"),
            "3000 ToLport ip4.src == 100.64.0.0/16 AllowRelated".to_owned(),
        ]
    );
    for acl in world.rows::<Acl>() {
        assert_eq!((acl.tier, &*acl.external_ids["parent"]), (2, "alpha-subnet"));
        let is_drop = acl.priority == 1000;
        assert_eq!((acl.log, acl.severity.is_some()), (is_drop, is_drop));
        assert_eq!(acl.name, is_drop.then(|| "alpha-subnet".to_owned()));
    }
    let subnet = world.inventory.subnets.named("alpha-subnet").unwrap();
    let conditions = &subnet.status.as_ref().unwrap().conditions;
    let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!(ready.reason, "SetPrivateLogicalSwitchSuccess");
    world.apply(read(&tenant()));
    assert_eq!(world.rows::<Acl>(), []);
}

#[test]
fn listed_acls_are_beside_those_of_a_private_subnet_and_bad_ones_are_left_out() {
    let listed = "private: true, allowEWTraffic: true, allowSubnets: [nowhere], acls: [\
        {direction: to-lport, priority: 1000, match: ip, action: allow}, \
        {direction: from-lport, priority: 7, match: 'ip4.src = 10.0.0.0/8', action: drop}, \
        {direction: from-lport, priority: 7, match: '', action: drop}, \
        {direction: from-lport, priority: 40000, match: ip4, action: drop}, \
        {direction: up, priority: 7, match: ip4, action: drop}, \
        {direction: from-lport, priority: 7, match: ip4, action: pass}, \
        {direction: from-lport, priority: 8, match: 'ip4.src == $set && tcp.dst == {80, 443}', action: reject}]";
    let world = World::new(&with_fields(listed));
    let problems = world.problems.iter().map(|problem| {
        let (_, rest) = problem.split_once("Subnet alpha-subnet: spec.").unwrap();
        rest
    });
    assert_eq!(
        problems.collect::<Vec<_>>(),
        [
            "allowSubnets[0]: \"nowhere\" is neither a range nor an address",
            "acls[0]: another ACL has this direction, priority and match",
            "acls[1].match: \"ip4.src = 10.0.0.0/8\" is refused by OVN: invalid character at column 8",
            "acls[2].match: \"\" is refused by OVN: expected a constant at column 1",
            "acls[3].priority: 40000 is not in 0..=32767",
            "acls[4].direction: \"up\" is neither from-lport nor to-lport",
            "acls[5].action: \"pass\" is none of allow, allow-related, allow-stateless, drop and reject",
        ]
    );
    let listed: Vec<Acl> = world
        .rows::<Acl>()
        .into_iter()
        .filter(|acl| acl.external_ids.contains_key("subnet"))
        .collect();
    let priorities: BTreeSet<i64> = listed.iter().map(|acl| acl.priority).collect();
    assert_eq!(priorities, [8, 1900].into());
    assert_eq!(listed.len(), 3);
    assert_eq!(world.rows::<Acl>().len(), 6);
    let subnet = world.inventory.subnets.named("alpha-subnet").unwrap();
    let conditions = &subnet.status.as_ref().unwrap().conditions;
    let accepted = conditions.iter().find(|one| one.type_ == "FieldsAccepted").unwrap();
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "InvalidField"));
}

#[test]
fn a_policy_whose_match_ovn_refuses_is_left_out() {
    let policies = "policyRoutes: [{priority: 9, match: 'ip4.dst == 10.0.0.0/8 && tcp || udp', action: drop}, ";
    let world = World::new(&tenant().replace("policyRoutes: [", policies));
    assert_eq!(world.problems.len(), 1, "{:?}", world.problems);
    assert!(world.problems[0].contains("spec.policyRoutes[0].match: "), "{:?}", world.problems);
    let policies = world.rows::<LogicalRouterPolicy>();
    assert!(policies.iter().all(|policy| policy.priority != 9));
}

#[test]
fn a_switch_never_has_ports_without_the_acls_that_drop() {
    let inventory = World::new(&with_fields("private: true")).inventory;
    let inputs = ZoneVpcs::new(&vpc_scene(&inventory), false);
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(7));
    for seed in 0.. {
        let mut controller = Engine::<Vpcs>::new(UuidSource::seeded(seed));
        let plan = controller.plan(&inputs, &database.snapshot());
        let Some((_, first)) = plan.changes.into_iter().next() else {
            break;
        };
        let transaction = first.unwrap().transaction.unwrap();
        database.transact(transaction.operations()).unwrap();
        let snapshot = database.snapshot();
        let switches = snapshot.typed::<LogicalSwitch>();
        let switches = switches.iter().map(|row| row.unwrap().1);
        for switch in switches.filter(|switch| switch.name == "alpha-subnet") {
            assert!(switch.ports.is_empty() || !switch.acls.is_empty());
        }
    }
}
