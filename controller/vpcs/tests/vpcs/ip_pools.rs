//! Pools of addresses.

use std::collections::BTreeSet;

use patchbay_schemas::nb::AddressSet;

use crate::changes::tenant;
use crate::world::{World, read};

fn pool(name: &str, fields: &str) -> String {
    format!(
        "---\n{{apiVersion: kubeovn.io/v1, kind: IPPool, metadata: {{name: {name}}}, spec: {{{fields}}}}}\n"
    )
}

/// A pod with an annotation for its port.
fn pod(namespace: &str, name: &str, annotations: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, annotations: \
         {{k8s.v1.cni.cncf.io/networks: alpha/net{annotations}}}}}, spec: {{nodeName: w1, containers: [{{name: c, \
         image: i}}]}}}}\n"
    )
}

/// Annotation with a pool or addresses.
fn of_pool(text: &str) -> String {
    format!(", net.alpha.ovn.kubernetes.io/ip_pool: '{text}'")
}

fn address(world: &World, pod: &str) -> String {
    let record = world.inventory.ips.named(&format!("{pod}.alpha.net.alpha.ovn"));
    record.map(|record| record.spec.v4_ip_address.clone()).unwrap_or_default()
}

fn problems(world: &World) -> Vec<&str> {
    let texts = world.problems.iter();
    texts.map(|problem| problem.split_once(": ").unwrap().1).collect()
}

fn address_set(world: &World, name: &str) -> Option<BTreeSet<String>> {
    let sets = world.rows::<AddressSet>().into_iter();
    let mut named = sets.filter(|set| set.name == name);
    named.next().map(|set| set.addresses.into_iter().collect())
}

#[test]
fn pods_get_addresses_of_their_pool_and_others_do_not() {
    let objects = [
        pool(
            "low-ones",
            "subnet: alpha-subnet, ips: [10.100.0.2..10.100.0.4], enableAddressSet: true",
        ),
        pod("alpha", "a", ""),
        pod("alpha", "b", &of_pool("low-ones")),
        pod("alpha", "c", &of_pool("10.100.0.77, 10.100.0.78")),
        pod("alpha", "d", &of_pool("10.100.0.77;10.100.0.78")),
        pod("alpha", "e", &of_pool("10.100.0.77")),
    ];
    let manifests = format!("{}{}", tenant(), objects.concat());
    let mut world = World::new(&manifests);
    let found = ["vm1", "a", "b", "c", "d", "e"].map(|pod| address(&world, pod));
    let expected = ["10.100.0.5", "10.100.0.6", "10.100.0.2", "10.100.0.77", "10.100.0.78", ""];
    assert_eq!(found, expected);
    assert_eq!(
        problems(&world),
        ["Pod alpha/e: Subnet alpha-subnet: none of its addresses in 10.100.0.0/24 is free"]
    );
    let members = ["10.100.0.2/31", "10.100.0.4"].map(str::to_owned);
    assert_eq!(address_set(&world, "low.ones"), Some(members.into()));
    let status = world.inventory.ip_pools.named("low-ones").unwrap().status.clone().unwrap();
    assert_eq!(status.v4_using_ip_range, "10.100.0.2");
    assert_eq!(status.v4_available_ip_range, "10.100.0.3-10.100.0.4");
    assert_eq!(status.v4_available_ips, Some(2.into()));
    let wider =
        manifests.replace("10.100.0.2..10.100.0.4", "10.100.0.2..10.100.0.3', '10.100.0.8/30");
    let wider = wider.replace("ips: [", "ips: ['").replace("30]", "30']");
    world.apply(read(&wider));
    let members = ["10.100.0.2/31", "10.100.0.8/30"].map(str::to_owned);
    assert_eq!(address_set(&world, "low.ones"), Some(members.into()));
    world.apply(read(&tenant()));
    assert_eq!(address_set(&world, "low.ones"), None);
}

#[test]
fn pods_of_a_namespace_get_addresses_of_its_pool() {
    let two = tenant().replace("namespaces: [alpha]", "namespaces: [alpha, dev]");
    let objects = [
        pool("dev", "subnet: alpha-subnet, namespaces: [dev], ips: [10.100.0.50, 10.100.0.60]"),
        pod("dev", "a", ""),
        pod("dev", "b", ", net.alpha.ovn.kubernetes.io/ip_address: 10.100.0.9"),
        pod("dev", "c", ""),
    ];
    let world = World::new(&format!("{two}{}", objects.concat()));
    let of = |pod: &str| {
        let record = world.inventory.ips.named(&format!("{pod}.dev.net.alpha.ovn"));
        record.unwrap().spec.v4_ip_address.clone()
    };
    assert_eq!(["a", "b", "c"].map(of), ["10.100.0.50", "10.100.0.9", "10.100.0.60"]);
    assert_eq!(problems(&world), Vec::<&str>::new());
}

#[test]
fn a_pool_names_the_subnet_of_a_pod() {
    let objects = [
        "---\n{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: second}, spec: {vpc: alpha-vpc, cidrBlock: \
         10.100.9.0/24, provider: other.alpha.ovn, namespaces: [alpha]}}\n"
            .to_owned(),
        pool("second-pool", "subnet: second, ips: [10.100.9.40]"),
        pod("alpha", "a", &of_pool("second-pool")),
    ];
    let world = World::new(&format!("{}{}", tenant(), objects.concat()));
    assert_eq!(address(&world, "a"), "10.100.9.40");
}

#[test]
fn pools_that_cannot_be_used_are_named() {
    let objects = [
        pool("a", "ips: [10.100.0.9]"),
        pool("b", "subnet: gone, ips: [10.100.0.9]"),
        pool("c", "subnet: alpha-subnet, ips: [10.100.1.9, nine, 'fd00::1', 10.100.0.9]"),
        pool("d", "subnet: alpha-subnet, ips: [10.100.0.5..10.100.0.10]"),
        pool("e", "subnet: alpha-subnet"),
        pod("alpha", "p", &of_pool("d")),
        pod("alpha", "q", &of_pool("nowhere")),
    ];
    let world = World::new(&format!("{}{}", tenant(), objects.concat()));
    assert_eq!(
        problems(&world),
        [
            "IPPool a: spec.subnet: the name of a Subnet is required",
            "IPPool b: spec.subnet: Subnet gone: there is no such Subnet",
            "IPPool c: spec.ips[1]: \"nine\" is no address, range a..b or CIDR",
            "IPPool c: spec.ips[0]: 10.100.1.9 is not in 10.100.0.0/24",
            "IPPool c: spec.ips[2]: Subnet alpha-subnet has no range of IPv6",
            "IPPool d: spec.ips[0]: IPPool c has addresses of 10.100.0.5..10.100.0.10",
            "IPPool e: spec.ips: an address is required",
            "Pod alpha/q: metadata.annotations[net.alpha.ovn.kubernetes.io/ip_pool]: \"nowhere\" is neither an IPPool \
             nor an address",
            "Pod alpha/p: Subnet alpha-subnet: none of its addresses in 10.100.0.0/24 is free",
        ]
    );
}
