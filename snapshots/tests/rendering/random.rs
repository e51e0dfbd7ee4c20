//! Random northbound databases, whose texts are compared with those of `ovn-nbctl`.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_schemas::nb::{
    Bfd, GatewayChassis, LoadBalancer, LoadBalancerProtocol, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPolicyAction, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalRouterStaticRoutePolicy, LogicalSwitch, LogicalSwitchPort, Nat, NatType,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use crate::scenarios::{Rows, northbound};
use crate::{RELEASES, assert_equals_releases};

/// Number of compared databases. They take about ten seconds.
const CASES: u32 = 40;

/// Valid and invalid addresses and prefixes.
fn address() -> impl Strategy<Value = String> {
    let octet = prop_oneof![
        4 => "[0-9]{1,2}",
        1 => "[0-9]{1,4}",
    ];
    let ipv4 = vec(octet, 4).prop_map(|octets| octets.join("."));
    let repeated = select(vec!["10.0.0.1", "10.0.0.2", "10.0.1.1", "fd00::1", "FD00:0::1", "::"]);
    let group = "[0-9a-fA-F]{0,4}";
    let ipv6 = vec(group, 2..=8).prop_map(|groups| groups.join(":"));
    let mapped = (vec("[0-9a-f]{1,3}", 0..=6), "[0-9]{1,3}(\\.[0-9]{1,3}){3}")
        .prop_map(|(groups, tail)| format!("{}::{tail}", groups.join(":")));
    let address = prop_oneof![
        4 => ipv4,
        4 => repeated.prop_map(str::to_owned),
        3 => ipv6,
        1 => mapped,
        1 => "[0-9a-fx:./ +%-]{0,12}",
    ];
    let mask = prop_oneof![
        4 => Just(String::new()),
        4 => (0..=33_u8).prop_map(|len| format!("/{len}")),
        2 => (0..=130_u8).prop_map(|len| format!("/{len}")),
        1 => select(vec!["/255.255.0.0", "/255.0.255.0", "/ffff::", "/024", "/+8", "/ 8", "/8 ", "/", "/8/8", "/-1", "/0x8", "/4294967304"])
            .prop_map(str::to_owned),
    ];
    (address, mask).prop_map(|(address, mask)| address + &mask)
}

/// Names, some with characters that need escapes or several bytes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z0-9_.-]{1,12}",
        1 => "[ -~]{0,20}",
        1 => "[à-ÿ\u{4e00}-\u{4e10}]{1,4}",
    ]
}

fn options(keys: &'static [&'static str]) -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = prop_oneof![select(keys).prop_map(str::to_owned), name()];
    let value =
        prop_oneof![select(vec!["true", "TRUE", "false", "", "1"]).prop_map(str::to_owned), name()];
    btree_map(key, value, 0..4)
}

fn route() -> impl Strategy<Value = LogicalRouterStaticRoute> {
    let nexthop = prop_oneof![
        4 => address(),
        1 => Just("discard".to_owned()),
        1 => Just(String::new()),
        1 => name(),
    ];
    let policy = select(vec![
        None,
        Some(LogicalRouterStaticRoutePolicy::SrcIp),
        Some(LogicalRouterStaticRoutePolicy::DstIp),
    ]);
    let table = prop_oneof![3 => Just(String::new()), 1 => "[a-c]", 1 => name()];
    (
        address(),
        nexthop,
        policy,
        table,
        option::of(name()),
        options(&["ecmp_symmetric_reply"]),
        options(&["ic-learned-route"]),
    )
        .prop_map(
            |(ip_prefix, nexthop, policy, route_table, output_port, options, external_ids)| {
                LogicalRouterStaticRoute {
                    ip_prefix,
                    nexthop,
                    policy,
                    route_table,
                    output_port,
                    options,
                    external_ids,
                    ..Default::default()
                }
            },
        )
}

