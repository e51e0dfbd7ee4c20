//! Addresses that are allocated, kept, requested and refused.

use patchbay_model::mac_address;
use serde_json::json;

use crate::world::{
    LAYER3, allocate, key, of_all_zones, of_zone, pod, problems, put, put_objects, zone, zone_of,
};

#[test]
fn a_pod_waits_for_an_address_and_holds_no_other_back() {
    let mut zone = zone();
    let mut allocator = of_zone();
    // A node has the addresses .3 to .6 of its subnet.
    for name in ["a", "b", "c", "d", "e"] {
        put(&mut zone, &pod("blue", name, "n1"));
    }
    let given = allocate(&mut allocator, &mut zone);
    assert_eq!(given.first().unwrap(), "blue/a 10.10.0.3/29");
    assert_eq!(given.last().unwrap(), "blue/d 10.10.0.6/29");
    assert_eq!(
        problems(&allocator),
        ["Pod blue/e: network blue_l3: no address is left in 10.10.0.0/29"]
    );
    zone.remove_pod(&key("blue", "b"));
    assert_eq!(allocate(&mut allocator, &mut zone), ["blue/e 10.10.0.4/29"]);
    assert!(problems(&allocator).is_empty());
}

#[test]
fn an_annotation_that_cannot_be_read_is_not_overwritten() {
    let mut zone = zone();
    let mut broken = pod("blue", "a", "n1");
    broken["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = json!("{");
    put(&mut zone, &broken);
    assert!(allocate(&mut of_zone(), &mut zone).is_empty());
}

#[test]
fn addresses_of_a_layer3_network_have_the_order_of_the_nodes_subnets() {
    const IPV6_FIRST: &str = r#"{"cniVersion":"1.1.0","name":"blue_l3","netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/29,fd10::/48/64","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#;
    let mut zone = zone_of(IPV6_FIRST, r#"["fd10::/64","10.10.0.0/29"]"#);
    put(&mut zone, &pod("blue", "a", "n1"));
    allocate(&mut of_zone(), &mut zone);
    let pod = zone.pod(&key("blue", "a")).unwrap();
    let given = serde_json::to_value(pod.networks.get("blue/l3").unwrap()).unwrap();
    let route = |dest: &str, next_hop: &str| json!({"dest": dest, "nextHop": next_hop});
    assert_eq!(
        given,
        json!({
            "ip_addresses": ["fd10::3/64", "10.10.0.3/29"],
            "mac_address": mac_address("fd10::3".parse().unwrap()),
            "gateway_ips": ["fd10::1", "10.10.0.1"],
            "routes": [
                route("fd10::/48", "fd10::1"),
                route("fd99::/64", "fd10::1"),
                route("10.10.0.0/16", "10.10.0.1"),
                route("10.96.0.0/16", "10.10.0.1"),
                route("100.65.0.0/16", "10.10.0.1"),
            ],
            "role": "primary",
        })
    );
}

#[test]
fn a_completed_pod_gives_its_address_back_as_late_as_possible() {
    let mut zone = zone();
    let mut allocator = of_zone();
    let mut first = pod("blue", "a", "n1");
    put(&mut zone, &first);
    assert_eq!(allocate(&mut allocator, &mut zone), ["blue/a 10.10.0.3/29"]);
    first["status"]["phase"] = json!("Succeeded");
    put(&mut zone, &first);
    put(&mut zone, &pod("blue", "b", "n1"));
    assert_eq!(allocate(&mut allocator, &mut zone), ["blue/b 10.10.0.4/29"]);
    // The last address is not known after a restart.
    put(&mut zone, &pod("blue", "c", "n1"));
    assert_eq!(allocate(&mut of_zone(), &mut zone), ["blue/c 10.10.0.3/29"]);
}

#[test]
fn a_network_that_is_made_again_begins_with_its_first_address() {
    const OTHER: &str = r#"{"cniVersion":"1.1.0","name":"blue_other","netAttachDefName":"blue/l3","role":"primary","subnets":"10.11.0.0/16/29","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#;
    let mut zone = zone();
    let mut allocator = of_zone();
    put(&mut zone, &pod("blue", "a", "n1"));
    assert_eq!(allocate(&mut allocator, &mut zone), ["blue/a 10.10.0.3/29"]);
    zone.remove_pod(&key("blue", "a"));
    for network in [OTHER, LAYER3] {
        put_objects(&mut zone, network, r#"["10.10.0.0/29"]"#);
        assert_eq!(allocate(&mut allocator, &mut zone), [""; 0]);
    }
    put(&mut zone, &pod("blue", "b", "n1"));
    assert_eq!(allocate(&mut allocator, &mut zone), ["blue/b 10.10.0.3/29"]);
}

#[test]
fn a_zone_allocates_for_its_own_pods_in_layer3_networks() {
    let mut zone = zone();
    put(&mut zone, &pod("blue", "here", "n1"));
    put(&mut zone, &pod("blue", "there", "n2"));
    put(&mut zone, &pod("green", "layer2", "n1"));
    put(&mut zone, &pod("red", "waits", "n1"));
    assert_eq!(allocate(&mut of_zone(), &mut zone.clone()), ["blue/here 10.10.0.3/29"]);
    assert_eq!(
        allocate(&mut of_all_zones(), &mut zone),
        ["blue/here 10.10.0.3/29", "blue/there 10.10.0.11/29"]
    );
}

#[test]
fn a_primary_layer3_network_grants_a_mac_address_only() {
    let mut zone = zone();
    let mut requesting = pod("blue", "e", "n1");
    let element = json!([{"namespace": "ovn-kubernetes", "name": "default", "ips": ["10.10.0.5/29"],
        "mac": "02:00:00:00:00:05", "default-route": ["10.10.0.6"]}]);
    requesting["metadata"]["annotations"]["v1.multus-cni.io/default-network"] =
        json!(element.to_string());
    put(&mut zone, &requesting);
    let mut allocator = of_zone();
    assert_eq!(allocate(&mut allocator, &mut zone), ["blue/e 10.10.0.3/29"]);
    let given = zone.pod(&key("blue", "e")).unwrap().networks.get("blue/l3").unwrap();
    assert_eq!(given.mac, "02:00:00:00:00:05");
    assert_eq!(given.gateways, ["10.10.0.1".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn a_pod_with_one_address_requests_one_gateway() {
    const SECONDARY: &str = r#"{"cniVersion":"1.1.0","name":"blue_l3","netAttachDefName":"blue/l3","role":"secondary","subnets":"10.10.0.0/16/29","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#;
    for (gateways, given) in [
        (json!(["10.10.0.6"]), &["blue/a 10.10.0.3/29"][..]),
        (json!(["10.10.0.6", "fd10::6"]), &[]),
    ] {
        let mut zone = zone_of(SECONDARY, r#"["10.10.0.0/29"]"#);
        let mut requesting = pod("blue", "a", "n1");
        let element = json!([{"name": "l3", "default-route": gateways}]);
        requesting["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] =
            json!(element.to_string());
        put(&mut zone, &requesting);
        let mut allocator = of_zone();
        assert_eq!(allocate(&mut allocator, &mut zone), given);
        let expected: &[&str] = if given.is_empty() {
            &[
                "Pod blue/a: network blue_l3: bad podNetwork data: single-stack network can only have a single gateway",
            ]
        } else {
            &[]
        };
        assert_eq!(problems(&allocator), expected);
    }
}

#[test]
fn a_request_that_does_not_name_the_default_network_is_refused() {
    for element in [
        json!([{"namespace": "ovn-kubernetes", "name": "other"}]),
        json!([{"name": "default"}]),
        json!([{"namespace": "ovn-kubernetes", "name": "default"},
            {"namespace": "ovn-kubernetes", "name": "default"}]),
        json!("["),
    ] {
        let mut zone = zone();
        let mut requesting = pod("blue", "e", "n1");
        let text = element.as_str().map_or_else(|| element.to_string(), str::to_owned);
        requesting["metadata"]["annotations"]["v1.multus-cni.io/default-network"] = json!(text);
        put(&mut zone, &requesting);
        assert_eq!(allocate(&mut of_zone(), &mut zone), [""; 0], "{element}");
    }
}

#[test]
fn two_pods_with_one_address_are_reported_unless_they_are_one_machine() {
    let annotated = |name: &str, machine: Option<&str>| {
        let mut pod = pod("blue", name, "n1");
        let networks =
            r#"{"blue/l3":{"ip_addresses":["10.10.0.5/29"],"mac_address":"0a:58:0a:0a:00:05"}}"#;
        pod["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] = json!(networks);
        if let Some(machine) = machine {
            pod["metadata"]["labels"]["kubevirt.io"] = json!("virt-launcher");
            pod["metadata"]["annotations"]["kubevirt.io/domain"] = json!(machine);
        }
        pod
    };
    for (machine, count) in [(None, 1), (Some("vm"), 0)] {
        let mut zone = zone();
        put(&mut zone, &annotated("a", machine));
        put(&mut zone, &annotated("b", machine));
        let mut allocator = of_zone();
        assert_eq!(allocate(&mut allocator, &mut zone).len(), 0);
        assert_eq!(problems(&allocator).len(), count, "{:?}", problems(&allocator));
        // The address is free once both are gone.
        zone.remove_pod(&key("blue", "a"));
        for name in ["c", "d", "e", "f"] {
            put(&mut zone, &pod("blue", name, "n1"));
        }
        assert_eq!(allocate(&mut allocator, &mut zone).len(), 3);
        zone.remove_pod(&key("blue", "b"));
        assert_eq!(allocate(&mut allocator, &mut zone), ["blue/f 10.10.0.5/29"]);
    }
}
