//! Cost of the index and of 10,000 questions, on a database of 2,000 pods.
//!
//! `cargo bench -p patchbay-reach --bench questions` prints the figures.

use std::collections::BTreeSet;
use std::hint::black_box;
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

/// Networks, each a switch at the router.
const NETWORKS: usize = 20;
/// Pods of each network.
const PODS: usize = 100;
/// Network policies of each network, with two ACLs and an address set each.
const POLICIES: usize = 10;
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

fn main() {
    let snapshot = snapshot().expect("the rows are valid");
    let questions: Vec<_> = (0..QUESTIONS).map(question).collect();
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
    println!(
        "{} ports, {} rows",
        northbound.port_count(),
        snapshot.row_count()
    );
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

fn question(number: usize) -> Question {
    let from = number * 7919 % (NETWORKS * PODS);
    let to = number * 104_729 % (NETWORKS * PODS);
    let destination = match number % 4 {
        0 => format!("10.96.{}.{}", number % SERVICES / 250, number % 250),
        1 => format!("172.16.{}.7", number % 250),
        _ => address(to / PODS, to % PODS),
    };
    Question {
        sender: Sender::port(port_name(from / PODS, from % PODS)),
        destination: Destination::Address(destination.parse().expect("an address")),
        protocol: Protocol::Tcp(if number.is_multiple_of(5) { 443 } else { 80 }),
    }
}

fn port_name(network: usize, pod: usize) -> String {
    format!("net{network}_pod{pod}")
}

fn address(network: usize, pod: usize) -> String {
    format!("10.{network}.0.{}", pod + 10)
}

fn snapshot() -> Result<Snapshot, Box<dyn std::error::Error>> {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let group = services(&mut txn)?;
    let mut router_ports = BTreeSet::new();
    for network in 0..NETWORKS {
        router_ports.insert(add_network(&mut txn, network, group)?);
    }
    let mut policies = BTreeSet::new();
    for number in 0..ROUTER_POLICIES {
        policies.insert(txn.insert(&LogicalRouterPolicy {
            priority: 1000 + number as i64,
            r#match: format!(
                "inport == \"rp{}\" && ip4.dst == 192.168.{number}.0/24",
                number % 20
            ),
            action: LogicalRouterPolicyAction::Drop,
            ..Default::default()
        })?);
    }
    let mut static_routes = BTreeSet::new();
    for number in 0..ROUTES {
        static_routes.insert(txn.insert(&LogicalRouterStaticRoute {
            ip_prefix: format!("172.{}.{}.0/24", 16 + number / 250, number % 250),
            nexthop: address(number % NETWORKS, number % PODS),
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

fn services(txn: &mut TxnBuilder) -> Result<Ref<LoadBalancerGroup>, BuildError> {
    let mut load_balancer = BTreeSet::new();
    for number in 0..SERVICES {
        let vip = format!("10.96.{}.{}:80", number / 250, number % 250);
        let backends: Vec<_> = (0..4)
            .map(|backend| format!("{}:8080", address(number % NETWORKS, backend * 20)))
            .collect();
        load_balancer.insert(txn.insert(&LoadBalancer {
            name: format!("service{number}"),
            vips: [(vip, backends.join(","))].into(),
            ..Default::default()
        })?);
    }
    txn.insert(&LoadBalancerGroup {
        name: "services".into(),
        load_balancer,
    })
}

fn add_network(
    txn: &mut TxnBuilder,
    network: usize,
    group: Ref<LoadBalancerGroup>,
) -> Result<Ref<LogicalRouterPort>, BuildError> {
    let router_port = format!("rp{network}");
    let mut pods = BTreeSet::new();
    for pod in 0..PODS {
        let interface = format!(
            "0a:58:0a:{network:02x}:00:{pod:02x} {}",
            address(network, pod)
        );
        pods.insert(txn.insert(&LogicalSwitchPort {
            name: port_name(network, pod),
            addresses: [interface.clone()].into(),
            port_security: [interface].into(),
            ..Default::default()
        })?);
    }
    for number in 0..POLICIES {
        add_policy(txn, network, number, &pods)?;
    }
    let mut ports = pods;
    ports.insert(txn.insert(&LogicalSwitchPort {
        name: format!("sp{network}"),
        r#type: "router".into(),
        addresses: ["router".into()].into(),
        options: [("router-port".into(), router_port.clone())].into(),
        ..Default::default()
    })?);
    txn.insert(&LogicalSwitch {
        name: format!("net{network}"),
        ports,
        load_balancer_group: [group].into(),
        ..Default::default()
    })?;
    txn.insert(&LogicalRouterPort {
        name: router_port,
        mac: format!("0a:58:0a:{network:02x}:ff:01"),
        networks: [format!("10.{network}.0.1/24")].into(),
        ..Default::default()
    })
}

/// Adds what OVN-Kubernetes makes of a network policy for half of the pods.
fn add_policy(
    txn: &mut TxnBuilder,
    network: usize,
    number: usize,
    pods: &BTreeSet<Ref<LogicalSwitchPort>>,
) -> Result<(), BuildError> {
    let name = format!("policy_{network}_{number}");
    let peers = (0..PODS).map(|pod| address((network + number) % NETWORKS, pod));
    txn.insert(&AddressSet {
        name: name.clone(),
        addresses: peers.collect(),
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
    let ports = pods
        .iter()
        .copied()
        .skip(number * 5)
        .take(PODS / 2)
        .collect();
    txn.insert(&PortGroup {
        name,
        acls: acls.into(),
        ports,
        ..Default::default()
    })?;
    Ok(())
}
