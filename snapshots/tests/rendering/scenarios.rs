//! Northbound databases with every case of the formats. Their UUIDs are equal in all runs.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{
    self, Bfd, GatewayChassis, LogicalRouter, LogicalRouterPolicy, LogicalRouterPolicyAction,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalRouterStaticRoutePolicy, LogicalSwitch,
    LogicalSwitchPort, Nat, NatType,
};
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;

/// Transaction that inserts the rows of a scenario.
pub(crate) struct Rows(TxnBuilder);

impl Rows {
    pub(crate) fn insert<T: TableRow>(&mut self, row: &T) -> Ref<T> {
        self.0.insert(row).expect("the row is of the database's schema")
    }

    pub(crate) fn insert_all<T: TableRow>(&mut self, rows: &[T]) -> BTreeSet<Ref<T>> {
        rows.iter().map(|row| self.insert(row)).collect()
    }
}

/// Builds a database with seeded UUIDs.
pub(crate) fn northbound(seed: u64, fill: impl FnOnce(&mut Rows)) -> Snapshot {
    let mut database = Database::new(nb::schema());
    let mut rows = Rows(TxnBuilder::with_uuids(&database.snapshot(), UuidSource::seeded(seed)));
    fill(&mut rows);
    database.transact(rows.0.finish().operations()).expect("the rows fit together");
    database.snapshot()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Switches and routers with every property that `show` prints.
pub(crate) fn ports() -> Snapshot {
    northbound(1, |rows| {
        let plain = |name: &str| LogicalSwitchPort { name: name.to_owned(), ..Default::default() };
        let ports = [
            plain("bare"),
            LogicalSwitchPort {
                addresses: set(&["0a:58:0a:00:00:01 10.0.0.1 fd00::1", "unknown"]),
                external_ids: map(&[("neutron:port_name", "port-one")]),
                ..plain("aliased")
            },
            LogicalSwitchPort {
                parent_name: Some("bare".to_owned()),
                tag: Some(7),
                addresses: set(&["dynamic"]),
                ..plain("nested")
            },
            LogicalSwitchPort {
                r#type: "router".to_owned(),
                addresses: set(&["router"]),
                options: map(&[("router-port", "rtos"), ("arp_proxy", "x")]),
                ..plain("stor")
            },
            LogicalSwitchPort {
                r#type: "router".to_owned(),
                addresses: set(&["router", "unknown"]),
                ..plain("stor-and-more")
            },
            LogicalSwitchPort {
                external_ids: map(&[("neutron:port_name", "")]),
                ..plain("empty alias")
            },
        ];
        let ports = rows.insert_all(&ports);
        rows.insert(&LogicalSwitch { name: "sw0".to_owned(), ports, ..Default::default() });
        for name in ["both", ""] {
            rows.insert(&LogicalSwitch {
                name: name.to_owned(),
                external_ids: map(&[("neutron:network_name", "net-one")]),
                ..Default::default()
            });
        }
        for name in ["both", "twin", "twin"] {
            rows.insert(&LogicalRouter {
                name: name.to_owned(),
                external_ids: map(&[("neutron:router_name", "router-one")]),
                ..Default::default()
            });
        }
        let ports = router_ports(rows);
        let nat = nats(rows);
        rows.insert(&LogicalRouter { name: "lr0".to_owned(), ports, nat, ..Default::default() });
        rows.insert(&LogicalRouter { name: "lr1".to_owned(), ..Default::default() });
    })
}

fn router_ports(rows: &mut Rows) -> BTreeSet<Ref<LogicalRouterPort>> {
    let mut gateway_chassis = BTreeSet::new();
    for (chassis, priority) in [("hv1", 30), ("hv2", 10), ("hv3", 20), ("hv4", 20)] {
        gateway_chassis.insert(rows.insert(&GatewayChassis {
            name: format!("gateway-{chassis}"),
            chassis_name: chassis.to_owned(),
            priority,
            ..Default::default()
        }));
    }
    let ports = [
        LogicalRouterPort {
            name: "rtos".to_owned(),
            mac: "0a:58:64:80:00:02".to_owned(),
            networks: set(&["fd69::2/127", "100.64.0.2/31"]),
            peer: Some("elsewhere".to_owned()),
            ..Default::default()
        },
        LogicalRouterPort {
            name: "gateway".to_owned(),
            mac: "0a:58:64:80:00:03".to_owned(),
            networks: set(&["100.64.0.3/31"]),
            options: map(&[("route_table", "blue")]),
            gateway_chassis,
            ..Default::default()
        },
    ];
    rows.insert_all(&ports)
}

fn nats(rows: &mut Rows) -> BTreeSet<Ref<Nat>> {
    let nat = |r#type, external_ip: &str, logical_ip: &str| Nat {
        r#type,
        external_ip: external_ip.to_owned(),
        logical_ip: logical_ip.to_owned(),
        ..Default::default()
    };
    let nats = [
        nat(NatType::Snat, "30.0.0.1", "192.168.0.0/24"),
        Nat {
            external_port_range: "1-3000".to_owned(),
            ..nat(NatType::Dnat, "30.0.0.2", "192.168.0.2")
        },
        nat(NatType::DnatAndSnat, "fd01::1", "fd11::1"),
    ];
    rows.insert_all(&nats)
}

