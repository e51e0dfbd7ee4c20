//! Networks and ranges that conflict.

use patchbay_resources::object::Time;
use serde_json::json;

use super::bed::{FINE, TestBed, range};

#[test]
fn the_condition_has_the_first_cause_and_the_others_are_warnings() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({"subnets": "192.168.7.0/24/26"}))
        .network("blue", 2, json!({"subnets": "192.168.7.0/25/26"}))
        .connect("c", &range("192.168.0.0/16", 24));
    let warnings = bed.settle();
    let range = "ClusterNetworkConnect.connectSubnets with subnets [192.168.0.0/16]";
    let head =
        "selected networks overlap with cluster network connect subnets: network cluster_udn_";
    assert_eq!(
        bed.message("c"),
        format!(
            "validation failed for CNC c: {head}blue with subnets [192.168.7.0/25/26] and {range}"
        )
    );
    assert_eq!(
        warnings,
        [
            format!("CNC c: another reason why it is not accepted: {head}red with subnets [192.168.7.0/24/26] and {range}"),
            "CNC c: another reason why it is not accepted: can not connect selected networks: selected networks have \
             overlapping subnets: network cluster_udn_blue with subnets [192.168.7.0/25] and network \
             cluster_udn_red with subnets [192.168.7.0/24]"
                .to_owned(),
        ]
    );
    assert_eq!((bed.key("c"), bed.subnets("c")), (None, None));
}

#[test]
fn the_connect_that_has_the_networks_keeps_them() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("later", &range("192.168.0.0/16", 24));
    bed.settle();
    bed.connect("earlier", &range("192.168.0.0/20", 24)).settle();
    let conflict = "cross-validation failed for CNC earlier: connectSubnets overlap detected between CNC earlier and CNC later which both select networks [layer3_1]";
    assert_eq!(bed.message("earlier"), conflict);
    // A restart does not change this.
    bed.restart().settle();
    assert_eq!(bed.message("earlier"), conflict);
    assert_eq!(bed.message("later"), FINE);
    bed.connects.remove("later");
    bed.settle();
    assert_eq!(bed.message("earlier"), FINE);
}

#[test]
fn networks_that_a_later_connect_releases_are_available_in_the_same_reconcile() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("b", &range("192.168.0.0/16", 24));
    bed.settle();
    bed.connect("a", &range("192.168.0.0/16", 24))
        .select_namespaces("b", &json!({"team": "nobody"}));
    bed.settle();
    assert_eq!(bed.message("a"), FINE);
    assert_eq!(bed.subnets("b"), Some("{}"));
}

#[test]
fn of_two_connects_that_select_a_new_network_the_older_one_gets_it() {
    let mut bed = TestBed::new();
    bed.connect("young", &range("192.168.0.0/20", 24))
        .connect("z-old", &range("192.168.0.0/16", 24));
    for (name, age) in [("young", "2026-01-02T00:00:00Z"), ("z-old", "2026-01-01T00:00:00Z")] {
        let object = bed.connects.get_mut(name).unwrap();
        object.metadata.creation_timestamp = Some(Time(age.parse().unwrap()));
    }
    bed.settle();
    assert_eq!([bed.key("z-old"), bed.key("young")], [Some("16715779"), Some("16715780")]);
    bed.network("red", 1, json!({})).settle();
    assert_eq!(bed.message("z-old"), FINE);
    assert_eq!(
        bed.message("young"),
        "cross-validation failed for CNC young: connectSubnets overlap detected between CNC young and CNC z-old which both select networks [layer3_1]"
    );
}
