use serde_json::{Value, json};

use super::*;
use crate::cnc::Connectivity;

fn good() -> Value {
    json!({
        "networkSelectors": [{
            "networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {}},
        }],
        "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}],
        "connectivity": ["PodNetwork"],
    })
}

/// Violations after `value` has been put at `pointer` of a good spec.
fn refused(pointer: &str, value: Value) -> Vec<String> {
    let mut spec = good();
    *spec.pointer_mut(pointer).unwrap() = value;
    let spec: ClusterNetworkConnectSpec = serde_json::from_value(spec).unwrap();
    spec.violations().iter().map(ToString::to_string).collect()
}

fn subnet(cidr: &str, prefix: i32) -> Value {
    json!({"cidr": cidr, "networkPrefix": prefix})
}

#[test]
fn a_good_spec_is_accepted() {
    assert_eq!(refused("/connectivity", json!(["ServiceNetwork", "PodNetwork"])), [""; 0]);
    // Problematic later, but accepted here.
    assert_eq!(refused("/connectSubnets/0", subnet("fd01::/64", 96)), [""; 0]);
    assert_eq!(refused("/connectSubnets/0", subnet("10.0.0.0/8", 24)), [""; 0]);
}

#[test]
fn limits_of_the_schema() {
    let selector = good()["networkSelectors"][0].clone();
    let cases = [
        ("/networkSelectors", json!([]), "spec.networkSelectors: should have at least 1 items"),
        (
            "/networkSelectors",
            json!([selector, selector]),
            r#"spec.networkSelectors[1]: Duplicate value: {"networkSelectionType":"ClusterUserDefinedNetworks"}"#,
        ),
        (
            "/networkSelectors/0/clusterUserDefinedNetworkSelector/networkSelector",
            json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": []}]}),
            "spec.networkSelectors[0].clusterUserDefinedNetworkSelector.networkSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            "/connectSubnets",
            json!([
                subnet("10.0.0.0/16", 24),
                subnet("10.1.0.0/16", 24),
                subnet("10.2.0.0/16", 24)
            ]),
            "spec.connectSubnets: Too many: 3: must have at most 2 items",
        ),
        (
            "/connectSubnets/0",
            subnet("fd01::/64", 128),
            "spec.connectSubnets[0].networkPrefix: should be less than or equal to 127",
        ),
        ("/connectivity", json!([]), "spec.connectivity: should have at least 1 items"),
    ];
    for (pointer, value, expected) in cases {
        assert_eq!(refused(pointer, value), [expected]);
    }
}

#[test]
fn the_rules_in_their_own_words() {
    let cases = [
        (
            "/networkSelectors",
            json!([{"networkSelectionType": "DefaultNetwork"}]),
            vec![
                "spec: Only ClusterUserDefinedNetworks, PrimaryUserDefinedNetworks \
                 or NetworkAttachmentDefinitions of Kube-OVN can be selected",
            ],
        ),
        (
            "/networkSelectors",
            json!([{
                "networkSelectionType": "PrimaryUserDefinedNetworks",
                "clusterUserDefinedNetworkSelector": {"networkSelector": {}},
            }]),
            vec![
                "spec.networkSelectors[0]: Inconsistent selector: both networkSelectionType ClusterUserDefinedNetworks and clusterUserDefinedNetworkSelector have to be set or neither",
                "spec.networkSelectors[0]: Inconsistent selector: both networkSelectionType PrimaryUserDefinedNetworks and primaryUserDefinedNetworkSelector have to be set or neither",
            ],
        ),
        (
            "/connectSubnets",
            json!([subnet("10.0.0.0/16", 24), subnet("10.1.0.0/16", 24)]),
            vec![
                "spec.connectSubnets: When 2 CIDRs are set, they must be from different IP families",
            ],
        ),
        (
            "/connectSubnets",
            json!([subnet("10.0.0.0/16", 24), subnet("fd01::/112", 121)]),
            vec![
                "spec.connectSubnets: For dual-stack, networkPrefix must have matching host bits: (32 - ipv4NetworkPrefix) must equal (128 - ipv6NetworkPrefix)",
            ],
        ),
        (
            "/connectSubnets/0/cidr",
            json!("192.168.0.1/16"),
            vec!["spec.connectSubnets[0].cidr: CIDR must be a valid network address"],
        ),
        (
            "/connectSubnets/0/cidr",
            json!("192.168.0.0"),
            vec!["spec.connectSubnets[0].cidr: CIDR must be a valid network address"],
        ),
        (
            "/connectSubnets/0/networkPrefix",
            json!(16),
            vec![
                "spec.connectSubnets[0]: NetworkPrefix must be longer than the CIDR prefix length",
            ],
        ),
        (
            "/connectSubnets/0/networkPrefix",
            json!(32),
            vec!["spec.connectSubnets[0]: NetworkPrefix must < 32 for ipv4 CIDR"],
        ),
        (
            "/connectivity",
            json!(["PodNetwork", "PodNetwork"]),
            vec!["spec.connectivity: connectivity cannot contain duplicate values"],
        ),
    ];
    for (pointer, value, expected) in cases {
        assert_eq!(refused(pointer, value), expected);
    }
}

#[test]
fn all_violations_are_reported_at_once() {
    let spec = ClusterNetworkConnectSpec::default();
    let fields: Vec<_> = spec.violations().into_iter().map(|violation| violation.field).collect();
    assert_eq!(fields, ["spec.networkSelectors", "spec.connectSubnets", "spec.connectivity"]);
}

#[test]
fn connect_subnets_never_change() {
    let old: ClusterNetworkConnectSpec = serde_json::from_value(good()).unwrap();
    let mut new = old.clone();
    new.connectivity = vec![Connectivity::ServiceNetwork];
    assert_eq!(new.transition_violations(&old), []);
    new.connect_subnets[0].network_prefix = 25;
    assert_eq!(
        new.transition_violations(&old),
        [FieldProblem::new("spec.connectSubnets", "connectSubnets is immutable")]
    );
}
