//! Pictures of small databases in all formats, beside snapshots, and hostile names in them.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::BTreeSet;

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_graph::{Format, PlaceKind, Topology};
use patchbay_schemas::nb::{
    self, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort,
};
use patchbay_schemas::uuids::UuidSource;

/// Two networks, each a switch with machines and a router; the routers are linked by a connect
/// router, and the first switch has a network outside.
fn two_networks(machines: usize, suffix: &str) -> Snapshot {
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
    let mut txn = TxnBuilder::new(&database.snapshot());
    let mut connect = LogicalRouter { name: "connect_router_shop".into(), ..Default::default() };
    for (network, byte) in [("blue", 1), ("red", 2)] {
        let network = format!("{network}{suffix}");
        let ids = [("k8s.ovn.org/network".to_owned(), network.clone())];
        let mut ports = BTreeSet::new();
        for number in 0..machines {
            let port = LogicalSwitchPort {
                name: format!("{network}_vm{number}"),
                addresses: [format!("0a:00:00:00:0{byte}:{number:02x} 10.0.{byte}.{number}")]
                    .into(),
                external_ids: [("pod", "true"), ("namespace", network.as_str())]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
                ..Default::default()
            };
            ports.insert(txn.insert(&port).unwrap());
        }
        let to_router = LogicalSwitchPort {
            name: format!("{network}-r"),
            r#type: "router".into(),
            options: [("router-port".to_owned(), format!("r-{network}"))].into(),
            ..Default::default()
        };
        ports.insert(txn.insert(&to_router).unwrap());
        if byte == 1 {
            let outside = LogicalSwitchPort {
                name: "ln".into(),
                r#type: "localnet".into(),
                options: [("network_name".to_owned(), format!("physnet{suffix}"))].into(),
                tag: Some(7),
                ..Default::default()
            };
            ports.insert(txn.insert(&outside).unwrap());
        }
        let switch = LogicalSwitch {
            name: format!("{network}_switch"),
            ports,
            other_config: [("subnet".to_owned(), format!("10.0.{byte}.0/24"))].into(),
            external_ids: ids.clone().into(),
            ..Default::default()
        };
        txn.insert(&switch).unwrap();
        let port = |name: String, peer: Option<String>| LogicalRouterPort {
            name,
            peer,
            mac: format!("0a:00:00:00:ff:0{byte}"),
            networks: [format!("10.0.{byte}.1/24")].into(),
            ..Default::default()
        };
        let (own, far) = (format!("{network}-to-c"), format!("c-to-{network}"));
        let ports = [
            txn.insert(&port(format!("r-{network}"), None)).unwrap(),
            txn.insert(&port(own.clone(), Some(far.clone()))).unwrap(),
        ];
        connect.ports.insert(txn.insert(&port(far, Some(own))).unwrap());
        let router = LogicalRouter {
            name: format!("{network}_router"),
            ports: ports.into(),
            external_ids: ids.into(),
            ..Default::default()
        };
        txn.insert(&router).unwrap();
    }
    txn.insert(&connect).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    database.snapshot()
}

#[test]
fn devices_have_places_and_links() {
    let snapshot = two_networks(2, "");
    let topology = Topology::new([("zone", &snapshot)]);
    let kinds = |kind| topology.places.iter().filter(|place| place.kind == kind).count();
    let counts = [PlaceKind::Machine, PlaceKind::Switch, PlaceKind::Router, PlaceKind::Connect];
    assert_eq!(counts.map(kinds), [4, 2, 2, 1]);
    assert_eq!(topology.links.len(), 9);
    insta::assert_snapshot!("devices.svg", topology.picture(Format::Svg, "two networks"));
}

#[test]
fn the_way_of_a_packet_is_lit_up_to_its_stop() {
    let snapshot = two_networks(2, "");
    let mut topology = Topology::new([("zone", &snapshot)]);
    let way = ["blue/vm0", "blue_switch", "blue_router", "connect_router_shop"];
    topology.light(way, Some("NetworkPolicy red/deny".to_owned()));
    assert_eq!(topology.lit.places.len(), way.len());
    insta::assert_snapshot!("way.mermaid", topology.picture(Format::Mermaid, "way"));
    insta::assert_snapshot!("way.dot", topology.picture(Format::Dot, "way"));
    let networks = topology.networks();
    assert_eq!(networks.lit.places.len(), 2);
    insta::assert_snapshot!("networks.mermaid", networks.picture(Format::Mermaid, "way"));
}

#[test]
fn many_machines_are_one_place() {
    let snapshot = two_networks(40, "");
    let topology = Topology::new([("zone", &snapshot)]);
    let names: Vec<_> = topology.places.iter().map(|place| place.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "40 machines").count(), 2);
    assert_eq!(topology.places.len(), 8);
}

#[test]
fn boxes_do_not_overlap() {
    for machines in [0, 1, 5, 6] {
        let snapshot = two_networks(machines, "");
        let svg = Topology::new([("zone", &snapshot)]).picture(Format::Svg, "boxes");
        let number = |line: &str, key: &str| -> f64 {
            let (_, rest) = line.split_once(&format!(" {key}=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let boxes: Vec<[f64; 4]> = svg
            .lines()
            .filter(|line| line.starts_with("<rect x="))
            .map(|line| ["x", "y", "width", "height"].map(|key| number(line, key)))
            .collect();
        for (place, one) in boxes.iter().enumerate() {
            for other in &boxes[..place] {
                let apart = |axis: usize| {
                    one[axis] >= other[axis] + other[axis + 2]
                        || other[axis] >= one[axis] + one[axis + 2]
                };
                assert!(apart(0) || apart(1), "{one:?} and {other:?} in\n{svg}");
            }
        }
    }
}

#[test]
fn hostile_names_are_texts_in_all_formats() {
    let hostile = "</text><script>alert(1)</script>\"]; x -->\u{1b}[31m'&";
    let snapshot = two_networks(1, hostile);
    let mut topology = Topology::new([("<zone>", &snapshot)]);
    topology.light(["connect_router_shop"], Some(hostile.to_owned()));
    for format in [Format::Svg, Format::Html, Format::Mermaid, Format::Dot] {
        let picture = topology.picture(format, hostile);
        if format != Format::Dot {
            let scripts = picture.matches("<script").count();
            assert_eq!(scripts, usize::from(format == Format::Html), "{picture}");
            let networks = topology.networks().picture(format, hostile);
            assert_eq!(networks.matches("<script").count(), scripts, "{networks}");
        }
        assert!(!picture.contains('\u{1b}'), "{picture}");
        assert_eq!(picture, topology.picture(format, hostile));
    }
    let dot = topology.picture(Format::Dot, hostile);
    // Each line has one quoted text at most, whose marks are escaped.
    for line in dot.lines().filter(|line| line.contains("label=")) {
        let marks = line.replace("\\\"", "").matches('"').count();
        assert_eq!(marks, 2, "{line}");
    }
}

#[test]
fn an_empty_database_is_a_small_picture() {
    let database = Database::new(nb::schema());
    let topology = Topology::new([("zone", &database.snapshot())]);
    assert!(topology.places.is_empty());
    assert!(topology.picture(Format::Svg, "nothing").contains("viewBox=\"0 0 40 20\""));
    assert!(topology.networks().places.is_empty());
}
