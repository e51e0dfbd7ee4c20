//! Selection of the connected networks.

use serde_json::json;

use super::bed::{FINE, TestBed, range};

#[test]
fn transports_are_tested_on_both_ways_of_selecting() {
    let mut bed = TestBed::new();
    bed.network("flat", 1, json!({"transport": "no-overlay"}))
        .network("fabric", 2, json!({"transport": "evpn"}))
        .network("red", 3, json!({}))
        .connect("c", &range("192.168.0.0/16", 24))
        .connect("n", &range("192.169.0.0/16", 24))
        .select_namespaces("n", &json!({}));
    bed.settle();
    for connect in ["c", "n"] {
        assert_eq!(
            bed.message(connect),
            format!(
                "failed to discover selected networks for CNC {connect}: [network cluster_udn_fabric has transport type evpn that is not supported for networkConnect, network cluster_udn_flat has transport type no-overlay that is not supported for networkConnect]"
            )
        );
    }
    assert_eq!(bed.subnets("n"), Some(r#"{"layer3_3":{"ipv4":"192.169.0.0/24"}}"#));
}

#[test]
fn a_network_without_an_id_is_an_error_only_if_it_could_be_connected() {
    let mut bed = TestBed::new();
    bed.network("fabric", 1, json!({"transport": "evpn"}))
        .network("beside", 2, json!({"role": "secondary"}))
        .network("late", 3, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    for name in ["fabric", "beside", "late"] {
        bed.nad(name).metadata.annotations = None;
    }
    bed.settle();
    assert_eq!(
        bed.message("c"),
        "[failed to discover selected networks for CNC c: network cluster_udn_fabric has transport type evpn that is not supported for networkConnect, failed to allocate subnets for CNC c: network id is invalid for network cluster_udn_late]"
    );
    bed.remove_network("fabric").remove_network("late").settle();
    assert_eq!(bed.message("c"), FINE);
}

#[test]
fn a_namespace_selector_takes_the_whole_network_of_the_namespace() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("blue", 2, json!({}))
        .connect("n", &range("192.168.0.0/16", 24))
        .select_namespaces("n", &json!({"team": "blue"}));
    bed.settle();
    assert_eq!(bed.subnets("n"), Some(r#"{"layer3_2":{"ipv4":"192.168.0.0/24"}}"#));
    // Without its label the namespace is on the default network.
    let namespace = bed.namespaces.get_mut("blue").unwrap();
    namespace
        .metadata
        .labels
        .get_or_insert_default()
        .remove("k8s.ovn.org/primary-user-defined-network");
    bed.settle();
    assert_eq!(bed.subnets("n"), Some("{}"));
}

#[test]
fn a_network_keeps_its_subnets_while_it_cannot_be_read() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("blue", 2, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let before = bed.subnets("c").map(str::to_owned);

    let good = bed.nad("red").clone();
    bed.nad("red").spec.config = Some("{".to_owned());
    let warnings = bed.settle();
    assert_eq!(bed.subnets("c"), before.as_deref());
    // It is a warning, because the connect itself is valid.
    assert_eq!(
        warnings,
        [
            "CNC c: network attachment definition red/red: spec.config: EOF while parsing an object at line 1 column 1"
        ]
    );
    assert_eq!(bed.message("c"), FINE);

    *bed.nad("red") = good.clone();
    bed.nad("red").metadata.annotations = None;
    bed.settle();
    assert_eq!(bed.subnets("c"), before.as_deref());
    assert_eq!(
        bed.message("c"),
        "failed to allocate subnets for CNC c: network id is invalid for network cluster_udn_red"
    );

    *bed.nad("red") = good;
    bed.settle();
    assert_eq!(bed.subnets("c"), before.as_deref());
    assert_eq!(bed.message("c"), FINE);

    // The network has been removed.
    bed.remove_network("red").settle();
    assert_eq!(bed.subnets("c"), Some(r#"{"layer3_2":{"ipv4":"192.168.1.0/24"}}"#));
}

#[test]
fn deselected_networks_are_released_even_if_they_cannot_be_read() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    bed.nad("red").spec.config = Some("{".to_owned());
    bed.nad("red").metadata.labels = None;
    bed.settle();
    assert_eq!(bed.subnets("c"), Some("{}"));
    assert_eq!(bed.message("c"), FINE);
}
