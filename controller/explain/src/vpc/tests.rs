//! Reasons of objects of VPCs, from manifests.

use jiff::Timestamp;
use patchbay_allocate::vpcs;
use patchbay_engine::db::Snapshot;
use patchbay_lint::{Facts, lint};
use patchbay_model::vpc::NatKind;
use patchbay_resources::manifests::read_manifests;
use patchbay_resources::object::Time;
use patchbay_schemas::nb;

use super::{ObjectExplanation, ObjectState, VpcKind, VpcView, explain_vpc};

/// A platform with a gateway node and an external subnet.
const PLATFORM: &str = "
{apiVersion: v1, kind: Node, metadata: {name: w1, labels: {ovn.kubernetes.io/external-gw: 'true'}, annotations: {ovn.kubernetes.io/chassis: c1}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: alpha}}
---
{apiVersion: kubeovn.io/v1, kind: ProviderNetwork, metadata: {name: provider}, spec: {defaultInterface: data}}
---
{apiVersion: kubeovn.io/v1, kind: Vlan, metadata: {name: vlan222}, spec: {id: 222, provider: provider}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: external}, spec: {vlan: vlan222, cidrBlock: 192.0.2.0/29, gateway: 192.0.2.1}}
---
";

/// A tenant with a subnet and a rule.
const TENANT: &str = "
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: v}, spec: {namespaces: [alpha], enableExternal: true, staticRoutes: [{cidr: 0.0.0.0/0, nextHopIP: 192.0.2.1}], policyRoutes: [{priority: 10, match: ip4, action: reroute}]}}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: net, namespace: alpha}, spec: {config: '{\"cniVersion\": \"0.3.1\", \"name\": \"kube-ovn\", \"type\": \"kube-ovn\", \"server_socket\": \"/run/openvswitch/kube-ovn-daemon.sock\", \"provider\": \"net.alpha.ovn\"}'}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: s}, spec: {vpc: v, cidrBlock: 10.0.0.0/24, provider: net.alpha.ovn, namespaces: [alpha]}}
---
{apiVersion: kubeovn.io/v1, kind: OvnSnatRule, metadata: {name: out}, spec: {ovnEip: v-external, vpcSubnet: s}}
---
{apiVersion: v1, kind: Pod, metadata: {name: vm, namespace: alpha, annotations: {k8s.v1.cni.cncf.io/networks: alpha/net}}, spec: {nodeName: w1}}
";

fn explained(text: &str, kind: VpcKind, name: &str) -> ObjectExplanation {
    let manifests = read_manifests(&["-".into()], &mut text.as_bytes()).unwrap();
    let findings = lint(&manifests, &Facts::default(), None).findings;
    let mut inventory = manifests;
    vpcs::resolve(&mut inventory, &Time(Timestamp::UNIX_EPOCH));
    let after = Snapshot::empty(nb::schema());
    let view = VpcView { findings: &findings, problems: &[], before: None, after: &after };
    explain_vpc(kind, name, &inventory, view).unwrap()
}

#[test]
fn an_entry_that_is_left_out_is_named() {
    let found = explained(&format!("{PLATFORM}{TENANT}"), VpcKind::Vpc, "v");
    let entry = found.reasons.iter().find(|one| one.message == "reroute needs an address");
    let entry = entry.unwrap();
    assert_eq!(entry.object, "Vpc v");
    assert_eq!(entry.field.as_deref(), Some("spec.policyRoutes[0].nextHopIP"));
    assert!(found.facts.contains(&"route 0.0.0.0/0 via 192.0.2.1".to_owned()), "{found}");
    let port = "port on Subnet external: 192.0.2.2/29, gateway nodes in their order: w1";
    assert!(found.facts.contains(&port.to_owned()), "{found}");
}

