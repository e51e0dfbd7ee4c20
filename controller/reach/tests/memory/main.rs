//! Bytes that the index of a database takes: they grow with the rows and their references, and not
//! with the pairs of rows that a group connects.
//!
//! The test counts the bytes that its process allocates, so that it has a program of its own.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::alloc::System;
use std::collections::{BTreeMap, BTreeSet};

use cap::Cap;
use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_reach::{Answer, Destination, Northbound, Protocol, Question, Sender};
use patchbay_schemas::nb::{
    self, Acl, AclAction, AclDirection, DhcpOptions, LoadBalancer, LoadBalancerGroup,
    LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, Nat, NatType, NbGlobal,
    PortGroup,
};
use patchbay_schemas::typed::Ref;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Rows of each kind in the smaller database. The larger one has twice as many.
const COUNT: usize = 800;

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// The port of a machine `m<number>` with an address in 10.0.0.0/8.
fn machine(number: usize) -> LogicalSwitchPort {
    let [_, b, c, d] = u32::try_from(number).unwrap().to_be_bytes();
    LogicalSwitchPort {
        name: format!("m{number}"),
        addresses: [format!("0a:00:00:{b:02x}:{c:02x}:{d:02x} 10.{b}.{c}.{d}")].into(),
        ..LogicalSwitchPort::default()
    }
}

/// Database to which a shape adds rows.
struct Rows {
    database: Database,
    txn: TxnBuilder,
}

impl Rows {
    fn new() -> Self {
        let database = Database::new(nb::schema());
        let txn = TxnBuilder::new(&database.snapshot());
        Self { database, txn }
    }

    /// Adds the port of [`machine`].
    fn machine(&mut self, number: usize) -> Ref<LogicalSwitchPort> {
        self.txn.insert(&machine(number)).unwrap()
    }

    /// Adds a switch port and the router port `r<number>` behind it.
    fn router_port(&mut self, number: usize) -> (Ref<LogicalSwitchPort>, Ref<LogicalRouterPort>) {
        let [_, b, c, d] = u32::try_from(number).unwrap().to_be_bytes();
        let name = format!("r{number}");
        let switch_port = LogicalSwitchPort {
            name: format!("to-{name}"),
            r#type: "router".into(),
            addresses: ["router".to_owned()].into(),
            options: strings([("router-port", &name)]),
            ..Default::default()
        };
        let router_port = LogicalRouterPort {
            name,
            mac: format!("0c:00:00:{b:02x}:{c:02x}:{d:02x}"),
            networks: [format!("172.{}.{c}.{d}/12", 16 + b)].into(),
            ..Default::default()
        };
        let switch_port = self.txn.insert(&switch_port).unwrap();
        (switch_port, self.txn.insert(&router_port).unwrap())
    }

    fn balancers(&mut self, count: usize) -> Ref<LoadBalancerGroup> {
        let members = (0..count).map(|number| {
            let vip = format!("10.96.{}.{}:80", number / 250, number % 250);
            let row = LoadBalancer {
                name: format!("lb{number}"),
                vips: strings([(&vip, "10.0.0.2:8080")]),
                ..Default::default()
            };
            self.txn.insert(&row).unwrap()
        });
        let load_balancer = members.collect();
        let row = LoadBalancerGroup { name: "all".into(), load_balancer };
        self.txn.insert(&row).unwrap()
    }

    fn finish(mut self) -> Database {
        self.database.transact(self.txn.finish().operations()).unwrap();
        self.database
    }
}

/// Switches with a machine each, and a port group of all machines with ACLs.
fn port_group(count: usize, matched: &str) -> Database {
    let mut rows = Rows::new();
    let mut ports = BTreeSet::new();
    for number in 1..=count {
        let port = rows.machine(number);
        ports.insert(port);
        let row = LogicalSwitch {
            name: format!("s{number}"),
            ports: [port].into(),
            ..Default::default()
        };
        rows.txn.insert(&row).unwrap();
    }
    let acls = (1..=count)
        .map(|number| {
            let row = Acl {
                action: AclAction::Drop,
                direction: AclDirection::FromLport,
                priority: i64::try_from(number).unwrap(),
                r#match: format!("inport == @{matched} && tcp.dst == {number}"),
                ..Default::default()
            };
            rows.txn.insert(&row).unwrap()
        })
        .collect();
    let group = PortGroup { name: "all".into(), ports, acls, ..Default::default() };
    rows.txn.insert(&group).unwrap();
    let other = PortGroup { name: "other".into(), ..Default::default() };
    rows.txn.insert(&other).unwrap();
    rows.finish()
}

/// ACLs of a port group with a port on each switch.
fn acls_of_a_port_group(count: usize) -> Database {
    port_group(count, "all")
}

/// ACLs that OVN ignores on each switch of their port group.
fn acls_with_a_missing_group(count: usize) -> Database {
    port_group(count, "other")
}

/// Switches with all load balancers of a group.
fn balancers_of_switches(count: usize) -> Database {
    let mut rows = Rows::new();
    let group = rows.balancers(count);
    for number in 1..=count {
        let port = rows.machine(number);
        let row = LogicalSwitch {
            name: format!("s{number}"),
            ports: [port].into(),
            load_balancer_group: [group].into(),
            ..Default::default()
        };
        rows.txn.insert(&row).unwrap();
    }
    rows.finish()
}

