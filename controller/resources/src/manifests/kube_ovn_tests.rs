//! Tests of the decoding of Kube-OVN's objects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::object::Object as _;
use crate::object::kube_ovn::{
    IP, IPPool, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, RouterLBRule,
    SecurityGroup, Subnet, SwitchLBRule, Vip, Vlan, Vpc, VpcDns,
};

/// Every field of the definitions.
const ALL_FIELDS: &str = include_str!("kube_ovn_fields.yaml");

/// Decodes manifests from the standard input.
fn read(yaml: &str) -> Inventory {
    read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap()
}

/// Problems of refused objects.
fn problems(yaml: &str) -> Vec<String> {
    let refused = read(yaml).refused.into_iter();
    let problems = refused.flat_map(|object| object.problems);
    problems.map(|problem| problem.to_string()).collect()
}

/// The only object of a kind, as JSON.
fn only<T: InventoryKind + serde::Serialize>(inventory: &Inventory) -> Value {
    let mut objects = inventory.objects::<T>().iter();
    let (_, sourced) = objects.next().unwrap();
    assert!(objects.next().is_none());
    json!(sourced.object)
}

#[test]
fn every_field_is_read_and_written() {
    let inventory = read(ALL_FIELDS);
    assert_eq!(problems(ALL_FIELDS), Vec::<String>::new());
    assert!(inventory.warnings.is_empty(), "{:?}", inventory.warnings);
    let written = [
        only::<IP>(&inventory),
        only::<OvnDnatRule>(&inventory),
        only::<OvnEip>(&inventory),
        only::<OvnFip>(&inventory),
        only::<OvnSnatRule>(&inventory),
        only::<ProviderNetwork>(&inventory),
        only::<Subnet>(&inventory),
        only::<Vlan>(&inventory),
        only::<Vpc>(&inventory),
        only::<SwitchLBRule>(&inventory),
        only::<RouterLBRule>(&inventory),
        only::<SecurityGroup>(&inventory),
        only::<Vip>(&inventory),
        only::<IPPool>(&inventory),
        only::<VpcDns>(&inventory),
    ];
    let documents: Vec<&str> = ALL_FIELDS.split("---\n").skip(1).collect();
    assert_eq!(documents.len(), written.len());
    for (document, written) in documents.into_iter().zip(written) {
        let read: Value = serde_saphyr::from_str(document).unwrap();
        assert_eq!(leaves(&read), leaves(&written));
    }
}

/// Values of an object by the path of their field.
fn leaves(json: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), json)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(members) => {
                let members = members.iter();
                open.extend(members.map(|(key, value)| (format!("{path}.{key}"), value)));
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(index, value)| (format!("{path}[{index}]"), value)));
            }
            leaf => {
                found.insert(path, leaf.clone());
            }
        }
    }
    found
}

#[test]
fn unknown_fields_and_wrong_types_are_refused_with_their_lines() {
    let refused = problems(
        "
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: alpha-vpc}
spec:
  enableExternals: true
  staticRoutes:
  - cidr: 0.0.0.0/0
    nexthop: 10.0.0.1
---
apiVersion: kubeovn.io/v1
kind: OvnDnatRule
metadata: {name: web}
spec: {externalPort: 443}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: a, namespace: b}
",
    );
    assert_eq!(
        refused,
        [
            "standard input:6 (document 1): Vpc alpha-vpc: spec.enableExternals: unknown field",
            "standard input:9 (document 1): Vpc alpha-vpc: spec.staticRoutes[0].nexthop: unknown field",
            "standard input:14 (document 2): OvnDnatRule web: spec.externalPort: expected a \
             text, found the number 443; quote the value",
            "standard input:18 (document 3): Subnet b/a: metadata.namespace: Forbidden: not allowed \
             on this kind",
        ]
    );
}