#[test]
fn a_rule_has_the_reasons_of_the_objects_that_it_needs() {
    let kind = VpcKind::Nat(NatKind::Snat);
    let tenant =
        TENANT.replace(", policyRoutes: [{priority: 10, match: ip4, action: reroute}]", "");
    let found = explained(&format!("{PLATFORM}{tenant}"), kind, "out");
    assert_eq!((found.state, &*found.reasons), (ObjectState::Ready, &[][..]));
    let fact = "packets of 10.0.0.0/24 in Vpc v leave as 192.0.2.2".to_owned();
    assert!(found.facts.contains(&fact), "{found}");
    let without =
        PLATFORM.replace("annotations: {ovn.kubernetes.io/chassis: c1}", "annotations: {}");
    let found = explained(&format!("{without}{tenant}"), kind, "out");
    assert_eq!(found.state, ObjectState::NotReady);
    let expected = "no gateway node has a chassis: annotation ovn.kubernetes.io/chassis of Node w1 \
                    -> Node w1: metadata.annotations[ovn.kubernetes.io/chassis]";
    let reasons: Vec<String> = found.reasons.iter().map(ToString::to_string).collect();
    assert!(reasons.iter().any(|reason| reason == expected), "{reasons:#?}");
    let own = "there is no OvnEip v-external -> OvnSnatRule out: spec.ovnEip";
    assert!(reasons.iter().any(|reason| reason == own), "{reasons:#?}");
}

#[test]
fn an_error_of_lint_stops_what_looks_ready() {
    let tagged = PLATFORM.replace("defaultInterface: data", "defaultInterface: data.222");
    let found = explained(&format!("{tagged}{TENANT}"), VpcKind::Eip, "v-external");
    let rules: Vec<&str> =
        found.reasons.iter().map(|one| one.message.split(':').next().unwrap()).collect();
    assert_eq!(rules, ["V1"]);
    assert_eq!(found.reasons[0].field.as_deref(), Some("spec.id"));
    assert!(!found.is_ready());
}

#[test]
fn a_port_names_the_vpc_that_does_not_list_its_namespace() {
    let other = TENANT.replace("namespace: alpha, annotations", "namespace: beta, annotations");
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: beta}}\n---\n";
    let text = format!("{namespace}{PLATFORM}{other}");
    let found = explained(&text, VpcKind::Ip, "vm.beta.net.alpha.ovn");
    let own = "it does not list namespace beta of Pod beta/vm -> Vpc v: spec.namespaces";
    let reasons: Vec<String> = found.reasons.iter().map(ToString::to_string).collect();
    assert!(reasons.iter().any(|reason| reason == own), "{reasons:#?}");
}

#[test]
fn a_subnet_that_overlaps_names_its_range() {
    let second = "---\n{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: t}, spec: {vpc: v, \
                  cidrBlock: 10.0.0.128/25, provider: other.alpha.ovn}}\n";
    let found = explained(&format!("{PLATFORM}{TENANT}{second}"), VpcKind::Subnet, "t");
    let reasons: Vec<String> = found.reasons.iter().map(ToString::to_string).collect();
    let own = "overlaps with Subnet s (10.0.0.0/24) -> Subnet t: spec.cidrBlock";
    assert!(reasons.iter().any(|reason| reason == own), "{reasons:#?}");
    assert_eq!(found.state, ObjectState::NotReady);
}

#[test]
fn an_address_that_is_taken_names_its_field() {
    let eips = "---\n{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: e}, spec: \
                {externalSubnet: external, v4Ip: 192.0.2.1, type: nat}}\n";
    let found = explained(&format!("{PLATFORM}{TENANT}{eips}"), VpcKind::Eip, "e");
    assert_eq!(found.state, ObjectState::NotReady, "{found}");
    assert!(found.reasons.iter().any(|one| one.object == "OvnEip e"), "{found}");
    let unknown = eips.replace("externalSubnet: external", "externalSubnet: nowhere");
    let found = explained(&format!("{PLATFORM}{TENANT}{unknown}"), VpcKind::Eip, "e");
    let expected = ["there is no Subnet nowhere -> OvnEip e: spec.externalSubnet"];
    let own: Vec<_> = found.reasons.iter().filter(|one| !one.message.starts_with('G')).collect();
    assert!(own.iter().any(|one| one.to_string() == expected[0]), "{found}");
}

#[test]
fn an_object_that_is_not_there_has_no_explanation() {
    let manifests = read_manifests(&["-".into()], &mut PLATFORM.as_bytes()).unwrap();
    let after = Snapshot::empty(nb::schema());
    let view = VpcView { findings: &[], problems: &[], before: None, after: &after };
    assert_eq!(explain_vpc(VpcKind::Vpc, "v", &manifests, view), None);
    assert_eq!(VpcKind::Subnet.names(&manifests), ["external"]);
}