fn route(ip_prefix: &str, nexthop: &str) -> LogicalRouterStaticRoute {
    LogicalRouterStaticRoute {
        ip_prefix: ip_prefix.to_owned(),
        nexthop: nexthop.to_owned(),
        ..Default::default()
    }
}

fn router_with_routes(rows: &mut Rows, name: &str, routes: &[LogicalRouterStaticRoute]) {
    let static_routes = rows.insert_all(routes);
    rows.insert(&LogicalRouter { name: name.to_owned(), static_routes, ..Default::default() });
}

/// Static routes of every kind.
pub(crate) fn routes() -> Snapshot {
    northbound(2, |rows| {
        let by_source = |route| LogicalRouterStaticRoute {
            policy: Some(LogicalRouterStaticRoutePolicy::SrcIp),
            ..route
        };
        let by_destination = |route| LogicalRouterStaticRoute {
            policy: Some(LogicalRouterStaticRoutePolicy::DstIp),
            ..route
        };
        let via = |port: &str, route| LogicalRouterStaticRoute {
            output_port: Some(port.to_owned()),
            ..route
        };
        let of = |table: &str, route| LogicalRouterStaticRoute {
            route_table: table.to_owned(),
            ..route
        };
        let with = |options: &[(&str, &str)], route| LogicalRouterStaticRoute {
            options: map(options),
            ..route
        };
        let bfd = rows.insert(&Bfd {
            logical_port: "lrp0".to_owned(),
            dst_ip: "192.168.0.9".to_owned(),
            ..Default::default()
        });
        router_with_routes(
            rows,
            "lr0",
            &[
                route("10.0.0.0/16", "192.168.0.1"),
                route("10.0.0.0/24", "192.168.0.1"),
                by_source(route("10.0.0.0/24", "192.168.0.2")),
                by_destination(via("lrp0", route("10.0.1.0/24", "192.168.0.3"))),
                // Host bits are compared but not printed.
                route("10.0.2.9/24", "192.168.0.3"),
                route("10.0.2.8/24", "192.168.0.4"),
                route("20.0.0.0/24", "192.168.0.7"),
                via("lrp1", route("20.0.0.0/24", "192.168.0.6")),
                via("lrp0", route("20.0.0.0/24", "192.168.0.6")),
                route("20.0.0.0/24", "192.168.0.6"),
                with(
                    &[("ecmp_symmetric_reply", "TRUE")],
                    via("lrp0", route("20.0.0.0/24", "192.168.0.5")),
                ),
                by_source(with(
                    &[("ecmp_symmetric_reply", "false")],
                    route("20.0.0.0/24", "192.168.0.5"),
                )),
                route("30.0.0.0/24", "discard"),
                route("30.0.1.0/255.255.255.0", "not an address"),
                route("30.0.2.0/24", ""),
                route("30.0.3.0/24", "fd00::1"),
                route("not a prefix", "192.168.0.1"),
                LogicalRouterStaticRoute {
                    external_ids: map(&[("ic-learned-route", "")]),
                    bfd: Some(bfd),
                    ..via("lrp0", route("192.168.9.9/32", "192.168.0.9"))
                },
                route("0.0.0.0/0", "192.168.0.254"),
                of("green", route("0.0.0.0/0", "192.168.1.254")),
                of("blue", route("10.0.0.0/24", "192.168.2.1")),
                of("blue", route("10.0.0.0/24", "192.168.2.2")),
                of("blue", route("fd00::/64", "fd01::2")),
                route("fd00::/64", "fd01::1"),
                route("FD00:0:0:1:0:0:0:9/64", "FD01::0:3"),
                by_source(route("fd00::/64", "fd01::4")),
                route("::/0", "fd01::ffff"),
                route("::/0", "fd01::fffe"),
                route("fd02::1/128", "::ffff:1.2.3.4"),
                route("fd02::2", "::102:304"),
                route("a-prefix-too-long-for-the-column", "192.168.0.1"),
                route("fd00:1111:2222:3333:4444:5555:6666:7777/128", "discard"),
            ],
        );
        router_with_routes(
            rows,
            "only-ipv6",
            &[route("::/0", "fe80::1"), of("blue", route("::/0", "fe80::2"))],
        );
        router_with_routes(rows, "empty", &[]);
    })
}

