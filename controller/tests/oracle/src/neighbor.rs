//! Answers of neighbours: to the requests of machines, and to the requests of routers for IPv6,
//! which ovn-trace does not follow.

use std::net::Ipv6Addr;

use crate::arp::ArpRequest;
use crate::compare::TracedPacket;
use crate::outcome::TraceOutcome;
use crate::trace_server::{Format, TraceServer};

/// Source address of the requests of routers, whose ports have no port security.
const ROUTER_SOURCE: &str = "fe80::1";
/// Beginning of the actions by which routers and switches answer.
const ANSWER: &str = "nd_na";

/// Outcome of an ARP request.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Resolved {
    /// A switch or router answers with a MAC address.
    Mac(String),
    /// Ports whose machines get the request.
    Asked(Vec<String>),
}

impl Resolved {
    /// Traces the request of a machine on a switch.
    pub(crate) fn trace(trace: &mut TraceServer, switch: &str, request: &ArpRequest) -> Self {
        let text = trace.trace(switch, &request.expression).unwrap_or_default();
        let mut ports = TraceOutcome::read(&text).outputs;
        match read_answer(&text) {
            Some(mac) if ports.contains(&request.port) => Self::Mac(mac),
            _ => {
                ports.retain(|port| *port != request.port);
                Self::Asked(ports)
            }
        }
    }
}

/// MAC address of the last ARP answer in the output of ovn-trace. `None`: there is no answer.
fn read_answer(text: &str) -> Option<String> {
    let (_, answer) = text.rsplit_once("arp.op = 2;")?;
    let (_, rest) = answer.split_once("arp.sha = ")?;
    let text = rest.split_once(';')?.0;
    let Some(digits) = text.strip_prefix("0x") else {
        return Some(text.to_owned());
    };
    let bits = u64::from_str_radix(digits, 16).ok()?;
    let [_, _, bytes @ ..] = bits.to_be_bytes();
    let bytes = bytes.map(|byte| format!("{byte:02x}"));
    Some(bytes.join(":"))
}

/// `true` if a port inside answers the request for a MAC address with which the trace of a packet
/// ends. `text`: output of `ovn-trace --minimal` for the packet.
pub(crate) fn is_answered(trace: &mut TraceServer, packet: &TracedPacket, text: &str) -> bool {
    let Some(request) = Request::read(text) else {
        return false;
    };
    let summary = trace.trace_as(Format::Summary, &packet.datapath, &packet.expression);
    let Some((datapath, port)) = summary.as_deref().and_then(read_place) else {
        return false;
    };
    let answer =
        trace.trace_as(Format::Detailed, &datapath, &request.expression(&port, ROUTER_SOURCE));
    // It ends where a router answers for an address of its own.
    answer.is_none_or(|text| text.contains(ANSWER))
}

/// `true` if the machine that gets an IPv6 packet by one switch does not get its neighbour
/// advertisement to the sender, and the switch does not answer in its place. `output`: its port.
pub(crate) fn is_silent(trace: &mut TraceServer, packet: &TracedPacket, output: &str) -> bool {
    let field = |name: &str| {
        let (_, rest) = packet.expression.split_once(&format!("{name} == "))?;
        Some(rest.split(" && ").next()?.trim_matches('"').to_owned())
    };
    let fields =
        (field("inport"), field("eth.src"), field("eth.dst"), field("ip6.src"), field("ip6.dst"));
    let (Some(sender), Some(asker), Some(mac), Some(source), Some(address)) = fields else {
        return false;
    };
    let Ok(target) = address.parse() else {
        return false;
    };
    let request = Request { mac: asker.clone(), target };
    let solicitation = trace.trace(&packet.datapath, &request.expression(&sender, &source));
    if solicitation.is_none_or(|text| text.contains(ANSWER)) {
        return false;
    }
    let advertisement = format!(
        "inport == \"{output}\" && eth.src == {mac} && eth.dst == {asker} && ip6.src == {address} && \
         ip6.dst == {source} && ip.ttl == 255 && nd_na && nd.target == {address} && nd.tll == {mac}"
    );
    // The machine may be on a linked switch.
    let summary = trace.trace_as(Format::Summary, &packet.datapath, &packet.expression);
    let last = summary.as_deref().and_then(|text| {
        let (_, place) = text.rsplit_once("ingress(dp=\"")?;
        Some(place.split_once('"')?.0)
    });
    let text = trace.trace(last.unwrap_or(&packet.datapath), &advertisement);
    // An error does not begin with the fields of the packet.
    text.is_some_and(|text| text.starts_with('#') && TraceOutcome::read(&text).outputs.is_empty())
}

