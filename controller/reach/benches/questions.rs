//! Cost of the index and of 10,000 questions, on databases of 2,000 pods: on 20 switches, on one,
//! and on 20 switches that ports of type `switch` link.
//!
//! `cargo bench -p patchbay-reach --bench questions` prints the figures.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender};
use patchbay_schemas::nb::{
    self, Acl, AclAction, AclDirection, AddressSet, LoadBalancer, LoadBalancerGroup, LogicalRouter,
    LogicalRouterPolicy, LogicalRouterPolicyAction, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch, LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::typed::Ref;

/// Pods of all switches.
const PODS: usize = 2_000;
/// Network policies of all switches, with two ACLs and an address set each.
const POLICIES: usize = 200;
/// Pods of a network policy.
const POLICY_PODS: usize = 50;
/// Services, each with one VIP and four backends.
const SERVICES: usize = 500;
/// Policies of the router.
const ROUTER_POLICIES: usize = 100;
/// Static routes of the router.
const ROUTES: usize = 1_000;
/// Questions.
const QUESTIONS: usize = 10_000;
/// Runs, of which the best counts.
const RUNS: usize = 5;

/// Switches of a database.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    switches: usize,
    /// `true` if the switches are one network, with the router on the first one. Otherwise each has
    /// a port of the router.
    is_linked: bool,
}

const SHAPES: [Shape; 3] = [
    Shape { name: "20 switches", switches: 20, is_linked: false },
    Shape { name: "one switch", switches: 1, is_linked: false },
    Shape { name: "20 linked switches", switches: 20, is_linked: true },
];

fn main() {
    for shape in SHAPES {
        measure(shape);
    }
}

fn measure(shape: Shape) {
    let snapshot = snapshot(shape).expect("the rows are valid");
    let questions: Vec<_> = (0..QUESTIONS).map(|number| question(shape, number)).collect();
    let index = best(|| {
        black_box(Northbound::new(&snapshot, None));
    });
    let northbound = Northbound::new(&snapshot, None);
    assert!(northbound.notes().is_empty(), "{:?}", northbound.notes());
    let answers = best(|| {
        for question in &questions {
            black_box(northbound.answer(question)).expect("the names are known");
        }
    });
    println!("{}: {} ports, {} rows", shape.name, northbound.port_count(), snapshot.row_count());
    println!("index: {:.1} ms", index.as_secs_f64() * 1e3);
    println!(
        "{QUESTIONS} questions: {:.1} ms, {:.1} us each",
        answers.as_secs_f64() * 1e3,
        answers.as_secs_f64() * 1e6 / QUESTIONS as f64
    );
}

/// Time of the fastest run.
fn best(mut run: impl FnMut()) -> Duration {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn question(shape: Shape, number: usize) -> Question {
    let from = number * 7919 % PODS;
    let to = number * 104_729 % PODS;
    let destination = match number % 4 {
        0 => format!("10.96.{}.{}", number % SERVICES / 250, number % 250),
        1 => format!("172.16.{}.7", number % 250),
        _ => shape.address(to),
    };
    Question {
        sender: Sender::port(port_name(from)),
        destination: Destination::Address(destination.parse().expect("an address")),
        protocol: Protocol::Tcp(if number.is_multiple_of(5) { 443 } else { 80 }),
    }
}

fn port_name(pod: usize) -> String {
    format!("pod{pod}")
}

impl Shape {
    /// Pods of a switch.
    fn pods(self, switch: usize) -> Range<usize> {
        let count = PODS / self.switches;
        switch * count..(switch + 1) * count
    }

    /// Number of the router's networks.
    fn networks(self) -> usize {
        if self.is_linked { 1 } else { self.switches }
    }

    fn network(self, pod: usize) -> usize {
        pod * self.networks() / PODS
    }

    fn address(self, pod: usize) -> String {
        let host = pod % (PODS / self.networks()) + 10;
        format!("10.{}.{}.{}", self.network(pod), host / 250, host % 250)
    }

    fn interface(self, pod: usize) -> String {
        let [high, low] = (pod as u16).to_be_bytes();
        format!("0a:58:0a:00:{high:02x}:{low:02x} {}", self.address(pod))
    }
}

fn snapshot(shape: Shape) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let group = services(&mut txn, shape)?;
    let mut router_ports = BTreeSet::new();
    for switch in 0..shape.switches {
        router_ports.extend(add_switch(&mut txn, shape, switch, group)?);
    }
    let mut policies = BTreeSet::new();
    for number in 0..ROUTER_POLICIES {
        policies.insert(txn.insert(&LogicalRouterPolicy {
            priority: 1000 + number as i64,
            r#match: format!("inport == \"rp{}\" && ip4.dst == 192.168.{number}.0/24", number % 20),
            action: LogicalRouterPolicyAction::Drop,
            ..Default::default()
        })?);
    }
    let mut static_routes = BTreeSet::new();
    for number in 0..ROUTES {
        static_routes.insert(txn.insert(&LogicalRouterStaticRoute {
            ip_prefix: format!("172.{}.{}.0/24", 16 + number / 250, number % 250),
            nexthop: shape.address(number % PODS),
            ..Default::default()
        })?);
    }
    txn.insert(&LogicalRouter {
        name: "lr0".into(),
        ports: router_ports,
        policies,
        static_routes,
        ..Default::default()
    })?;
    database.transact(txn.finish().operations())?;
    Ok(database.snapshot())
}

