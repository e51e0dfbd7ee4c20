//! Rows that follow changed objects.

use std::collections::BTreeSet;

use patchbay_engine::db::Database;
use patchbay_resources::conversion::vpc_scene;
use patchbay_resources::manifests::Inventory;
use patchbay_rows::Engine;
use patchbay_schemas::nb;
use patchbay_schemas::nb::{
    GatewayChassis, LoadBalancer, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat,
};
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{Vpcs, ZoneVpcs};

use crate::world::{PLATFORM, World, read};

/// Tenant with a VPC, a subnet, translation and a machine.
pub(crate) const TENANT: &str = r#"
---
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: alpha-vpc}
spec:
  namespaces: [alpha]
  enableExternal: true
  staticRoutes: [{cidr: 0.0.0.0/0, nextHopIP: 77.220.68.97, policy: policyDst}]
  policyRoutes: [{priority: 1500, match: "ip4.dst == 77.220.68.96/27", action: drop}]
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: net, namespace: alpha}
spec: {config: '{"type": "kube-ovn", "server_socket": "/run/s.sock", "provider": "net.alpha.ovn"}'}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: alpha-subnet}
spec: {vpc: alpha-vpc, cidrBlock: 10.100.0.0/24, provider: net.alpha.ovn, namespaces: [alpha]}
---
apiVersion: kubeovn.io/v1
kind: OvnSnatRule
metadata: {name: alpha-snat}
spec: {ovnEip: alpha-vpc-external, vpcSubnet: alpha-subnet}
---
apiVersion: v1
kind: Pod
metadata: {name: vm1, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: net}}
spec: {nodeName: w1, containers: [{name: vm, image: vm}]}
"#;

/// The tenant on the platform.
pub(crate) fn tenant() -> String {
    format!("{PLATFORM}{TENANT}")
}

fn ports(world: &World) -> BTreeSet<String> {
    let ports = world.rows::<LogicalSwitchPort>().into_iter();
    ports.map(|port| port.name).collect()
}

#[test]
fn a_tenant_takes_few_transactions() {
    let world = World::new(&tenant());
    assert_eq!(world.problems, Vec::<String>::new());
    // External subnet, VPC, external port, subnet, rule and machine, some in two steps.
    assert!(world.transactions <= 8, "{}", world.transactions);
    assert!(ports(&world).contains("vm1.alpha.net.alpha.ovn"));
    let record = world.inventory.ips.named("vm1.alpha.net.alpha.ovn").unwrap();
    assert_eq!(record.spec.v4_ip_address, "10.100.0.2");
}

#[test]
fn rows_of_gone_objects_go() {
    let mut world = World::new(&tenant());
    let mut without_rule = read(&tenant());
    without_rule.ovn_snat_rules = Inventory::default().ovn_snat_rules;
    world.apply(without_rule);
    assert_eq!(world.rows::<Nat>(), []);
    assert_eq!(world.rows::<LogicalRouterPort>().len(), 2);
    world.apply(read(PLATFORM));
    assert_eq!(world.rows::<LogicalRouter>(), []);
    assert_eq!(world.rows::<LogicalRouterPort>(), []);
    assert_eq!(world.rows::<GatewayChassis>(), []);
    assert_eq!(world.rows::<LoadBalancer>(), []);
    let switches = world.rows::<LogicalSwitch>().into_iter();
    assert_eq!(switches.map(|one| one.name).collect::<Vec<_>>(), ["external"]);
    assert_eq!(ports(&world), ["localnet.external".to_owned()].into());
}

#[test]
fn chassis_follow_the_labels_of_nodes() {
    let mut world = World::new(&tenant());
    let names = |world: &World| {
        let rows = world.rows::<GatewayChassis>().into_iter();
        let mut rows: Vec<_> = rows.map(|row| (-row.priority, row.chassis_name)).collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, name)| name[..2].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&world), ["8b", "4a"]);
    let port = |world: &World| {
        let mut ports = world.rows::<LogicalRouterPort>().into_iter();
        let port = ports.find(|port| port.name == "alpha-vpc-external").unwrap();
        (port.mac, port.networks)
    };
    let before = port(&world);
    let unlabelled = tenant().replacen("external-gw: \"true\"", "external-gw: \"false\"", 1);
    world.apply(read(&unlabelled));
    assert_eq!(names(&world), ["8b"]);
    assert_eq!(port(&world), before);
}

