//! Outcome of a packet in the output of ovn-trace.

/// Blocks whose packets are not the traced one: requests and errors that a router sends.
const OTHER_PACKETS: [&str; 8] =
    ["arp", "nd_ns", "icmp4", "icmp6", "icmp4_error", "icmp6_error", "tcp_reset", "sctp_abort"];

/// Beginning of the names of ports that OVN adds for mirrors.
const MIRROR_PREFIX: &str = "mp-";

/// Destinations of the packet of a trace.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct TraceOutcome {
    /// Names of the ports by which the packet goes out.
    pub outputs: Vec<String>,
    /// Source that was put in its place. `None`: the source stays.
    pub source: Option<String>,
    /// `true` if a router made an answer of the packet.
    pub is_answer: bool,
    /// `true` if the packet ends because a router has to learn the MAC address of a neighbour that
    /// answers. OVN delivers the next packet.
    pub is_learning: bool,
    /// Request of a router for the MAC address of a neighbour. The outputs behind it are those of
    /// the packet without the address. `None`: the router knows the address.
    pub request: Option<MacRequest>,
    /// Names of the ports whose machines get the request.
    pub asked: Vec<String>,
}

/// Request for a MAC address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MacRequest {
    /// ARP.
    Arp,
    /// Neighbour discovery, of which ovn-trace follows no answers.
    Nd,
}

impl TraceOutcome {
    /// Reads the output of `ovn-trace --minimal`.
    ///
    /// # Panics
    /// The text ends inside a block.
    pub fn read(text: &str) -> Self {
        let mut outcome = Self::default();
        let mut others = 0;
        let mut depth = 0;
        for line in text.lines().map(str::trim) {
            if let Some(block) = line.strip_suffix('{') {
                let name = block.split(['(', ' ']).next().unwrap_or_default();
                match name {
                    "arp" if others == 0 => outcome.request = Some(MacRequest::Arp),
                    "nd_ns" if others == 0 => outcome.request = Some(MacRequest::Nd),
                    _ => {}
                }
                let is_other = OTHER_PACKETS.contains(&name) || name == "reject";
                if others > 0 || is_other {
                    others += 1;
                }
                depth += 1;
            }
            if others == 0 {
                outcome.read_line(line);
            } else if line.starts_with("arp.op = 2") || line.starts_with("nd_na") {
                outcome.is_learning = true;
            } else if outcome.request.is_some() {
                outcome.asked.extend(read_output(line));
            }
            if line.starts_with('}') {
                depth -= 1;
                others = usize::max(others, 1) - 1;
            }
        }
        assert_eq!(depth, 0, "{text}");
        outcome
    }

    fn read_line(&mut self, line: &str) {
        self.outputs.extend(read_output(line));
        for prefix in [
            "ct_snat(ip4.src=",
            "ct_snat(ip6.src=",
            "ct_snatin_czone(ip4.src=",
            "ct_snatin_czone(ip6.src=",
        ] {
            if let Some((_, rest)) = line.split_once(prefix) {
                let source = rest.split(')').next().unwrap_or_default();
                self.source = Some(source.to_owned());
            }
        }
        // `ct_snat(ip4.src=...)`, or the assignment of a NAT rule without state.
        for prefix in ["ip4.src = ", "ip6.src = "] {
            if let Some(rest) = line.strip_prefix(prefix) {
                self.source = Some(rest.trim_end_matches(';').to_owned());
            }
        }
        self.is_answer |=
            line.starts_with("icmp4.type = 0") || line.starts_with("icmp6.type = 129");
    }
}

/// Name of the port by which a packet goes out. `None`: it does not go out, or is a copy for a port
/// that OVN adds for mirrors.
fn read_output(line: &str) -> Option<String> {
    let (port, _) = line.strip_prefix("output(\"")?.split_once('"')?;
    (!port.starts_with(MIRROR_PREFIX)).then(|| port.to_owned())
}