fn policy() -> impl Strategy<Value = LogicalRouterPolicy> {
    let action = select(vec![
        LogicalRouterPolicyAction::Allow,
        LogicalRouterPolicyAction::Drop,
        LogicalRouterPolicyAction::Reroute,
    ]);
    let priority = prop_oneof![3 => 0..3_i64, 1 => 0..=32767_i64];
    (
        priority,
        name(),
        action,
        btree_set(address(), 0..4),
        option::of(address()),
        options(&["pkt_mark"]),
        option::of(prop_oneof![2 => "[ab]", 1 => Just(String::new())]),
        option::of(name()),
    )
        .prop_map(
            |(priority, r#match, action, nexthops, nexthop, options, chain, jump_chain)| {
                LogicalRouterPolicy {
                    priority,
                    r#match,
                    action,
                    nexthops,
                    nexthop,
                    options,
                    chain,
                    jump_chain,
                    ..Default::default()
                }
            },
        )
}

fn nat() -> impl Strategy<Value = Nat> {
    let r#type = select(vec![NatType::Snat, NatType::Dnat, NatType::DnatAndSnat]);
    (
        r#type,
        address(),
        "[0-9-]{0,5}",
        address(),
        prop_oneof![Just(String::new()), name()],
        option::of(Just("0a:58:0a:00:00:01".to_owned())),
        option::of(name()),
    )
        .prop_map(
            |(
                r#type,
                external_ip,
                external_port_range,
                logical_ip,
                r#match,
                external_mac,
                logical_port,
            )| Nat {
                r#type,
                external_ip,
                external_port_range,
                logical_ip,
                r#match,
                external_mac,
                logical_port,
                ..Default::default()
            },
        )
}

/// Virtual addresses, with and without brackets and ports.
fn vip() -> impl Strategy<Value = String> {
    let port = prop_oneof![
        3 => Just(String::new()),
        3 => (0..=70_000_u32).prop_map(|port| format!(":{port}")),
        1 => "[:0-9 +a-f]{0,4}",
    ];
    (address(), port, any::<bool>()).prop_map(|(address, port, has_brackets)| {
        if has_brackets { format!("[{address}]{port}") } else { address + &port }
    })
}

fn load_balancer() -> impl Strategy<Value = LoadBalancer> {
    let protocol =
        select(vec![None, Some(LoadBalancerProtocol::Tcp), Some(LoadBalancerProtocol::Udp)]);
    // A name that is cut inside a character is no text.
    let name = prop_oneof![3 => "[a-c]", 2 => "[ -~]{0,20}", 1 => "[à-ÿ]{1,4}"];
    let vips = btree_map(vip(), prop_oneof![Just(String::new()), vip()], 0..5);
    (name, protocol, vips, options(&["template"])).prop_map(|(name, protocol, vips, options)| {
        LoadBalancer { name, protocol, vips, options, ..Default::default() }
    })
}

fn router_port() -> impl Strategy<Value = (LogicalRouterPort, BTreeSet<(i64, String)>)> {
    (
        name(),
        btree_set(prop_oneof![address(), name()], 1..4),
        options(&["route_table"]),
        btree_set((0..=32767_i64, name()), 0..4),
    )
        .prop_map(|(mac, networks, options, chassis)| {
            let port = LogicalRouterPort { mac, networks, options, ..Default::default() };
            (port, chassis)
        })
}

fn switch_port() -> impl Strategy<Value = LogicalSwitchPort> {
    let address = prop_oneof![Just("router".to_owned()), Just("unknown".to_owned()), name()];
    (
        select(vec!["", "router", "remote", "localnet"]),
        option::of(name()),
        option::of(1..=4095_i64),
        btree_set(address, 0..3),
        options(&["router-port"]),
        options(&["neutron:port_name"]),
    )
        .prop_map(|(r#type, parent_name, tag, addresses, options, external_ids)| {
            LogicalSwitchPort {
                r#type: r#type.to_owned(),
                parent_name,
                tag,
                addresses,
                options,
                external_ids,
                ..Default::default()
            }
        })
}

#[derive(Clone, Debug)]
struct Router {
    name: String,
    external_ids: BTreeMap<String, String>,
    ports: Vec<(LogicalRouterPort, BTreeSet<(i64, String)>)>,
    nats: Vec<Nat>,
    routes: Vec<LogicalRouterStaticRoute>,
    policies: Vec<LogicalRouterPolicy>,
    balancers: Vec<LoadBalancer>,
}

