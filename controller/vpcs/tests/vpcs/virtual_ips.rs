//! Virtual addresses, and machines of `KubeVirt`.

use std::collections::BTreeMap;

use patchbay_schemas::nb::{LoadBalancer, LogicalSwitchPort, Nat};

use crate::changes::tenant;
use crate::world::{World, read};

/// Two machines that may have the address `front`, and one that may not.
const MACHINES: &str = "
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: alpha, labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: net, ovn.kubernetes.io/aaps: front, net.alpha.ovn.kubernetes.io/port_security: 'true'}}, spec: {nodeName: w1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: alpha, labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: net, ovn.kubernetes.io/aaps: ' front ,gone'}}, spec: {nodeName: w2, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: alpha, labels: {app: other}, annotations: {k8s.v1.cni.cncf.io/networks: net, ovn.kubernetes.io/aaps: front}}, spec: {nodeName: w2, containers: [{name: c, image: i}]}}
";

fn vip(name: &str, fields: &str) -> String {
    format!(
        "---\n{{apiVersion: kubeovn.io/v1, kind: Vip, metadata: {{name: {name}}}, spec: {{{fields}}}}}\n"
    )
}

fn port(world: &World, name: &str) -> LogicalSwitchPort {
    let ports = world.rows::<LogicalSwitchPort>().into_iter();
    let mut named = ports.filter(|port| port.name == name);
    named.next().unwrap_or_else(|| panic!("no port {name}"))
}

