//! Features that the random topologies do not have, each in a small database: the answers of
//! ovn-trace, or a mark that the outcome does not follow from the Northbound database alone.

use patchbay_oracle::{
    Asked, Ovn, Rows, Tally, TraceOutcome, compare, map, read_northbound, references, set,
    start_server,
};
use patchbay_ovn_programs::testing::Release;
use patchbay_reach::{Answer, Destination, Northbound, Protocol, Question, Sender, Verdict};
use serde_json::{Value, json};

/// TCP packet to port 80.
pub(super) const WEB: (Protocol, &str) = (Protocol::Tcp(80), "tcp.dst == 80 && tcp.flags == 2");
/// TCP packet to the port of BGP.
const BGP: (Protocol, &str) = (Protocol::Tcp(179), "tcp.dst == 179 && tcp.flags == 2");

/// The switches `s1` with the machines `v1` and `v2` and `s2` with `v3`, behind the router `lr`.
pub(super) struct Network {
    pub(super) rows: Rows,
    pub(super) columns: Value,
    /// Ports of `s1`.
    ports: Vec<String>,
    /// Ports of `s2`.
    pub(super) others: Vec<String>,
    /// Ports of `lr` beside those to the switches.
    pub(super) router_ports: Vec<String>,
}

impl Network {
    /// Adds the machines. `columns`: more columns of rows, by the names of the rows.
    pub(super) fn new(columns: Value) -> Self {
        let mut network = Self {
            rows: Rows::default(),
            columns,
            ports: Vec::new(),
            others: Vec::new(),
            router_ports: Vec::new(),
        };
        for (name, addresses) in
            [("v1", "0a:00:00:00:01:02 10.1.0.2"), ("v2", "0a:00:00:00:01:03 10.1.0.3")]
        {
            network.add_port(name, json!({"addresses": addresses}));
        }
        let row = network.row("v3", json!({"addresses": "0a:00:00:00:02:02 10.2.0.2"}));
        let row = network.rows.insert("Logical_Switch_Port", row);
        network.others.push(row);
        network
    }

    /// A row with its name and further columns.
    fn row(&self, name: &str, mut row: Value) -> Value {
        row["name"] = json!(name);
        if let Some(columns) = self.columns[name].as_object() {
            for (column, value) in columns {
                row[column] = value.clone();
            }
        }
        row
    }

    /// Adds a port to `s1`. Returns the name of the row.
    pub(super) fn add_port(&mut self, name: &str, row: Value) -> String {
        let row = self.rows.insert("Logical_Switch_Port", self.row(name, row));
        self.ports.push(row.clone());
        row
    }

    /// Adds an ACL of `s1` that gives packets to a network function behind the ports `in` and
    /// `out`.
    pub(super) fn add_network_function(&mut self, direction: &str, condition: &str) {
        let ports = ["in", "out"].map(|name| self.add_port(name, json!({})));
        let row = json!({"name": "nf", "id": 1, "inport": ["named-uuid", ports[0]],
            "outport": ["named-uuid", ports[1]]});
        let function = self.rows.insert("Network_Function", row);
        let row = json!({"name": "nfg", "id": 1, "mode": "inline",
            "network_function": references(&[function])});
        let group = self.rows.insert("Network_Function_Group", row);
        let row = json!({"direction": direction, "priority": 1, "match": condition,
            "action": "allow-related", "network_function_group": ["named-uuid", group]});
        let acl = self.rows.insert("ACL", row);
        self.columns = json!({"s1": {"acls": references(&[acl])}});
    }

    /// Adds the switches and the router.
    pub(super) fn finish(mut self) -> String {
        let mut router_ports = std::mem::take(&mut self.router_ports);
        for number in [1, 2] {
            let (name, mac) = (format!("rp{number}"), format!("0a:00:00:00:0{number}:01"));
            let row = json!({"mac": mac, "networks": format!("10.{number}.0.1/24")});
            let row = self.row(&name, row);
            router_ports.push(self.rows.insert("Logical_Router_Port", row));
            let options = map(&[("router-port", &name)]);
            let row = json!({"type": "router", "addresses": "router", "options": options});
            let row =
                self.rows.insert("Logical_Switch_Port", self.row(&format!("sp{number}"), row));
            let ports = if number == 1 { &mut self.ports } else { &mut self.others };
            ports.push(row);
        }
        for (name, ports) in [("s1", self.ports.clone()), ("s2", self.others.clone())] {
            let row = self.row(name, json!({"ports": references(&ports)}));
            self.rows.insert("Logical_Switch", row);
        }
        let row = self.row("lr", json!({"ports": references(&router_ports)}));
        self.rows.insert("Logical_Router", row);
        self.rows.request()
    }
}