/// Request for a MAC address.
#[derive(Debug, Eq, PartialEq)]
struct Request {
    mac: String,
    target: Ipv6Addr,
}

impl Request {
    /// Reads the output of `ovn-trace --minimal`. `None`: the router asks for nothing.
    fn read(text: &str) -> Option<Self> {
        let (before, block) = text.split_once("nd_ns {")?;
        let value = |text: &str, field: &str| {
            let (_, rest) = text.rsplit_once(field)?;
            Some(rest.split_once(';')?.0.to_owned())
        };
        let target = value(block.split('}').next()?, "nd.target = ")?;
        let target = match target.strip_prefix("0x") {
            Some(digits) => u128::from_str_radix(digits, 16).ok()?.into(),
            None => target.parse().ok()?,
        };
        Some(Self { mac: value(before, "eth.src = ")?, target })
    }

    /// The request in the notation of ovn-trace, from a source address.
    fn expression(&self, port: &str, source: &str) -> String {
        let [.., a, b, c] = self.target.octets();
        format!(
            "inport == \"{port}\" && eth.src == {} && eth.dst == 33:33:ff:{a:02x}:{b:02x}:{c:02x} && \
             ip6.src == {source} && ip6.dst == ff02::1:ff{a:02x}:{b:02x}{c:02x} && ip.ttl == 255 && \
             nd_ns && nd.target == {}",
            self.mac, self.target
        )
    }
}

/// Datapath and port into which a request goes, from the output of `ovn-trace --summary`.
fn read_place(text: &str) -> Option<(String, String)> {
    // The action itself is on one line.
    let (_, block) = text.split_once("nd_ns {\n")?;
    let (_, place) = block.split_once("ingress(dp=\"")?;
    let (datapath, rest) = place.split_once('"')?;
    let (_, rest) = rest.split_once("inport=\"")?;
    let (port, _) = rest.split_once('"')?;
    Some((datapath.to_owned(), port.to_owned()))
}

#[test]
fn a_request_goes_from_a_router_into_a_switch() {
    let text = "ip.ttl--;\neth.src = 0a:00:00:00:01:02;\nnd_ns {\n    nd.target = \
                0xfd180000000000000000000000000010;\n    output(\"ln\");\n};\noutput(\"ln\");";
    let request = Request::read(text).unwrap();
    let expected = "inport == \"spx\" && eth.src == 0a:00:00:00:01:02 && \
                    eth.dst == 33:33:ff:00:00:10 && ip6.src == fe80::1 && \
                    ip6.dst == ff02::1:ff00:0010 && ip.ttl == 255 && \
                    nd_ns && nd.target == fd18::10";
    assert_eq!(request.expression("spx", ROUTER_SOURCE), expected);
    let summary = "nd_ns { nd.target = xxreg0; output; };\nnd_ns {\n  output;\n  \
                   ingress(dp=\"ext\", inport=\"spx\") {\n";
    let place = ("ext".to_owned(), "spx".to_owned());
    assert_eq!(read_place(summary), Some(place));
}

#[test]
fn an_answer_has_the_mac_address_in_one_of_two_notations() {
    for value in ["0a:00:00:00:01:03", "0xa0000000103"] {
        let text = format!("arp.op = 2;\narp.sha = {value};\narp.tpa = 10.0.0.2;");
        assert_eq!(read_answer(&text).as_deref(), Some("0a:00:00:00:01:03"));
    }
}
