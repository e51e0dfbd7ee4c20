//! Random rows of two switches and a router: packets arrive where `reach` answers.
//!
//! ovn-trace, which the random databases of other tests ask, does not follow all states of
//! connections. `PATCHBAY_LAB_ROWS` sets the number of databases, and `PATCHBAY_LAB_SEED` the seed of
//! the first one; the next database has the next seed. A difference is reported with its seed.

use std::collections::BTreeMap;
use std::env;
use std::net::IpAddr;

use futures_util::future::join_all;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_lab::Protocol;
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, LoadBalancer, LoadBalancerProtocol, LogicalRouterPolicy,
    LogicalRouterPolicyAction, LogicalRouterStaticRoute, Nat, NatType,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::own_rows::{CHASSIS, OwnRows, Written, arrival, map};

/// Number of databases without the environment variable.
const DATABASES: u64 = 10;
/// Seed of the first database without the environment variable.
const SEED: u64 = 190;
/// Number of questions about a database.
const QUESTIONS: usize = 40;
/// Number of times that a question is asked whose answer is not the expected one, because a busy
/// machine answers late.
const ATTEMPTS: usize = 4;

const PODS: [&str; 4] = ["blue-1", "blue-2", "green-1", "green-2"];
const PROTOCOLS: [Protocol; 4] =
    [Protocol::Icmp, Protocol::Tcp(80), Protocol::Tcp(8080), Protocol::Udp(53)];

/// Place of a match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Ingress,
    Egress,
    Router,
}

/// Random rows, and the addresses that they have.
struct RandomRows {
    random: StdRng,
    /// Ports and addresses of the pods.
    pods: Vec<(String, String)>,
    addresses: Vec<String>,
    /// Priority of the last row. No two rows have the same, so that OVN leaves no choice.
    priority: i64,
    /// The rows as text.
    report: Vec<String>,
}