/// Machines of a load balancer, and objects about addresses.
const FURTHER: &str = "---
{apiVersion: kubeovn.io/v1, kind: SwitchLBRule, metadata: {name: front}, spec: {vip: 10.0.0.200, namespace: alpha, endpoints: [10.0.0.2], ports: [{port: 80, targetPort: 8080}, {port: 70000}]}}
---
{apiVersion: kubeovn.io/v1, kind: SwitchLBRule, metadata: {name: lost}, spec: {vip: 10.0.0.201, namespace: gone, selector: ['app:web'], ports: [{port: 80}]}}
---
{apiVersion: kubeovn.io/v1, kind: RouterLBRule, metadata: {name: outer}, spec: {ovnEip: gone, vpc: v, namespace: alpha, endpoints: [10.0.0.2], ports: [{port: 80}]}}
---
{apiVersion: kubeovn.io/v1, kind: SecurityGroup, metadata: {name: web}, spec: {ingressRules: [{ipVersion: ipv4, protocol: all, priority: 1, remoteType: address, remoteAddress: nowhere, policy: allow}]}}
---
{apiVersion: kubeovn.io/v1, kind: Vip, metadata: {name: shared}, spec: {namespace: alpha, subnet: s, v4ip: 10.0.0.50}}
---
{apiVersion: kubeovn.io/v1, kind: Vip, metadata: {name: taken}, spec: {namespace: alpha, subnet: s, v4ip: 10.0.0.1}}
---
{apiVersion: kubeovn.io/v1, kind: IPPool, metadata: {name: pool}, spec: {subnet: s, namespaces: [alpha], ips: [10.0.0.2..10.0.0.9, 10.9.9.9]}}
";

#[test]
fn rules_groups_and_addresses_name_what_stops_them() {
    let text = format!("{PLATFORM}{TENANT}{FURTHER}");
    let facts = |kind, name: &str| explained(&text, kind, name).facts;
    let reasons = |kind, name: &str| -> Vec<String> {
        let found = explained(&text, kind, name).reasons;
        found.iter().map(ToString::to_string).collect()
    };
    let front = VpcKind::SwitchRule;
    assert_eq!(
        facts(front, "front"),
        [
            "TCP 10.0.0.200:80 in Vpc v leads to 10.0.0.2:8080",
            "machines on Subnet s are checked for health by 10.0.0.10",
        ]
    );
    let entry = "70000 is not in 1..=65535 -> SwitchLBRule front: spec.ports[1].port";
    assert_eq!(reasons(front, "front"), [entry]);
    assert_eq!(explained(&text, front, "lost").state, ObjectState::NotReady);
    let outer = reasons(VpcKind::RouterRule, "outer");
    let expected = "there is no OvnEip gone -> RouterLBRule outer: spec.ovnEip";
    assert!(outer.iter().any(|reason| reason == expected), "{outer:#?}");
    assert_eq!(
        facts(VpcKind::Group, "web"),
        [
            "tier 0, port group ovn.sg.web",
            "rules about packets in: 0",
            "rules about packets out: 0",
            "ports: none",
        ]
    );
    let rule = "\"nowhere\" is neither an IPv4 address nor a range -> SecurityGroup web: \
                spec.ingressRules[0].remoteAddress";
    assert_eq!(reasons(VpcKind::Group, "web"), [rule]);
    assert_eq!(
        facts(VpcKind::VirtualIp, "shared"),
        ["10.0.0.50 on Subnet s of Vpc v", "ports that may have the address: none"]
    );
    let taken = reasons(VpcKind::VirtualIp, "taken");
    let expected = "Subnet s has no address for it -> Vip taken";
    assert!(taken.iter().any(|reason| reason == expected), "{taken:#?}");
    let outside = "10.9.9.9 is not in 10.0.0.0/24 -> IPPool pool: spec.ips[1]";
    assert_eq!(reasons(VpcKind::IpPool, "pool"), [outside]);
    assert_eq!(
        facts(VpcKind::IpPool, "pool"),
        [
            "addresses of Subnet s: 10.0.0.2..10.0.0.9",
            "namespaces whose pods get them: alpha",
            "IPv4 addresses: 10.0.0.2 used, 7 left",
            "IPv6 addresses: none used, 0 left",
        ]
    );
}