fn problems(world: &World) -> Vec<&str> {
    let texts = world.problems.iter();
    texts.map(|problem| problem.split_once(": ").unwrap().1).collect()
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn machines_share_the_address_of_a_virtual_port() {
    let front = vip(
        "front",
        "namespace: alpha, subnet: alpha-subnet, selector: ['app: web'], v4ip: 10.100.0.50",
    );
    let mut world = World::new(&format!("{}{MACHINES}{front}", tenant()));
    let shared = port(&world, "front");
    let parents = "a.alpha.net.alpha.ovn,b.alpha.net.alpha.ovn";
    assert_eq!(shared.r#type, "virtual");
    assert_eq!(shared.options, map([("virtual-ip", "10.100.0.50"), ("virtual-parents", parents)]));
    let expected = [("vendor", "kube-ovn"), ("owner", "Vip/front"), ("ls", "alpha-subnet")];
    assert_eq!(shared.external_ids, map(expected));
    let own = port(&world, "a.alpha.net.alpha.ovn");
    let address = own.addresses.iter().next().unwrap();
    assert_eq!(own.port_security, [format!("{address} 10.100.0.50")].into());
    assert_eq!(own.external_ids["vips"], "10.100.0.50");
    assert_eq!(own.external_ids["attach-vips"], "true");
    assert!(!port(&world, "c.alpha.net.alpha.ovn").external_ids.contains_key("vips"));
    assert_eq!(
        problems(&world),
        [
            "Pod alpha/b: metadata.annotations[ovn.kubernetes.io/aaps]: there is no Vip gone",
            "Pod alpha/c: metadata.annotations[ovn.kubernetes.io/aaps]: spec.selector of Vip front does not \
             select the pod",
        ]
    );
    let status = world.inventory.vips.named("front").unwrap().status.clone().unwrap();
    assert_eq!((&*status.v4_ip, &*status.mac), ("10.100.0.50", "0a:58:0a:64:00:32"));
    assert_eq!(status.conditions[0].reason, "AddressAllocated");
    world.apply(read(&format!("{}{MACHINES}", tenant())));
    let own = port(&world, "a.alpha.net.alpha.ovn");
    assert_eq!(own.port_security, [address.clone()].into());
    assert!(!own.external_ids.contains_key("vips"));
    assert!(!world.rows::<LogicalSwitchPort>().iter().any(|one| one.name == "front"));
}

#[test]
fn virtual_addresses_of_a_subnet_have_ports_and_no_machine_gets_them() {
    let front = vip(
        "front",
        "namespace: alpha, subnet: alpha-subnet, selector: ['app: web'], v4ip: 10.100.0.50",
    );
    let vips = "vips: [10.100.0.2, 10.100.0.50, 10.100.0.2, 10.100.0.1, 10.9.9.9, two], provider";
    let subnet = tenant().replacen(
        "provider: net.alpha.ovn, namespaces",
        &format!("{vips}: net.alpha.ovn, namespaces"),
        1,
    );
    let mut world = World::new(&format!("{subnet}{MACHINES}{front}"));
    let mut own: Vec<&str> =
        problems(&world).into_iter().filter(|problem| problem.starts_with("Subnet")).collect();
    own.sort_unstable();
    let reason = |index, text| {
        format!(
            "Subnet alpha-subnet: spec.vips[{index}]: \"{text}\" is no address of machines of the subnet"
        )
    };
    assert_eq!(own, [reason(3, "10.100.0.1"), reason(4, "10.9.9.9"), reason(5, "two")]);
    let reserved = port(&world, "alpha-subnet-vip-10.100.0.2");
    assert_eq!(reserved.r#type, "virtual");
    assert_eq!(reserved.options, map([("virtual-ip", "10.100.0.2")]));
    let parents = "a.alpha.net.alpha.ovn,b.alpha.net.alpha.ovn";
    let shared = port(&world, "alpha-subnet-vip-10.100.0.50");
    assert_eq!(shared.options, map([("virtual-ip", "10.100.0.50"), ("virtual-parents", parents)]));
    let machine = port(&world, "vm1.alpha.net.alpha.ovn");
    assert!(!machine.addresses.iter().any(|text| text.ends_with(" 10.100.0.2")), "{machine:?}");
    world.apply(read(&tenant()));
    let ports = world.rows::<LogicalSwitchPort>().into_iter();
    assert_eq!(ports.filter(|port| port.r#type == "virtual").count(), 0);
}

#[test]
fn the_router_answers_for_the_address_of_a_load_balancer() {
    let objects = [
        vip(
            "slb",
            "namespace: alpha, subnet: alpha-subnet, type: switch_lb_vip, v4ip: 10.100.0.60",
        ),
        vip("guest", "namespace: alpha, subnet: alpha-subnet, type: kube_host_vm_vip"),
        vip("reserved", "subnet: alpha-subnet, v4ip: 10.100.0.61"),
    ];
    let mut world = World::new(&format!("{}{}", tenant(), objects.concat()));
    assert_eq!(problems(&world), Vec::<&str>::new());
    let router = port(&world, "alpha-subnet-alpha-vpc");
    assert_eq!(router.options["arp_proxy"], "0a:58:0a:64:00:01 10.100.0.60");
    assert_eq!(port(&world, "slb").options, map([("virtual-ip", "10.100.0.60")]));
    let guest = port(&world, "guest.alpha.net.alpha.ovn");
    assert_eq!(guest.addresses, ["0a:58:0a:64:00:03 10.100.0.3".to_owned()].into());
    assert_eq!(guest.external_ids["pod"], "alpha/guest");
    let names: Vec<String> =
        world.rows::<LogicalSwitchPort>().into_iter().map(|port| port.name).collect();
    assert!(!names.iter().any(|name| name.starts_with("reserved") || name == "guest"), "{names:?}");
    world.apply(read(&tenant()));
    let router = port(&world, "alpha-subnet-alpha-vpc");
    assert_eq!(router.options, map([("router-port", "alpha-vpc-alpha-subnet")]));
}

#[test]
fn rules_translate_to_virtual_addresses_without_a_port() {
    let objects = [
        vip("front", "namespace: alpha, subnet: alpha-subnet, v4ip: 10.100.0.50"),
        "---\n{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: one}, spec: {v4Ip: 77.220.68.110}}\n"
            .to_owned(),
        "---\n{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: fip}, spec: {ovnEip: one, ipType: vip, \
         ipName: front}}\n"
            .to_owned(),
        "---\n{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: far}, spec: {ovnEip: one, ipType: vip, \
         ipName: front, type: distributed}}\n"
            .to_owned(),
        "---\n{apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {name: dnat}, spec: {ovnEip: one, ipType: \
         vip, ipName: front, protocol: tcp, externalPort: '443', internalPort: '8443'}}\n"
            .to_owned(),
        "---\n{apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {name: lost}, spec: {ovnEip: one, ipType: \
         vip, ipName: gone, protocol: tcp, externalPort: '444', internalPort: '8443'}}\n"
            .to_owned(),
    ];
    let world = World::new(&format!("{}{}", tenant(), objects.concat()));
    let nats = world.rows::<Nat>().into_iter();
    let mut floating = nats.filter(|nat| nat.external_ip == "77.220.68.110");
    let floating = floating.next().unwrap();
    assert_eq!(floating.logical_ip, "10.100.0.50");
    assert_eq!((floating.logical_port, floating.external_mac), (None, None));
    let balancers = world.rows::<LoadBalancer>().into_iter();
    let mut forwarded = balancers.filter(|one| one.name == "dnat");
    assert_eq!(forwarded.next().unwrap().vips, map([("77.220.68.110:443", "10.100.0.50:8443")]));
    assert_eq!(
        problems(&world),
        [
            "OvnFip far: spec.type: \"distributed\" excludes a Vip, which is on no certain node",
            "OvnDnatRule lost: spec.ipName: Vip gone: there is no such Vip",
        ]
    );
}

#[test]
fn virtual_addresses_that_cannot_be_used_are_named() {
    let objects = [
        vip("a", "namespace: alpha"),
        vip("b", "subnet: gone"),
        vip("c", "subnet: alpha-subnet, type: other"),
        vip("d", "subnet: alpha-subnet, v4ip: 'fd00::1'"),
        vip("e", "subnet: alpha-subnet, v4ip: 10.100.0.1"),
        vip("f", "subnet: alpha-subnet, type: kube_host_vm_vip"),
        vip("g", "subnet: alpha-subnet, selector: [web], attachSubnets: [x]"),
        vip("h", "subnet: alpha-subnet, v4ip: 10.100.0.99"),
        vip("i", "subnet: alpha-subnet, v4ip: 10.100.0.99"),
    ];
    let world = World::new(&format!("{}{}", tenant(), objects.concat()));
    assert_eq!(
        problems(&world),
        [
            "Vip a: spec.subnet: the name of a Subnet is required",
            "Vip b: spec.subnet: Subnet gone: there is no such Subnet",
            "Vip c: spec.type: \"other\" is neither switch_lb_vip nor kube_host_vm_vip",
            "Vip d: spec.v4ip: \"fd00::1\" is not an IPv4 address",
            "Vip f: spec.namespace: the namespace of the machine is required",
            "Vip g: spec.selector[0]: \"web\" is not key:value",
            "Vip g: spec.attachSubnets: not supported yet: no address follows from it",
            "Vip e: Subnet alpha-subnet: 10.100.0.1 is the gateway",
            "Vip i: Subnet alpha-subnet: 10.100.0.99 is used by Vip h",
        ]
    );
    let status = |name: &str| world.inventory.vips.named(name).unwrap().status.clone().unwrap();
    assert_eq!(status("b").conditions[0].reason, "SubnetNotReady");
    assert_eq!(
        (&*status("i").v4_ip, status("i").conditions[0].reason.as_str()),
        ("", "AddressNotAllocated")
    );
}

/// A pod of a virtual machine, which the annotation asks for an address.
fn launcher(name: &str, node: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: alpha, annotations: \
         {{k8s.v1.cni.cncf.io/networks: net}}, ownerReferences: [{{apiVersion: kubevirt.io/v1, kind: \
         VirtualMachineInstance, name: db, uid: u}}]}}, spec: {{nodeName: {node}, containers: [{{name: c, image: \
         i}}]}}}}\n"
    )
}