/// The answers of both for a packet of `v1`: to a neighbour with the MAC address, or by the router.
pub(super) fn ask(
    release: &Release,
    request: &str,
    (address, mac): (&str, &str),
    (protocol, header): (Protocol, &str),
) -> (Answer, String) {
    let server = start_server(release);
    let mut ovn = Ovn::fill(release, &server, request);
    let northbound = Northbound::new(&read_northbound(&server), None);
    let answer = northbound.answer(&Question {
        sender: Sender::port("v1"),
        destination: Destination::Address(address.parse().unwrap()),
        protocol,
    });
    let packet = format!(
        "inport == \"v1\" && eth.src == 0a:00:00:00:01:02 && eth.dst == {mac} && \
         ip4.src == 10.1.0.2 && ip4.dst == {address} && ip.ttl == 64 && {header}"
    );
    let text = ovn.trace.trace("s1", &packet).unwrap();
    (answer.unwrap(), text)
}

/// The answer to a question about a network, which that of ovn-trace has to be, requests included.
pub(super) fn ask_both(release: &Release, request: &str, asked: &Asked) -> Answer {
    let server = start_server(release);
    let mut ovn = Ovn::fill(release, &server, request);
    let northbound = Northbound::new(&read_northbound(&server), None);
    let mut tally = Tally::default();
    compare(&northbound, &mut ovn.trace, asked, &mut tally);
    assert!(tally.wrong.is_empty(), "{}", tally.differences());
    assert_eq!(tally.asked, 1, "{:?} is not traced", asked.question);
    northbound.answer(&asked.question).unwrap()
}

/// The answer of ovn-trace, which that of the library has to be.
pub(super) fn assert_same(answer: &Answer, text: &str) {
    let outputs = TraceOutcome::read(text).outputs;
    let out: Vec<_> = answer.out.iter().cloned().collect();
    assert_eq!(out, outputs, "{answer:#?}\n{text}");
    assert_eq!(answer.open, [""; 0]);
}

/// The answer is not to be trusted, because of a row with this effect.
fn assert_unjudged(answer: &Answer, effect: &str, table: &str) {
    let start = format!("cannot be judged: {effect} [{table} ");
    let is_noted = answer.open.iter().any(|text| text.starts_with(&start));
    assert!(is_noted, "{start} {answer:#?}");
}

fn releases() -> impl Iterator<Item = Release> {
    [Some(Release::installed()), Release::newest()].into_iter().flatten()
}

#[test]
fn a_forwarding_group_gives_its_packets_to_its_ports() {
    for release in releases() {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "fg", "vip": "10.1.0.9", "vmac": "0a:00:00:00:01:09",
            "child_port": set(&["v2"])});
        let group = network.rows.insert("Forwarding_Group", row);
        network.columns = json!({"s1": {"forwarding_groups": references(&[group])}});
        let target = ("10.1.0.9", "0a:00:00:00:01:09");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.out.as_deref(), Some("v2"), "{answer:#?}");
        // ovn-trace does not follow the action `fwd_group`.
        assert_eq!(TraceOutcome::read(&text).outputs, [""; 0], "{text}");
    }
}

#[test]
fn routing_protocols_go_to_the_port_that_the_router_port_names() {
    let Some(release) = Release::newest() else {
        return;
    };
    let options = map(&[("routing-protocol-redirect", "v2"), ("routing-protocols", "BGP")]);
    let request = Network::new(json!({"rp1": {"options": options}})).finish();
    let target = ("10.1.0.1", "0a:00:00:00:01:01");
    for header in [BGP, WEB] {
        let (answer, text) = ask(&release, &request, target, header);
        assert_same(&answer, &text);
        let is_redirected = header.0 == BGP.0;
        assert_eq!(answer.out.is_some(), is_redirected, "{answer:#?}");
    }
}

#[test]
fn packets_from_a_vtep_port_meet_no_acl() {
    for release in releases() {
        let options = map(&[("vtep-physical-switch", "ps"), ("vtep-logical-switch", "ls")]);
        let mut network = Network::new(json!({"v1": {"type": "vtep", "options": options}}));
        let row = json!({"direction": "from-lport", "priority": 1, "match": "ip4",
            "action": "drop"});
        let acl = network.rows.insert("ACL", row);
        network.columns["s1"] = json!({"acls": references(&[acl])});
        let target = ("10.1.0.3", "0a:00:00:00:01:03");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), Some("v2"), "{answer:#?}");
    }
}

