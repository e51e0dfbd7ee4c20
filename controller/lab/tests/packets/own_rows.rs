//! A lab whose switches and routers a test writes itself, in place of those of the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_lab::{Lab, Protocol, Verdict};
use patchbay_reach::{Answer, Destination, Northbound, Question, Sender};
use patchbay_schemas::nb::{
    GatewayChassis, LoadBalancer, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, NbGlobal,
};

use crate::support::{cluster, release};

/// Chassis of the only node.
pub(crate) const CHASSIS: &str = "c1";
/// Number of times that a question is asked whose answer is not the expected one, because a busy
/// machine answers late.
const ATTEMPTS: usize = 10;

/// Lab of one node with the pods `blue-1`, `blue-2`, `green-1` and `green-2`.
pub(crate) struct OwnRows {
    lab: Lab,
    /// Rows of the pods' ports by the names of the pods.
    ports: BTreeMap<&'static str, LogicalSwitchPort>,
}

/// Rows before they are inserted: `s1` with the blue pods, `s2` with the green ones, and the router
/// `lr` between them.
pub(crate) struct Written {
    /// Ports of pods, by the names of the pods.
    pub(crate) ports: BTreeMap<&'static str, LogicalSwitchPort>,
    pub(crate) switches: [LogicalSwitch; 2],
    pub(crate) router_ports: [LogicalRouterPort; 2],
    pub(crate) router: LogicalRouter,
    pub(crate) global_options: BTreeMap<String, String>,
}

/// A map of texts.
pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

impl OwnRows {
    /// Starts the lab. `None`: OVN is not available.
    pub(crate) async fn start() -> Option<Self> {
        let release = release()?;
        let lab = Lab::start(release, &cluster(&manifests())).await.unwrap();
        let snapshot = lab.northbound("n1").unwrap();
        let rows: Vec<_> = snapshot.typed::<LogicalSwitchPort>().iter().flatten().collect();
        let ports = ["blue-1", "blue-2", "green-1", "green-2"]
            .map(|pod| {
                let suffix = format!("_{pod}");
                let (_, row) = rows.iter().find(|(_, row)| row.name.ends_with(&suffix)).unwrap();
                let port = LogicalSwitchPort {
                    name: row.name.clone(),
                    addresses: row.addresses.clone(),
                    ..LogicalSwitchPort::default()
                };
                (pod, port)
            })
            .into_iter()
            .collect();
        Some(Self { lab, ports })
    }

    /// MAC and IP address of a pod.
    pub(crate) fn address(&self, pod: &str) -> (String, IpAddr) {
        let element = self.ports[pod].addresses.first().unwrap();
        let (mac, address) = element.split_once(' ').unwrap();
        (mac.to_owned(), address.parse().unwrap())
    }

    /// Writes switches and routers in place of those before, and waits until packets follow.
    pub(crate) async fn write(
        &mut self,
        change: impl FnOnce(&mut TxnBuilder, &mut Written) -> Result<(), BuildError>,
    ) {
        let removed = self.lab.change_northbound("n1", remove_rows);
        removed.await.unwrap();
        // ovn-northd 26.03 ends if a port is replaced by another one of its name.
        self.lab.sync().await.unwrap();
        let written = Written::new(&self.ports);
        let inserted = self.lab.change_northbound("n1", |txn| insert_rows(txn, written, change));
        inserted.await.unwrap();
        self.lab.sync().await.unwrap();
    }

    /// Asserts that packets of a pod for an address arrive at a pod, and that reach answers the
    /// same, or that they leave a choice. `to`: name of the pod. `None`: at no pod.
    pub(crate) async fn assert_arrival(
        &self,
        from: &str,
        address: &str,
        protocol: Protocol,
        to: Option<&str>,
    ) {
        let address: IpAddr = address.parse().unwrap();
        let answer = self.answer(from, address, protocol);
        let port = to.map(|to| self.ports[to].name.as_str());
        let is_open = !answer.open.is_empty();
        assert!(is_open || answer.out.as_deref() == port, "{answer:#?}");
        let mut verdict = Verdict::Lost;
        for _ in 0..ATTEMPTS {
            verdict = self.ask(from, address, protocol).await;
            if arrival(&verdict) == to {
                return;
            }
        }
        panic!("{from} {address} {protocol}: {verdict}; expected {to:?}\n{answer:#?}");
    }

    /// The answer of reach to a packet of a pod.
    pub(crate) fn answer(&self, from: &str, address: IpAddr, protocol: Protocol) -> Answer {
        let northbound = Northbound::new(&self.lab.northbound("n1").unwrap(), Some(CHASSIS));
        let answer = northbound.answer(&Question {
            sender: Sender::port(&self.ports[from].name),
            destination: Destination::Address(address),
            protocol: protocol.into(),
        });
        answer.unwrap()
    }

    /// The verdict of packets of a pod for an address.
    pub(crate) async fn ask(&self, from: &str, address: IpAddr, protocol: Protocol) -> Verdict {
        let pod = self.lab.find_pod(from).unwrap();
        let asked = self.lab.ask_outside(&pod, address, protocol);
        asked.await.unwrap().verdict
    }