#[test]
fn several_external_subnets_name_the_port_of_a_translation() {
    let second = "
---
apiVersion: kubeovn.io/v1
kind: Vlan
metadata: {name: vlan300}
spec: {id: 300, provider: provider}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: extra}
spec: {vlan: vlan300, cidrBlock: 198.51.100.0/24, gateway: 198.51.100.1}
---
apiVersion: kubeovn.io/v1
kind: OvnSnatRule
metadata: {name: extra-snat}
spec: {ovnEip: alpha-vpc-extra, vpcSubnet: alpha-subnet}
";
    let listed = "enableExternal: true\n  extraExternalSubnets: [external, extra]";
    let manifests = tenant().replace("enableExternal: true", listed);
    let world = World::new(&format!("{manifests}{second}"));
    assert_eq!(world.problems, Vec::<String>::new());
    let nats = world.rows::<Nat>();
    let external: BTreeSet<&str> = nats.iter().map(|nat| &*nat.external_ip).collect();
    assert_eq!(external, ["77.220.68.98", "198.51.100.2"].into());
    let snapshot = world.database.snapshot();
    for nat in &nats {
        let port = snapshot.get(nat.gateway_port.unwrap()).unwrap().unwrap();
        let address = format!("{}/", nat.external_ip);
        let mut networks = port.networks.iter();
        assert!(networks.any(|network| network.starts_with(&address)), "{port:?}");
    }
    let tags: Vec<_> = world
        .rows::<LogicalSwitchPort>()
        .into_iter()
        .filter_map(|port| Some((port.name, port.tag?)))
        .collect();
    assert_eq!(tags, [("localnet.extra".to_owned(), 300)]);
}

#[test]
fn both_families_have_addresses_policies_and_translations() {
    let manifests = tenant()
        .replace("cidrBlock: 10.100.0.0/24", "cidrBlock: '10.100.0.0/24,fd00:100::/64'")
        .replace("cidrBlock: 77.220.68.96/27", "cidrBlock: '77.220.68.96/27,2001:db8:68::/64'")
        .replace("gateway: 77.220.68.97", "gateway: '77.220.68.97,2001:db8:68::1'");
    let world = World::new(&manifests);
    assert_eq!(world.problems, Vec::<String>::new());
    let nats: BTreeSet<(String, String)> =
        world.rows::<Nat>().into_iter().map(|nat| (nat.external_ip, nat.logical_ip)).collect();
    let pair = |external: &str, logical: &str| (external.to_owned(), logical.to_owned());
    let expected = [pair("77.220.68.98", "10.100.0.0/24"), pair("2001:db8:68::2", "fd00:100::/64")];
    assert_eq!(nats, expected.into());
    let policies = world.rows::<LogicalRouterPolicy>().into_iter();
    let own = policies.filter(|policy| policy.priority == 31_000);
    assert_eq!(own.count(), 2);
    let ports = world.rows::<LogicalSwitchPort>().into_iter();
    let mut machines = ports.filter(|port| port.name == "vm1.alpha.net.alpha.ovn");
    let addresses = machines.next().unwrap().addresses;
    let expected = "0a:58:0a:64:00:02 10.100.0.2 fd00:100::2".to_owned();
    assert_eq!(addresses, [expected].into());
}

#[test]
fn a_machine_may_have_addresses_of_one_family() {
    let dual = tenant().replace(
        "cidrBlock: 10.100.0.0/24",
        "cidrBlock: '10.100.0.0/24,fd00:100::/64', enableDHCP: true",
    );
    let with = |manifests: &str, family: &str| {
        let annotation =
            format!("networks: net, net.alpha.ovn.kubernetes.io/ip_family: {family}}}");
        manifests.replace("networks: net}", &annotation)
    };
    let port = |world: &World| {
        let ports = world.rows::<LogicalSwitchPort>().into_iter();
        let mut machines = ports.filter(|port| port.name == "vm1.alpha.net.alpha.ovn");
        machines.next()
    };
    let world = World::new(&with(&dual, "ipv6"));
    assert_eq!(world.problems, Vec::<String>::new());
    let machine = port(&world).unwrap();
    let addresses: Vec<&str> = machine
        .addresses
        .iter()
        .filter_map(|one| one.split_once(' '))
        .map(|(_, one)| one)
        .collect();
    assert_eq!(addresses, ["fd00:100::2"]);
    assert!(machine.dhcpv4_options.is_none() && machine.dhcpv6_options.is_some());
    for (manifests, family, expected) in [
        (&tenant(), "ipv6", "Subnet alpha-subnet has no range of IPv6"),
        (&dual, "IPv4", "ip_family]: \"IPv4\" is neither ipv4 nor ipv6"),
        (
            &dual,
            "ipv6, net.alpha.ovn.kubernetes.io/ip_address: 10.100.0.9",
            "ip_family]: ipv6 excludes the wished address 10.100.0.9",
        ),
    ] {
        let world = World::new(&with(manifests, family));
        assert!(world.problems.iter().any(|one| one.ends_with(expected)), "{:?}", world.problems);
        assert!(port(&world).is_none());
    }
}