#[test]
fn a_network_function_is_not_judged() {
    let Some(release) = Release::newest() else {
        return;
    };
    let mut network = Network::new(json!({}));
    network.add_network_function("from-lport", "ip4");
    let target = ("10.1.0.3", "0a:00:00:00:01:03");
    let (answer, text) = ask(&release, &network.finish(), target, WEB);
    assert_eq!(TraceOutcome::read(&text).outputs, ["in"], "{text}");
    let effect = "network function group nfg gets the packet";
    assert_unjudged(&answer, effect, "ACL");
}

/// The replies of the machine at the port of a network function meet no egress ACL.
#[test]
fn a_reply_of_a_network_function_is_not_judged() {
    let Some(release) = Release::newest() else {
        return;
    };
    let row = json!({"addresses": "0a:00:00:00:01:09 10.1.0.9",
        "options": map(&[("disable_arp_nd_rsp", "true")])});
    let mut network = Network::new(json!({"in": row}));
    network.add_network_function("from-lport", "ip6");
    let row = json!({"direction": "to-lport", "priority": 2, "match": "outport == \"v1\"",
        "action": "drop"});
    let acl = network.rows.insert("ACL", row);
    let acls = network.columns["s1"]["acls"][1].as_array_mut().unwrap();
    acls.push(json!(["named-uuid", acl]));
    let target = ("10.1.0.9", "0a:00:00:00:01:09");
    let (answer, text) = ask(&release, &network.finish(), target, WEB);
    assert_eq!(TraceOutcome::read(&text).outputs, ["in"], "{text}");
    let effect = "which packets a network function sends on: in";
    assert_unjudged(&answer, effect, "Logical_Switch_Port");
}

#[test]
fn ovn_ignores_acls_that_give_nothing_to_their_network_function() {
    let Some(release) = Release::newest() else {
        return;
    };
    // An ACL with the group, and one behind it.
    for (first, second) in [("allow", "drop"), ("drop", "allow-related")] {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "nfg", "id": 1, "mode": "inline"});
        let group = network.rows.insert("Network_Function_Group", row);
        let acls = [(first, 2), (second, 1)].map(|(action, priority)| {
            let mut row = json!({"direction": "from-lport", "priority": priority, "match": "ip4",
                "action": action});
            if action == first {
                row["network_function_group"] = json!(["named-uuid", group]);
            }
            network.rows.insert("ACL", row)
        });
        network.columns = json!({"s1": {"acls": references(&acls)}});
        let target = ("10.1.0.3", "0a:00:00:00:01:03");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.is_none(), second == "drop", "{answer:#?}");
    }
}