/// Routers with all load balancers of a group, on a switch each.
fn balancers_of_routers(count: usize) -> Database {
    let mut rows = Rows::new();
    let group = rows.balancers(count);
    for number in 1..=count {
        let machine = rows.machine(number);
        let (switch_port, router_port) = rows.router_port(number);
        let switch = LogicalSwitch {
            name: format!("s{number}"),
            ports: [machine, switch_port].into(),
            ..Default::default()
        };
        let router = LogicalRouter {
            name: format!("router{number}"),
            ports: [router_port].into(),
            load_balancer_group: [group].into(),
            ..Default::default()
        };
        rows.txn.insert(&switch).unwrap();
        rows.txn.insert(&router).unwrap();
    }
    rows.finish()
}

/// Switches that take over the load balancers of their router.
fn balancers_from_the_router(count: usize) -> Database {
    let mut rows = Rows::new();
    let group = rows.balancers(count);
    let global = NbGlobal {
        options: strings([("install_ls_lb_from_router", "true")]),
        ..Default::default()
    };
    rows.txn.insert(&global).unwrap();
    let ports = (1..=count)
        .map(|number| {
            let machine = rows.machine(number);
            let (switch_port, router_port) = rows.router_port(number);
            let switch = LogicalSwitch {
                name: format!("s{number}"),
                ports: [machine, switch_port].into(),
                ..Default::default()
            };
            rows.txn.insert(&switch).unwrap();
            router_port
        })
        .collect();
    let router = LogicalRouter {
        name: "router".into(),
        ports,
        load_balancer_group: [group].into(),
        ..Default::default()
    };
    rows.txn.insert(&router).unwrap();
    rows.finish()
}

/// Gateway routers on one switch that announce an address each to all others.
fn announced_addresses(count: usize) -> Database {
    let mut rows = Rows::new();
    let mut ports = BTreeSet::from([rows.machine(1)]);
    for number in 1..=count {
        let (switch_port, router_port) = rows.router_port(number);
        ports.insert(switch_port);
        let nat = Nat {
            r#type: NatType::DnatAndSnat,
            external_ip: format!("192.0.{}.{}", number / 250, number % 250),
            logical_ip: "10.0.0.1".into(),
            options: strings([("add_route", "true")]),
            ..Default::default()
        };
        let nat = rows.txn.insert(&nat).unwrap();
        let router = LogicalRouter {
            name: format!("router{number}"),
            ports: [router_port].into(),
            nat: [nat].into(),
            options: strings([("chassis", "c1")]),
            ..Default::default()
        };
        rows.txn.insert(&router).unwrap();
    }
    let switch = LogicalSwitch { name: "s".into(), ports, ..Default::default() };
    rows.txn.insert(&switch).unwrap();
    rows.finish()
}

/// Machines with the same DHCP options, which have a route for each machine.
fn routes_of_dhcp_options(count: usize) -> Database {
    let mut rows = Rows::new();
    let routes: Vec<_> = (0..count)
        .map(|number| {
            let [_, b, c, d] = u32::try_from(number).unwrap().to_be_bytes();
            format!("11.{b}.{c}.{d}/32,10.0.0.254")
        })
        .collect();
    let routes = format!("{{{}}}", routes.join(", "));
    let options = DhcpOptions {
        cidr: "10.0.0.0/8".into(),
        options: strings([
            ("server_id", "10.0.0.254"),
            ("server_mac", "0a:00:00:00:00:fe"),
            ("lease_time", "3600"),
            ("classless_static_route", &routes),
        ]),
        ..Default::default()
    };
    let options = rows.txn.insert(&options).unwrap();
    let machines = (1..=count).map(|number| {
        let row = LogicalSwitchPort { dhcpv4_options: Some(options), ..machine(number) };
        rows.txn.insert(&row).unwrap()
    });
    let ports = machines.collect();
    let switch = LogicalSwitch { name: "s".into(), ports, ..Default::default() };
    rows.txn.insert(&switch).unwrap();
    rows.finish()
}

/// Bytes of the index of a database after a question from `m1`.
fn index_bytes(database: &Database) -> usize {
    let before = ALLOCATOR.allocated();
    let northbound = Northbound::new(&database.snapshot(), None);
    let question = Question {
        sender: Sender::port("m1"),
        destination: Destination::Address("10.96.0.1".parse().unwrap()),
        protocol: Protocol::Tcp(80),
    };
    let answer = northbound.answer(&question).map(|answer: Answer| answer.verdict);
    let bytes = ALLOCATOR.allocated() - before;
    answer.unwrap();
    bytes
}

/// Bytes of the indexes of two databases of a shape, of which the second has twice as many rows.
fn measure(
    shape: &'static str,
    database: impl Fn(usize) -> Database,
) -> (&'static str, usize, usize) {
    let [small, large] = [COUNT, 2 * COUNT].map(|count| index_bytes(&database(count)));
    (shape, small, large)
}

#[test]
fn an_index_grows_with_rows_and_not_with_pairs_of_rows() {
    let sizes = [
        measure("ACLs of a port group", acls_of_a_port_group),
        measure("ACLs with a missing group", acls_with_a_missing_group),
        measure("load balancers of switches", balancers_of_switches),
        measure("load balancers of routers", balancers_of_routers),
        measure("load balancers from the router", balancers_from_the_router),
        measure("announced addresses", announced_addresses),
        measure("routes of DHCP options", routes_of_dhcp_options),
    ];
    // Rows make it twice as large, pairs of rows four times.
    let grown = sizes.iter().filter(|(_, small, large)| 2 * large > 5 * small);
    assert_eq!(grown.count(), 0, "{COUNT} and twice as many rows: {sizes:#?}");
}