#[test]
fn values_outside_of_the_definitions_are_refused() {
    let of = |kind: &str, spec: &str| {
        let object = format!(
            "{{apiVersion: kubeovn.io/v1, kind: {kind}, metadata: {{name: a}}, spec: {spec}}}"
        );
        let problems = problems(&object).into_iter();
        let messages = problems.map(|text| text.split(": ").skip(2).collect::<Vec<_>>().join(": "));
        messages.collect::<Vec<String>>()
    };
    let nothing = Vec::<String>::new();
    assert_eq!(of("Vlan", "{id: 0, provider: p}"), nothing);
    assert_eq!(of("Vlan", "{id: 4095, provider: ''}"), nothing);
    assert_eq!(
        of("Vlan", "{id: 4096, vlanId: -1, provider: p}"),
        [
            "spec.id: should be less than or equal to 4095",
            "spec.vlanId: should be greater than or equal to 0"
        ]
    );
    assert_eq!(of("Vlan", "{id: 5}"), ["spec: the field provider is missing"]);
    assert_eq!(of("ProviderNetwork", "{defaultInterface: data.222}"), nothing);
    assert_eq!(
        of("ProviderNetwork", "{excludeNodes: [c1]}"),
        ["spec: the field defaultInterface is missing"]
    );
    assert_eq!(
        of(
            "ProviderNetwork",
            "{defaultInterface: a/b, customInterfaces: [{interface: abcdefghijklmnop}]}"
        ),
        [
            r"spec.defaultInterface: should match '^[^/\s]+$'",
            "spec.customInterfaces[0].interface: should be at most 15 chars long"
        ]
    );
}

#[test]
fn null_is_as_absent() {
    let inventory = read(
        "
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: a}
spec: {vpc: null, enableLb: null, excludeIps: null, cidrBlock: 10.0.0.0/24}
status: null
",
    );
    assert!(inventory.refused.is_empty(), "{:?}", inventory.refused);
    let subnet = inventory.subnets.named("a").unwrap();
    assert_eq!(subnet.spec.vpc, "");
    assert_eq!(subnet.spec.enable_lb, None);
    assert_eq!(subnet.spec.cidr_block, "10.0.0.0/24");
    assert_eq!(subnet.status, None);
}

#[test]
fn a_status_is_kept_and_one_that_cannot_be_read_is_dropped() {
    let eip = |ready: &str| {
        let inventory = read(&format!(
            "{{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {{name: a}}, spec: {{}}, status: \
             {{ready: {ready}, v4Ip: 10.0.0.1, later: 1}}}}"
        ));
        let eip = inventory.ovn_eips.named("a").unwrap().clone();
        eip.status.map(|status| status.v4_ip)
    };
    assert_eq!(eip("true").as_deref(), Some("10.0.0.1"));
    assert_eq!(eip("word"), None);
}

#[test]
fn other_kinds_of_the_group_are_ignored_with_a_warning() {
    let inventory = read(
        "{apiVersion: kubeovn.io/v1, kind: QoSPolicy, metadata: {name: a}, spec: {shared: true}}",
    );
    let warnings: Vec<String> = inventory.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings[0].contains("patchbay does not use kind QoSPolicy of kubeovn.io/v1"),
        "{warnings:?}"
    );
}

#[test]
fn names_of_api_paths_are_those_of_the_definitions() {
    assert_eq!(ProviderNetwork::PLURAL, "provider-networks");
    assert_eq!(OvnSnatRule::PLURAL, "ovn-snat-rules");
    assert_eq!(IP::api_version(), "kubeovn.io/v1");
}

#[test]
fn objects_of_the_platform_are_read() {
    let inventory = read(
        "
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: pool, namespace: metallb}
spec: {addresses: [192.0.2.0/28], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: peer, namespace: metallb}
spec: {peerAddress: 192.0.2.1}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/12]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-ovn-controller, namespace: kube-system}
spec: {template: {spec: {containers: [{command: [/start], args: [--enable-lb=false]}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: kube-system}
data: {key: value}
immutable: true
",
    );
    assert_eq!(inventory.refused, []);
    assert!(inventory.warnings.is_empty(), "{:?}", inventory.warnings);
    let (_, pool) = inventory.ip_address_pools.iter().next().unwrap();
    assert_eq!(pool.object.spec.addresses, ["192.0.2.0/28"]);
    assert_eq!(pool.object.spec.rest["autoAssign"], false);
    let (_, deployment) = inventory.deployments.iter().next().unwrap();
    let arguments: Vec<&str> = deployment.object.arguments().collect();
    assert_eq!(arguments, ["/start", "--enable-lb=false"]);
    assert_eq!(inventory.bgp_peers.iter().count(), 1);
    assert_eq!(inventory.service_cidrs.iter().count(), 1);
    assert_eq!(inventory.config_maps.iter().count(), 1);
}
