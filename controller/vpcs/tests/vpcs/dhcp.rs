//! DHCP options and router advertisements.

use std::collections::BTreeMap;

use patchbay_schemas::nb::{DhcpOptions, LogicalRouterPort, LogicalSwitchPort};

use crate::changes::tenant;
use crate::world::{World, read};

/// The tenant, whose subnet has both IP families and further fields.
fn with_fields(fields: &str) -> String {
    tenant()
        .replace("spec: {vpc: alpha-vpc,", &format!("spec: {{{fields}, vpc: alpha-vpc,"))
        .replace("cidrBlock: 10.100.0.0/24", "cidrBlock: '10.100.0.0/24,fd00:100::/64'")
}

/// Ranges of the options that the machine's port has.
fn served(world: &World) -> Vec<String> {
    let snapshot = world.database.snapshot();
    let ports = world.rows::<LogicalSwitchPort>();
    let port = ports.iter().find(|port| port.name == "vm1.alpha.net.alpha.ovn").unwrap();
    let options = [port.dhcpv4_options, port.dhcpv6_options].into_iter().flatten();
    options
        .map(|options| {
            let row: DhcpOptions = snapshot.get(options).unwrap().unwrap();
            let servers = row.options.get("dns_server").cloned().unwrap_or_default();
            format!("{} {servers}", row.cidr).trim_end().to_owned()
        })
        .collect()
}

#[test]
fn options_are_those_of_kube_ovn_and_of_the_subnet() {
    let fields = "enableDHCP: true, mtu: 1300, dhcpV4Options: 'dns_server=8.8.8.8;1.1.1.1, lease_time=60, x=1', \
                  enableIPv6RA: true";
    let mut world = World::new(&with_fields(fields));
    let problem =
        "Subnet alpha-subnet: spec.dhcpV4Options: \"x\" is an option that OVN does not know";
    assert_eq!(world.problems.len(), 1);
    assert!(world.problems[0].ends_with(problem), "{:?}", world.problems);
    let rows: BTreeMap<String, DhcpOptions> =
        world.rows::<DhcpOptions>().into_iter().map(|row| (row.cidr.clone(), row)).collect();
    let options = |cidr: &str| -> Vec<String> {
        rows[cidr].options.iter().map(|(key, value)| format!("{key}={value}")).collect()
    };
    assert_eq!(
        options("10.100.0.0/24"),
        [
            "dns_server={8.8.8.8,1.1.1.1}",
            "lease_time=60",
            "mtu=1300",
            "router=10.100.0.1",
            "server_id=169.254.0.254",
            "server_mac=0a:58:a9:fe:00:fe",
        ]
    );
    assert!(options("fd00:100::/64")[0].starts_with("server_id=0a:58:"));
    let ids = &rows["fd00:100::/64"].external_ids;
    assert_eq!((&*ids["ls"], &*ids["protocol"]), ("alpha-subnet", "IPv6"));
    assert_eq!(served(&world), ["10.100.0.0/24 {8.8.8.8,1.1.1.1}", "fd00:100::/64"]);
    let ports = world.rows::<LogicalRouterPort>();
    let port = ports.iter().find(|port| port.name == "alpha-vpc-alpha-subnet").unwrap();
    assert_eq!(port.ipv6_ra_configs["address_mode"], "dhcpv6_stateful");
    assert_eq!(port.ipv6_prefix, ["64".to_owned()].into());
    world.apply(read(&with_fields("enableDHCP: false")));
    assert_eq!((world.rows::<DhcpOptions>(), served(&world)), (vec![], vec![]));
    let ports = world.rows::<LogicalRouterPort>();
    assert!(ports.iter().all(|port| port.ipv6_ra_configs.is_empty()));
}

#[test]
fn a_port_may_have_options_of_its_own() {
    let annotation =
        "annotations: {net.alpha.ovn.kubernetes.io/dhcp-v4-options: dns_server=9.9.9.9, k8s.v1";
    let own = |manifests: String| manifests.replace("annotations: {k8s.v1", annotation);
    let mut world = World::new(&with_fields("enableDHCP: true"));
    assert_eq!(served(&world), ["10.100.0.0/24", "fd00:100::/64"]);
    world.apply(read(&own(with_fields("enableDHCP: true"))));
    assert_eq!(served(&world), ["10.100.0.0/24 9.9.9.9", "fd00:100::/64"]);
    world.apply(read(&own(tenant())));
    assert_eq!(served(&world), ["10.100.0.0/24 9.9.9.9"]);
    world.apply(read(&with_fields("enableDHCP: true")));
    assert_eq!(served(&world), ["10.100.0.0/24", "fd00:100::/64"]);
}

#[test]
fn fields_that_cannot_be_used_are_named() {
    let world = World::new(&tenant().replace(
        "spec: {vpc: alpha-vpc,",
        "spec: {enableDHCP: true, enableIPv6RA: true, mtu: 70000, dhcpV6Options: 'a', vpc: alpha-vpc,",
    ));
    let problems = world.problems.iter().map(|problem| problem.rsplit_once("spec.").unwrap().1);
    assert_eq!(
        problems.collect::<Vec<_>>(),
        [
            "dhcpV6Options: \"a\" is not name=value",
            "cidrBlock has no range of IPv6",
            "mtu: 70000 is not in 68..=65535",
        ]
    );
    assert_eq!(served(&world), ["10.100.0.0/24"]);
}