impl RandomRows {
    fn new(own: &OwnRows, seed: u64) -> Self {
        let pods = PODS.map(|pod| (own.port(pod).to_owned(), own.address(pod).1.to_string()));
        let routers = ["10.1.0.1", "10.2.0.1", "50.0.0.1"];
        let pod_addresses = pods.iter().map(|(_, address)| address.clone());
        Self {
            random: StdRng::seed_from_u64(seed),
            addresses: routers.map(str::to_owned).into_iter().chain(pod_addresses).collect(),
            pods: pods.into(),
            priority: 0,
            report: Vec::new(),
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.choose(&mut self.random).unwrap()
    }

    fn pod(&mut self) -> (String, String) {
        self.pods.choose(&mut self.random).unwrap().clone()
    }

    fn address(&mut self) -> String {
        self.addresses.choose(&mut self.random).unwrap().clone()
    }

    fn next_priority(&mut self) -> i64 {
        self.priority += 1;
        self.priority + 100 * self.random.random_range(0..5)
    }

    /// A comparison, or two.
    fn text(&mut self, place: Place) -> String {
        let first = self.comparison(place);
        match self.random.random_range(0..4) {
            0 => format!("{first} && {}", self.comparison(place)),
            1 => format!("{first} || {}", self.comparison(place)),
            _ => first,
        }
    }

    fn comparison(&mut self, place: Place) -> String {
        const PLAIN: [&str; 8] = [
            "ip4",
            "icmp4",
            "tcp",
            "udp",
            "tcp.dst == 80",
            "tcp.dst == {80, 8080}",
            "ip.ttl == 64",
            "1",
        ];
        const STATES: [&str; 6] = ["ct.new", "!ct.trk", "ct.trk", "ct.est", "!ct.est", "ct.rpl"];
        match self.random.random_range(0..8) {
            0 => format!("ip4.src == {}", self.address()),
            1 => format!("ip4.dst == {}", self.address()),
            2 => format!("ip4.src == 10.{}.0.0/16", self.random.random_range(1..3)),
            3 | 5 if place != Place::Router => self.pick(&STATES).to_owned(),
            4 => match place {
                Place::Ingress => format!("inport == \"{}\"", self.pod().0),
                Place::Egress => format!("outport == \"{}\"", self.pod().0),
                Place::Router => format!("inport == \"rp{}\"", self.random.random_range(1..3)),
            },
            _ => self.pick(&PLAIN).to_owned(),
        }
    }

    fn write(&mut self, txn: &mut TxnBuilder, written: &mut Written) -> Result<(), BuildError> {
        let has_gateway = self.write_kind(txn, written)?;
        for number in 0..self.random.random_range(0..3) {
            let row = self.load_balancer(number);
            let balancer = txn.insert(&row)?;
            let places: [bool; 3] = self.random.random();
            for (switch, is_place) in written.switches.iter_mut().zip(places) {
                switch.load_balancer.extend(is_place.then_some(balancer));
            }
            let router = &mut written.router;
            router.load_balancer.extend(places[2].then_some(balancer));
            self.report.push(format!("{places:?} {row:?}"));
        }
        if has_gateway && self.chance(30) {
            let source = self.pick(&["router_ip", "10.2.9.55"]);
            let option = ("lb_force_snat_ip".to_owned(), source.to_owned());
            written.router.options.extend([option]);
        }
        for number in 0..self.random.random_range(0..3) {
            let row = self.nat(number);
            written.router.nat.insert(txn.insert(&row)?);
            self.report.push(format!("{row:?}"));
        }
        for _ in 0..self.random.random_range(0..6) {
            let row = self.acl();
            let switch = self.random.random_range(0..2);
            written.switches[switch].acls.insert(txn.insert(&row)?);
            self.report.push(format!("s{} {row:?}", switch + 1));
        }
        if self.chance(40) {
            let row = self.policy();
            written.router.policies.insert(txn.insert(&row)?);
            self.report.push(format!("{row:?}"));
        }
        if self.chance(40) {
            let row = LogicalRouterStaticRoute {
                ip_prefix: self.pick(&["0.0.0.0/0", "50.0.0.0/8", "10.2.0.0/16"]).to_owned(),
                nexthop: self.pod().1,
                ..LogicalRouterStaticRoute::default()
            };
            written.router.static_routes.insert(txn.insert(&row)?);
            self.report.push(format!("{row:?}"));
        }
        self.report.push(format!("{:?}", written.router.options));
        Ok(())
    }

    /// Makes the router a gateway router, gives it a gateway port, or neither. Returns `true` if it
    /// translates addresses.
    fn write_kind(
        &mut self,
        txn: &mut TxnBuilder,
        written: &mut Written,
    ) -> Result<bool, BuildError> {
        let kind = self.random.random_range(0..4);
        if kind < 2 {
            written.router.options = map(&[("chassis", CHASSIS)]);
        } else if kind == 2 {
            let number = self.random.random_range(0..2);
            written.make_gateway_port(txn, number)?;
            self.report.push(format!("gateway port rp{}", number + 1));
        }
        Ok(kind < 3)
    }

    fn load_balancer(&mut self, number: usize) -> LoadBalancer {
        const OPTIONS: [(&str, &str); 4] = [
            ("skip_snat", "true"),
            ("hairpin_snat_ip", "10.1.9.66"),
            ("neighbor_responder", "all"),
            ("reject", "true"),
        ];
        let vip = self.pick(&["10.96.0.1", "10.96.0.2", "10.1.9.7", "10.2.9.7", "10.1.0.1"]);
        self.addresses.extend([vip.to_owned(), vip.to_owned()]);
        let backend = self.pod().1;
        let (vip, backend) = if self.chance(70) {
            (format!("{vip}:80"), format!("{backend}:{}", self.pick(&[80, 8080])))
        } else {
            (vip.to_owned(), backend)
        };
        let options: Vec<_> = OPTIONS.into_iter().filter(|_| self.chance(20)).collect();
        LoadBalancer {
            name: format!("lb{number}"),
            vips: BTreeMap::from([(vip, backend)]),
            protocol: self.pick(&[None, Some(LoadBalancerProtocol::Udp)]),
            options: map(&options),
            ..LoadBalancer::default()
        }
    }

    fn nat(&mut self, number: usize) -> Nat {
        let kind = self.pick(&[NatType::Snat, NatType::Dnat, NatType::DnatAndSnat]);
        let external = format!("10.{}.9.{}", self.random.random_range(1..3), 80 + number);
        self.addresses.push(external.clone());
        Nat {
            r#type: kind,
            external_ip: external,
            logical_ip: if kind == NatType::Snat && self.chance(60) {
                self.pick(&["10.1.0.0/16", "10.2.0.0/16", "0.0.0.0/0"]).to_owned()
            } else {
                self.pod().1
            },
            ..Nat::default()
        }
    }

    fn acl(&mut self) -> Acl {
        let is_ingress = self.random.random();
        let action = self.pick(&[
            AclAction::Allow,
            AclAction::AllowRelated,
            AclAction::AllowRelated,
            AclAction::AllowStateless,
            AclAction::Drop,
            AclAction::Drop,
            AclAction::Reject,
            AclAction::Pass,
        ]);
        let (direction, place) = if is_ingress {
            (AclDirection::FromLport, Place::Ingress)
        } else {
            (AclDirection::ToLport, Place::Egress)
        };
        let is_after = is_ingress && self.chance(30);
        let after = is_after.then_some(("apply-after-lb", "true"));
        Acl {
            action,
            direction,
            priority: self.next_priority(),
            tier: self.random.random_range(0..4),
            r#match: self.text(place),
            options: map(after.as_slice()),
            ..Acl::default()
        }
    }

    fn policy(&mut self) -> LogicalRouterPolicy {
        let action = self.pick(&[
            LogicalRouterPolicyAction::Allow,
            LogicalRouterPolicyAction::Drop,
            LogicalRouterPolicyAction::Reroute,
        ]);
        let is_reroute = action == LogicalRouterPolicyAction::Reroute;
        LogicalRouterPolicy {
            action,
            priority: self.next_priority(),
            r#match: self.text(Place::Router),
            nexthops: is_reroute.then(|| self.pod().1).into_iter().collect(),
            ..LogicalRouterPolicy::default()
        }
    }
}

/// The difference between the answer of reach and packets. `None`: there is none, or OVN leaves a
/// choice.
async fn difference(
    own: &OwnRows,
    (from, address, protocol): (&str, IpAddr, Protocol),
) -> Option<String> {
    let answer = own.answer(from, address, protocol);
    if !answer.open.is_empty() {
        return None;
    }
    // A pod does not report packets for other addresses than its own.
    let end = answer.dest.unwrap_or(address);
    let expected = PODS
        .into_iter()
        .find(|pod| answer.out.as_deref() == Some(own.port(pod)) && own.address(pod).1 == end);
    let mut verdict = own.ask(from, address, protocol).await;
    for _ in 1..ATTEMPTS {
        if arrival(&verdict) == expected {
            break;
        }
        verdict = own.ask(from, address, protocol).await;
    }
    (arrival(&verdict) != expected)
        .then(|| format!("{from} {address} {protocol}: {verdict}; {answer:#?}"))
}

fn number(variable: &str, default: u64) -> u64 {
    let text = env::var(variable);
    text.map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_arrive_where_random_rows_lead() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let first = number("PATCHBAY_LAB_SEED", SEED);
    for seed in first..first + number("PATCHBAY_LAB_ROWS", DATABASES) {
        let mut rows = RandomRows::new(&own, seed);
        own.write(|txn, written| rows.write(txn, written)).await;
        let questions: Vec<_> = (0..QUESTIONS)
            .map(|_| {
                let address = rows.address().parse().unwrap();
                (rows.pick(&PODS), address, rows.pick(&PROTOCOLS))
            })
            .filter(|(from, address, _)| own.address(from).1 != *address)
            .collect();
        let asked = questions.into_iter().map(|question| difference(&own, question));
        let differences: Vec<String> = join_all(asked).await.into_iter().flatten().collect();
        let report = rows.report.join("\n");
        assert!(differences.is_empty(), "seed {seed}\n{report}\n{}", differences.join("\n"));
    }
}