/// Routes with unusual notations of prefixes and next hops.
pub(crate) fn addresses() -> Snapshot {
    let texts = [
        "010.0.0.7/024",
        "300.0.0.1",
        "-1.0.0.1",
        " 10. +1.0.1",
        "10.1.0.0/4294967304",
        "10.2.0.0/-0",
        "10.3.0.0/-8",
        "10.4.0.1/ 16",
        "10.5.0.1 /16",
        "10.6.0.1/16 ",
        "10.7.0.1/255.255. 0.0",
        "10.8.0.1/511.256.0.0",
        "10.9.0.1/255.0.255.0",
        "10.10.0.1/16.0",
        "10.11.0.1/0x10",
        "10.12.0.1/16/16",
        " fd00::1/64",
        "fd01::1 /64",
        "fd02::1/ 64",
        "fd03::1/064",
        "fd04::1/ffff:ffff::",
        "fd05::1/4294967360",
        "fd06::00001",
        "fd07::1%eth0",
        "fd08::1.2.3.4/127",
        "::1.2.3.4",
        "::1.2.3.04",
        "::/0",
    ];
    northbound(5, |rows| {
        let routes: Vec<_> = texts.iter().map(|text| route(text, text)).collect();
        router_with_routes(rows, "lr0", &routes);
    })
}

/// Policies of every kind.
pub(crate) fn policies() -> Snapshot {
    northbound(3, |rows| {
        let policy = |priority, r#match: &str, action| LogicalRouterPolicy {
            priority,
            r#match: r#match.to_owned(),
            action,
            ..Default::default()
        };
        let reroute = |priority, r#match: &str, nexthops: &[&str]| LogicalRouterPolicy {
            nexthops: set(nexthops),
            ..policy(priority, r#match, LogicalRouterPolicyAction::Reroute)
        };
        let mut policies = vec![
            policy(100, "ip4.src == 10.0.0.0/8", LogicalRouterPolicyAction::Allow),
            policy(1004, "ip4.dst == 10.0.0.0/8", LogicalRouterPolicyAction::Drop),
            policy(1004, "ip6.dst == fd00::/64", LogicalRouterPolicyAction::Drop),
            policy(1004, "ip4.dst == 10.0.0.0/9", LogicalRouterPolicyAction::Allow),
            policy(
                7,
                "a match of more than fifty characters that is not cut: ip4.src == 10.0.0.0/8",
                LogicalRouterPolicyAction::Allow,
            ),
            policy(7, "inport == \"größe\"", LogicalRouterPolicyAction::Allow),
            policy(0, "", LogicalRouterPolicyAction::Drop),
            reroute(9001, "inport == \"rtos\" && ip4.dst == 10.128.0.0/14", &["100.88.0.1"]),
            reroute(9002, "ip4", &["100.88.0.10", "100.88.0.9", "100.88.0.1"]),
            reroute(9003, "ip6", &["FD99:0:0:0::5", "fd99::1/64"]),
            reroute(9004, "ip", &["not an address", "100.88.0.1"]),
            LogicalRouterPolicy {
                nexthop: Some("100.88.0.1".to_owned()),
                ..reroute(9005, "ip4", &[])
            },
        ];
        for (priority, count) in (50..).zip([1, 2, 3, 5, 9, 20]) {
            // Names of all lengths, because `ovn-nbctl` orders them by their hash.
            let names = (1..=count).map(|length| "option-of-any-length"[..length].to_owned());
            let options = names.map(|name| (name, "v".to_owned())).collect();
            policies.push(LogicalRouterPolicy {
                options,
                ..reroute(priority, "marked", &["100.88.0.2"])
            });
            policies.push(LogicalRouterPolicy {
                options: map(&[("pkt_mark", "1008")]),
                ..policy(priority, "allowed", LogicalRouterPolicyAction::Allow)
            });
        }
        let policies = rows.insert_all(&policies);
        rows.insert(&LogicalRouter { name: "lr0".to_owned(), policies, ..Default::default() });
        rows.insert(&LogicalRouter { name: "empty".to_owned(), ..Default::default() });
    })
}

/// A router port without networks, which the schema allows since OVN 24.09.
pub(crate) fn port_without_networks() -> Snapshot {
    northbound(4, |rows| {
        let port =
            rows.insert(&LogicalRouterPort { name: "rtos".to_owned(), ..Default::default() });
        rows.insert(&LogicalRouter {
            name: "lr0".to_owned(),
            ports: [port].into(),
            ..Default::default()
        });
    })
}

/// `count` switches and as many routers.
pub(crate) fn many(seed: u64, count: usize) -> Snapshot {
    northbound(seed, |rows| {
        for number in 0..count {
            rows.insert(&LogicalSwitch { name: format!("sw{number}"), ..Default::default() });
            rows.insert(&LogicalRouter { name: format!("lr{number}"), ..Default::default() });
        }
    })
}