#[test]
fn pods_of_a_migrating_machine_have_one_port() {
    let both =
        format!("{}{}", launcher("virt-launcher-db-1", "w1"), launcher("virt-launcher-db-2", "w2"));
    let mut world = World::new(&format!("{}{both}", tenant()));
    assert_eq!(problems(&world), Vec::<&str>::new());
    let own = port(&world, "db.alpha.net.alpha.ovn");
    assert_eq!(own.external_ids["pod"], "alpha/db");
    assert_eq!(own.addresses, ["0a:58:0a:64:00:03 10.100.0.3".to_owned()].into());
    let record = world.inventory.ips.named("db.alpha.net.alpha.ovn").unwrap().spec.clone();
    assert_eq!((&*record.pod_name, &*record.node_name), ("db", "w1"));
    for pod in ["virt-launcher-db-1", "virt-launcher-db-2"] {
        let mut pods = world.inventory.pods.iter().filter(|(key, _)| key.name == pod);
        let annotations = pods.next().unwrap().1.object.metadata.annotations.clone().unwrap();
        assert_eq!(annotations["net.alpha.ovn.kubernetes.io/ip_address"], "10.100.0.3");
    }
    // The machine keeps its address when its first pod is gone.
    let mut later = read(&format!("{}{}", tenant(), launcher("virt-launcher-db-2", "w2")));
    later.ips.clone_from(&world.inventory.ips);
    world.apply(later);
    assert_eq!(port(&world, "db.alpha.net.alpha.ovn"), own);
    let record = world.inventory.ips.named("db.alpha.net.alpha.ovn").unwrap().spec.clone();
    assert_eq!(record.node_name, "w2");
}