fn router() -> impl Strategy<Value = Router> {
    (
        name(),
        options(&["neutron:router_name"]),
        vec(router_port(), 0..4),
        vec(nat(), 0..4),
        vec(route(), 0..12),
        vec(policy(), 0..8),
        vec(load_balancer(), 0..6),
    )
        .prop_map(|(name, external_ids, ports, nats, routes, policies, balancers)| Router {
            name,
            external_ids,
            ports,
            nats,
            routes,
            policies,
            balancers,
        })
}

type Switch = (String, BTreeMap<String, String>, Vec<LogicalSwitchPort>);

fn switch() -> impl Strategy<Value = Switch> {
    (name(), options(&["neutron:network_name"]), vec(switch_port(), 0..5))
}

fn add_router(rows: &mut Rows, number: usize, router: &Router) {
    let mut ports = BTreeSet::new();
    for (place, (port, chassis)) in router.ports.iter().enumerate() {
        let name = format!("{}-{number}-{place}", router.name);
        let mut gateway_chassis = BTreeSet::new();
        for (order, (priority, chassis_name)) in chassis.iter().enumerate() {
            gateway_chassis.insert(rows.insert(&GatewayChassis {
                name: format!("{name}-{order}"),
                chassis_name: chassis_name.clone(),
                priority: *priority,
                ..Default::default()
            }));
        }
        ports.insert(rows.insert(&LogicalRouterPort { name, gateway_chassis, ..port.clone() }));
    }
    let bfd = rows.insert(&Bfd { logical_port: format!("{number}"), ..Default::default() });
    let first_port = ports.first().copied();
    let mut place = 0;
    // One of three rows each has what refers to other rows.
    let mut is_special = || {
        place += 1;
        place % 3 == 0
    };
    let routes = router.routes.iter().map(|route| LogicalRouterStaticRoute {
        bfd: is_special().then_some(bfd),
        ..route.clone()
    });
    let static_routes = rows.insert_all(&routes.collect::<Vec<_>>());
    let policies = router.policies.iter().map(|policy| LogicalRouterPolicy {
        bfd_sessions: is_special().then_some(bfd).into_iter().collect(),
        output_port: first_port.filter(|_| is_special()),
        ..policy.clone()
    });
    let policies = rows.insert_all(&policies.collect::<Vec<_>>());
    let nats = router
        .nats
        .iter()
        .map(|nat| Nat { gateway_port: first_port.filter(|_| is_special()), ..nat.clone() });
    let nat = rows.insert_all(&nats.collect::<Vec<_>>());
    let load_balancer = rows.insert_all(&router.balancers);
    rows.insert(&LogicalRouter {
        name: format!("r{number}"),
        external_ids: router.external_ids.clone(),
        ports,
        nat,
        static_routes,
        policies,
        load_balancer,
        ..Default::default()
    });
}

fn add_switch(rows: &mut Rows, number: usize, (name, external_ids, ports): &Switch) {
    let mut held = BTreeSet::new();
    for (place, port) in ports.iter().enumerate() {
        held.insert(rows.insert(&LogicalSwitchPort {
            name: format!("{name}-{number}-{place}"),
            ..port.clone()
        }));
    }
    rows.insert(&LogicalSwitch {
        name: name.clone(),
        external_ids: external_ids.clone(),
        ports: held,
        ..Default::default()
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        // All runs are equal. Shrinking is limited because each step starts a server.
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_databases_are_rendered_as_by_ovn_nbctl(
        seed: u64,
        routers in vec(router(), 1..6),
        switches in vec(switch(), 0..4),
    ) {
        let northbound = northbound(seed, |rows| {
            for (number, router) in routers.iter().enumerate() {
                add_router(rows, number, router);
            }
            for (number, switch) in switches.iter().enumerate() {
                add_switch(rows, number, switch);
            }
        });
        let names: Vec<_> = (0..routers.len()).map(|number| format!("r{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_equals_releases(&northbound, &names, &RELEASES);
    }
}
