//! Annotations that are restored, kept or repaired.

use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};
use patchbay_resources::object::Object;
use serde_json::json;

use super::bed::{FINE, TestBed, range};

#[test]
fn a_lost_or_edited_annotation_is_repaired() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let (key, subnets) = (bed.key("c").map(str::to_owned), bed.subnets("c").map(str::to_owned));
    bed.connects.get_mut("c").unwrap().metadata.annotations = None;
    bed.settle();
    assert_eq!(bed.key("c"), key.as_deref());
    assert_eq!(bed.subnets("c"), subnets.as_deref());
    bed.annotate("c", ConnectSubnetMap::ANNOTATION, "{}").settle();
    assert_eq!(bed.subnets("c"), subnets.as_deref());
}

#[test]
fn a_new_object_of_an_old_name_is_a_new_connect() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    // Deleted and created in between two reconciles.
    bed.connect("c", &range("192.169.0.0/16", 24)).settle();
    assert_eq!(bed.key("c"), Some("16715780"));
    assert_eq!(bed.subnets("c"), Some(r#"{"layer3_1":{"ipv4":"192.169.0.0/24"}}"#));
}

#[test]
fn a_restart_keeps_allocations_even_if_validation_fails() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("lime", 2, json!({"topology": "layer2"}))
        .connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let before = bed.connects["c"].metadata.annotations.clone();
    bed.network("bad", 3, json!({"subnets": "192.168.1.0/24/26"})).restart().settle();
    assert_eq!(bed.connects["c"].metadata.annotations, before);
    assert!(bed.message("c").starts_with("validation failed"));
    bed.remove_network("bad").restart();
    assert_eq!(bed.settle(), [""; 0]);
    assert_eq!(bed.connects["c"].metadata.annotations, before);
    assert_eq!(bed.message("c"), FINE);
}

#[test]
fn annotations_that_cannot_be_restored_are_warnings() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({}))
        .network("blue", 2, json!({}))
        .connect("a", &range("192.168.0.0/16", 24))
        .connect("b", &range("192.169.0.0/16", 24))
        .connect("c", &range("192.170.0.0/16", 24))
        .annotate("a", ROUTER_TUNNEL_KEY, "16715790")
        .annotate("b", ROUTER_TUNNEL_KEY, "16715790")
        .annotate("c", ROUTER_TUNNEL_KEY, "many")
        .annotate(
            "a",
            ConnectSubnetMap::ANNOTATION,
            r#"{"layer3_1":{"ipv4":"10.0.0.0/24"},"layer3_2":{"ipv4":"192.168.9.0/24"},"odd":{"ipv4":"192.168.1.0/24"}}"#,
        )
        .annotate("b", ConnectSubnetMap::ANNOTATION, "[");
    assert_eq!(
        bed.settle(),
        [
            "CNC a: annotation k8s.ovn.org/network-connect-subnet: owner key \"odd\" is not layer3_<id>, layer2_<id> or vpc_<id>",
            "CNC a: annotation k8s.ovn.org/network-connect-subnet: the subnets of layer3_1 are not free or not from connectSubnets",
        ]
    );
    assert_eq!(
        bed.subnets("a"),
        Some(r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"layer3_2":{"ipv4":"192.168.9.0/24"}}"#)
    );
    assert_eq!(bed.message("a"), FINE);
    // An annotation that cannot be read stays as it is, and the status reports it.
    assert_eq!(bed.subnets("b"), Some("["));
    let message = bed.message("b");
    assert!(
        message.starts_with(
            "failed to initialize subnet allocator for CNC b: annotation k8s.ovn.org/network-connect-subnet: "
        ),
        "{message}"
    );
    assert_eq!([bed.key("c"), bed.subnets("c")], [Some("many"), None]);
    assert_eq!(
        bed.message("c"),
        "failed to allocate tunnel key for CNC c: annotation k8s.ovn.org/connect-router-tunnel-key: datapath tunnel key \"many\" is not a number"
    );
    assert_eq!(bed.settle(), [""; 0]);

    bed.annotate("b", ConnectSubnetMap::ANNOTATION, "{}");
    bed.annotate("c", ROUTER_TUNNEL_KEY, "16715800").settle();
    assert_eq!(
        bed.message("b"),
        "failed to allocate tunnel key for CNC b: annotation k8s.ovn.org/connect-router-tunnel-key: key 16715790 is in use by another router"
    );
    assert_eq!(bed.message("c"), FINE);
    assert_eq!(bed.key("c"), Some("16715800"));
}

#[test]
fn keys_of_networks_are_not_allocated() {
    let mut bed = TestBed::new();
    bed.network("lime", 2, json!({"topology": "layer2"}))
        .network("plum", 3, json!({}))
        .connect("c", &range("192.168.0.0/16", 24));
    let annotations = bed.nad("lime").annotations_mut();
    annotations.insert("k8s.ovn.org/tunnel-keys".to_owned(), "[16711685,16715779]".to_owned());
    let annotations = bed.nad("plum").annotations_mut();
    annotations.insert("k8s.ovn.org/tunnel-keys".to_owned(), "16711686".to_owned());
    let warnings = bed.settle();
    assert_eq!(bed.key("c"), Some("16715780"));
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with(
            "network attachment definition plum/plum: annotation k8s.ovn.org/tunnel-keys: "
        ),
        "{warnings:?}"
    );
}

#[test]
fn a_network_with_the_key_of_a_connect_is_reported() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    assert_eq!(bed.message("c"), FINE);
    let key = Some("16715779");
    assert_eq!(bed.key("c"), key);
    bed.network("lime", 2, json!({"topology": "layer2"}));
    bed.nad("lime")
        .annotations_mut()
        .insert("k8s.ovn.org/tunnel-keys".to_owned(), "[16711685,16715779]".to_owned());
    for _ in 0..2 {
        bed.settle();
        assert_eq!(
            bed.message("c"),
            "failed to allocate tunnel key for CNC c: annotation k8s.ovn.org/connect-router-tunnel-key: \
             key 16715779 is in use by another router"
        );
        // The connect works nevertheless, with the new network.
        assert_eq!(bed.key("c"), key);
        let subnets = bed.subnets("c").unwrap();
        assert!(subnets.contains("layer3_1") && subnets.contains("layer2_2"), "{subnets}");
        bed.restart();
    }
    bed.remove_network("lime");
    bed.settle();
    assert_eq!(bed.message("c"), FINE);
    assert_eq!(bed.key("c"), key);
}

#[test]
fn reconciling_twice_changes_nothing() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 24));
    bed.settle();
    let before = bed.connects.clone();
    bed.settle();
    assert_eq!(bed.connects, before);
}

#[test]
fn keys_that_follow_from_network_ids_are_not_allocated() {
    let mut bed = TestBed::new();
    bed.network("red", 1, json!({})).connect("c", &range("192.168.0.0/16", 24));
    bed.annotate("c", ROUTER_TUNNEL_KEY, "16711684").settle();
    assert_eq!(
        bed.message("c"),
        "failed to allocate tunnel key for CNC c: annotation k8s.ovn.org/connect-router-tunnel-key: \
         key 16711684 is in use by another router"
    );
}