    /// Name of the port of a pod.
    pub(crate) fn port(&self, pod: &str) -> &str {
        &self.ports[pod].name
    }
}

/// Name of the pod at which a packet of [`OwnRows::ask`] arrived. `None`: it arrived at no pod.
pub(crate) fn arrival(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::WrongPod(pod) => Some(&pod.name),
        _ => None,
    }
}

impl Written {
    /// Puts a port of the router, from 0, onto the chassis.
    pub(crate) fn make_gateway_port(
        &mut self,
        txn: &mut TxnBuilder,
        port: usize,
    ) -> Result<(), BuildError> {
        let chassis = txn.insert(&GatewayChassis {
            name: format!("gc{port}"),
            chassis_name: CHASSIS.to_owned(),
            priority: 1,
            ..GatewayChassis::default()
        })?;
        self.router_ports[port].gateway_chassis.insert(chassis);
        Ok(())
    }

    fn new(ports: &BTreeMap<&'static str, LogicalSwitchPort>) -> Self {
        let switch =
            |name: &str| LogicalSwitch { name: name.to_owned(), ..LogicalSwitch::default() };
        let router_port = |number: u8| LogicalRouterPort {
            name: format!("rp{number}"),
            mac: format!("0a:00:00:00:00:0{number}"),
            networks: [format!("10.{number}.0.1/16")].into(),
            ..LogicalRouterPort::default()
        };
        Self {
            ports: ports.clone(),
            switches: [switch("s1"), switch("s2")],
            router_ports: [router_port(1), router_port(2)],
            router: LogicalRouter { name: "lr".to_owned(), ..LogicalRouter::default() },
            global_options: BTreeMap::new(),
        }
    }
}

/// Removes all switches and routers, load balancers, and options of tests.
fn remove_rows(txn: &mut TxnBuilder) -> Result<(), BuildError> {
    let before = txn.snapshot().clone();
    for (switch, _) in before.typed::<LogicalSwitch>().iter().flatten() {
        txn.delete(switch)?;
    }
    for (router, _) in before.typed::<LogicalRouter>().iter().flatten() {
        txn.delete(router)?;
    }
    let balancers = before.typed::<LoadBalancer>();
    for (balancer, _) in balancers.iter().flatten() {
        txn.delete(balancer)?;
    }
    for (global, _) in before.typed::<NbGlobal>().iter().flatten() {
        txn.remove_keys(global, NbGlobal::OPTIONS, ["install_ls_lb_from_router"])?;
    }
    Ok(())
}

/// Inserts switches and routers.
fn insert_rows(
    txn: &mut TxnBuilder,
    mut written: Written,
    change: impl FnOnce(&mut TxnBuilder, &mut Written) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    change(txn, &mut written)?;
    let before = txn.snapshot().clone();
    for (global, _) in before.typed::<NbGlobal>().iter().flatten() {
        txn.put(global, NbGlobal::OPTIONS, written.global_options.clone())?;
    }
    let mut members = [BTreeSet::new(), BTreeSet::new()];
    for (pod, port) in &written.ports {
        members[usize::from(pod.starts_with("green"))].insert(txn.insert(port)?);
    }
    let mut router_ports = BTreeSet::new();
    for (members, port) in members.iter_mut().zip(&written.router_ports) {
        router_ports.insert(txn.insert(port)?);
        members.insert(txn.insert(&LogicalSwitchPort {
            name: format!("{}-sp", port.name),
            r#type: "router".to_owned(),
            addresses: ["router".to_owned()].into(),
            options: map(&[("router-port", &port.name)]),
            ..LogicalSwitchPort::default()
        })?);
    }
    for (mut switch, ports) in written.switches.into_iter().zip(members) {
        switch.ports.extend(ports);
        txn.insert(&switch)?;
    }
    written.router.ports.extend(router_ports);
    txn.insert(&written.router)?;
    Ok(())
}

/// One node with two pods in each of two networks.
fn manifests() -> String {
    let mut text = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: n1, annotations: \
         {{k8s.ovn.org/node-chassis-id: {CHASSIS}}}}}}}\n"
    );
    for (number, name) in [(1, "blue"), (2, "green")] {
        let network = format!(
            "---
{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{network: {name}, \
             k8s.ovn.org/primary-user-defined-network: ''}}}}}}
---
{{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {{name: {name}}}, spec: \
             {{namespaceSelector: {{matchLabels: {{network: {name}}}}}, network: {{topology: \
             Layer2, layer2: {{role: Primary, subnets: [10.{number}.0.0/16]}}}}}}}}
"
        );
        text += &network;
        for pod in [1, 2] {
            let pod = format!(
                "---
{{apiVersion: v1, kind: Pod, metadata: {{name: {name}-{pod}, namespace: {name}}}, spec: {{nodeName: \
                 n1, containers: [{{name: main}}]}}}}
"
            );
            text += &pod;
        }
    }
    text
}