fn services(txn: &mut TxnBuilder, shape: Shape) -> Result<Ref<LoadBalancerGroup>, BuildError> {
    let mut load_balancer = BTreeSet::new();
    for number in 0..SERVICES {
        let vip = format!("10.96.{}.{}:80", number / 250, number % 250);
        let backends: Vec<_> = (0..4)
            .map(|backend| format!("{}:8080", shape.address((number * 100 + backend * 20) % PODS)))
            .collect();
        load_balancer.insert(txn.insert(&LoadBalancer {
            name: format!("service{number}"),
            vips: [(vip, backends.join(","))].into(),
            ..Default::default()
        })?);
    }
    txn.insert(&LoadBalancerGroup { name: "services".into(), load_balancer })
}

/// Adds a switch with its pods. Returns its port of the router.
fn add_switch(
    txn: &mut TxnBuilder,
    shape: Shape,
    switch: usize,
    group: Ref<LoadBalancerGroup>,
) -> Result<Option<Ref<LogicalRouterPort>>, BuildError> {
    let mut pods = Vec::new();
    for pod in shape.pods(switch) {
        let interface = shape.interface(pod);
        pods.push(txn.insert(&LogicalSwitchPort {
            name: port_name(pod),
            addresses: [interface.clone()].into(),
            port_security: [interface].into(),
            ..Default::default()
        })?);
    }
    for number in 0..POLICIES / shape.switches {
        add_policy(txn, shape, (switch, number), &pods)?;
    }
    let mut ports: BTreeSet<_> = pods.into_iter().collect();
    for (own, other) in [(switch, switch + 1), (switch, switch.wrapping_sub(1))] {
        if shape.is_linked && other < shape.switches {
            ports.insert(txn.insert(&LogicalSwitchPort {
                name: format!("link{own}_{other}"),
                r#type: "switch".into(),
                peer: Some(format!("link{other}_{own}")),
                ..Default::default()
            })?);
        }
    }
    let has_router = switch < shape.networks();
    let router_port = format!("rp{switch}");
    if has_router {
        ports.insert(txn.insert(&LogicalSwitchPort {
            name: format!("sp{switch}"),
            r#type: "router".into(),
            addresses: ["router".into()].into(),
            options: [("router-port".into(), router_port.clone())].into(),
            ..Default::default()
        })?);
    }
    txn.insert(&LogicalSwitch {
        name: format!("net{switch}"),
        ports,
        load_balancer_group: [group].into(),
        ..Default::default()
    })?;
    if !has_router {
        return Ok(None);
    }
    let port = txn.insert(&LogicalRouterPort {
        name: router_port,
        mac: format!("0a:58:0a:{switch:02x}:ff:01"),
        networks: [format!("10.{switch}.0.1/16")].into(),
        ..Default::default()
    })?;
    Ok(Some(port))
}

/// Adds what OVN-Kubernetes makes of a network policy for some of a switch's pods.
fn add_policy(
    txn: &mut TxnBuilder,
    shape: Shape,
    (switch, number): (usize, usize),
    pods: &[Ref<LogicalSwitchPort>],
) -> Result<(), BuildError> {
    let name = format!("policy_{switch}_{number}");
    let peers = shape.pods((switch + number) % shape.switches);
    txn.insert(&AddressSet {
        name: name.clone(),
        addresses: peers.take(100).map(|pod| shape.address(pod)).collect(),
        ..Default::default()
    })?;
    let acl = |action, priority, extra: &str| Acl {
        direction: AclDirection::ToLport,
        action,
        priority,
        r#match: format!("outport == @{name} && {extra}"),
        ..Default::default()
    };
    let allowed = format!("ip4.src == ${name} && tcp && tcp.dst == {{80, 8080}}");
    let acls = [
        txn.insert(&acl(AclAction::AllowRelated, 1001, &allowed))?,
        txn.insert(&acl(AclAction::Drop, 1000, "ip4.src == 10.99.0.0/16"))?,
    ];
    let first = number * 5 % (pods.len() - POLICY_PODS);
    let ports = pods.iter().copied().skip(first).take(POLICY_PODS);
    txn.insert(&PortGroup {
        name,
        acls: acls.into(),
        ports: ports.collect(),
        ..Default::default()
    })?;
    Ok(())
}