/// Neither ACL decides, but the packets that they match are not tracked.
#[test]
fn a_stateless_acl_that_ovn_ignores_keeps_its_packets_from_load_balancers() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (text, has_group, out) in
        [("ip4", true, None), ("ip4 // to the end", false, None), ("ip6", true, Some("v2"))]
    {
        let mut network = Network::new(json!({}));
        let mut row = json!({"direction": "from-lport", "priority": 1, "match": text,
            "action": "allow-stateless"});
        if has_group {
            let group = network.rows.insert(
                "Network_Function_Group",
                json!({"name": "nfg", "id": 1, "mode": "inline"}),
            );
            row["network_function_group"] = json!(["named-uuid", group]);
        }
        let acl = network.rows.insert("ACL", row);
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.1.0.3:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        network.columns["s1"] = json!({"acls": references(&[acl]),
            "load_balancer": references(&[balancer])});
        let target = ("10.96.0.1", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

#[test]
fn the_address_of_a_virtual_port_is_not_judged() {
    for release in releases() {
        let mut network = Network::new(json!({}));
        let options = map(&[("virtual-ip", "10.1.0.9"), ("virtual-parents", "v2")]);
        let row = json!({"type": "virtual", "addresses": "0a:00:00:00:01:09 10.1.0.9",
            "options": options});
        network.add_port("vip", row);
        // The parent v2 answers for the address.
        let target = ("10.1.0.9", "0a:00:00:00:01:03");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(TraceOutcome::read(&text).outputs, ["v2"], "{text}");
        let effect = "which parent of virtual port vip has 10.1.0.9";
        assert_unjudged(&answer, effect, "Logical_Switch_Port");
    }
}

#[test]
fn multicast_is_not_judged() {
    for release in releases() {
        let request = Network::new(json!({})).finish();
        let target = ("239.1.1.1", "01:00:5e:01:01:01");
        let header = (Protocol::Udp(53), "udp.dst == 53");
        let (answer, text) = ask(&release, &request, target, header);
        assert!(TraceOutcome::read(&text).outputs.contains(&"v2".to_owned()), "{text}");
        let effect = "which ports of switch s1 get packets for 239.1.1.1";
        assert_unjudged(&answer, effect, "Logical_Switch");
    }
}

#[test]
fn queries_for_names_that_the_switch_knows_are_not_judged() {
    for release in releases() {
        let mut network = Network::new(json!({}));
        let row = json!({"records": map(&[("name", "10.1.0.3")])});
        let dns = network.rows.insert("DNS", row);
        network.columns = json!({"s1": {"dns_records": references(&[dns])}});
        let header = (Protocol::Udp(53), "udp.dst == 53");
        let target = ("10.1.0.3", "0a:00:00:00:01:03");
        let (answer, text) = ask(&release, &network.finish(), target, header);
        assert!(text.contains("dns_lookup"), "{text}");
        let effect = "which DNS queries switch s1 answers";
        assert_unjudged(&answer, effect, "DNS");
    }
}

#[test]
fn a_load_balancer_serves_stateless_packets_where_the_switch_wants_it() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (value, out) in [("true", Some("v2")), ("false", None)] {
        let mut network = Network::new(json!({}));
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.1.0.3:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        let row = json!({"direction": "from-lport", "priority": 1, "match": "ip4",
            "action": "allow-stateless"});
        let acl = network.rows.insert("ACL", row);
        network.columns["s1"] = json!({"acls": references(&[acl]),
            "load_balancer": references(&[balancer]),
            "other_config": map(&[("enable-stateless-acl-with-lb", value)])});
        let target = ("10.96.0.1", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_same(&answer, &text);
        assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
    }
}

#[test]
fn an_event_of_a_vip_without_backends_comes_before_vips_with_ports() {
    for release in releases() {
        for (value, out) in [("true", None), ("false", Some("v2"))] {
            let mut network = Network::new(json!({}));
            let row = json!({"name": "lb", "options": map(&[("event", value)]),
                "vips": map(&[("10.96.0.1", ""), ("10.96.0.1:80", "10.1.0.3:80")])});
            let balancer = network.rows.insert("Load_Balancer", row);
            network.columns["s1"] = json!({"load_balancer": references(&[balancer])});
            let target = ("10.96.0.1", "0a:00:00:00:01:01");
            let (answer, text) = ask(&release, &network.finish(), target, WEB);
            assert_same(&answer, &text);
            assert_eq!(answer.out.as_deref(), out, "{answer:#?}");
        }
    }
}

#[test]
fn an_address_whose_machine_is_unknown_gets_no_packets_of_a_router() {
    for release in releases() {
        let addresses = set(&["0a:00:00:00:02:02 10.2.0.2", "unknown"]);
        let request = Network::new(json!({"v3": {"addresses": addresses}})).finish();
        let target = ("10.2.0.77", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &request, target, WEB);
        // ovn-trace shows the request, and then the packet without the address that it asks for.
        assert!(text.contains("arp {"), "{text}");
        assert_eq!(answer.verdict, Verdict::Dropped, "{answer:#?}");
        let effect = "whether the machine of port v3 has 10.2.0.77";
        assert_unjudged(&answer, effect, "Logical_Switch_Port");
    }
}

/// OVN's flows for packets of stateless ACLs and for packets to the router have the same priority.
#[test]
fn a_switch_may_clear_the_state_of_a_stateless_packet_for_a_router() {
    let Some(release) = Release::newest() else {
        return;
    };
    for (text, choices) in [("ct.new && ip4", 1), ("ip4", 0)] {
        let mut network = Network::new(json!({}));
        let acls =
            [("allow-stateless", text, 2), ("drop", "ip4", 1)].map(|(action, text, priority)| {
                let row = json!({"direction": "to-lport", "priority": priority, "match": text,
                "action": action});
                network.rows.insert("ACL", row)
            });
        let row = json!({"name": "lb", "vips": map(&[("10.96.0.1:80", "10.2.0.2:80")])});
        let balancer = network.rows.insert("Load_Balancer", row);
        network.columns["s1"] = json!({"acls": references(&acls),
            "load_balancer": references(&[balancer])});
        let target = ("10.2.0.2", "0a:00:00:00:01:01");
        let (answer, text) = ask(&release, &network.finish(), target, WEB);
        assert_eq!(answer.open.len(), choices, "{answer:#?}");
        if choices == 0 {
            assert_same(&answer, &text);
        }
    }
}