#[test]
fn several_next_hops_of_a_prefix_are_one_set() {
    let hops = "staticRoutes: [{cidr: 0.0.0.0/0, nextHopIP: 77.220.68.120}, ";
    let world = World::new(&tenant().replace("staticRoutes: [", hops));
    let routes = world.rows::<LogicalRouterStaticRoute>();
    let hops: BTreeSet<&str> = routes.iter().map(|route| &*route.nexthop).collect();
    assert_eq!(hops, ["77.220.68.120", "77.220.68.97"].into());
    assert!(routes.iter().all(|route| route.selection_fields.len() == 1));
}

#[test]
fn a_controller_that_starts_after_any_transaction_goes_on() {
    let world = World::new(&tenant());
    let inputs = ZoneVpcs::new(&vpc_scene(&world.inventory), false);
    let empty = ZoneVpcs::new(&vpc_scene(&read(PLATFORM)), false);
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(7));
    for wanted in [&inputs, &empty, &inputs] {
        for seed in 0.. {
            let mut controller = Engine::<Vpcs>::new(UuidSource::seeded(seed));
            let plan = controller.plan(wanted, &database.snapshot());
            let Some((_, first)) = plan.changes.into_iter().next() else {
                break;
            };
            let transaction = first.unwrap().transaction.unwrap();
            database.transact(transaction.operations()).unwrap();
        }
        let mut fresh = Engine::<Vpcs>::new(UuidSource::seeded(1));
        let rest = fresh.plan(wanted, &database.snapshot());
        assert!(rest.changes.is_empty(), "{:?}", rest.changes);
    }
    let ports = |database: &Database| {
        let snapshot = database.snapshot();
        let rows = snapshot.typed::<LogicalRouterPort>();
        let rows = rows.iter().map(|row| row.unwrap().1);
        let mut names: Vec<_> = rows.map(|port| (port.name, port.mac, port.networks)).collect();
        names.sort();
        names
    };
    assert_eq!(ports(&database), ports(&world.database));
}

#[test]
fn nothing_goes_while_objects_may_be_missing() {
    let world = World::new(&tenant());
    let nothing = ZoneVpcs::new(&vpc_scene(&read(PLATFORM)), true);
    let plan =
        Engine::<Vpcs>::new(UuidSource::seeded(4)).plan(&nothing, &world.database.snapshot());
    assert!(plan.changes.is_empty(), "{:?}", plan.changes);
}

/// Ports of the external subnet share it with those of all tenants.
#[test]
fn floating_addresses_of_equal_machines_have_their_own_mac_addresses() {
    let other = TENANT.replace("alpha", "beta");
    let rules = ["alpha", "beta"].map(|name| {
        format!(
            "---
apiVersion: kubeovn.io/v1
kind: OvnEip
metadata: {{name: {name}-eip}}
spec: {{externalSubnet: external, type: nat}}
---
apiVersion: kubeovn.io/v1
kind: OvnFip
metadata: {{name: {name}-fip}}
spec: {{ovnEip: {name}-eip, ipName: vm1.{name}.net.{name}.ovn, type: distributed}}
"
        )
    });
    let world = World::new(&format!("{}{other}{}", tenant(), rules.concat()));
    assert_eq!(world.problems, Vec::<String>::new());
    let floating = world.rows::<Nat>().into_iter().filter(|nat| nat.logical_port.is_some());
    let floating: Vec<_> = floating.collect();
    assert_eq!(floating.len(), 2);
    assert_eq!(floating[0].logical_ip, floating[1].logical_ip);
    for nat in floating {
        let mut eips = world.inventory.ovn_eips.iter().map(|(_, eip)| &eip.object.status);
        let status = eips
            .find_map(|status| status.as_ref().filter(|status| status.v4_ip == nat.external_ip));
        assert_eq!(nat.external_mac, Some(status.unwrap().mac_address.clone()));
    }
}
