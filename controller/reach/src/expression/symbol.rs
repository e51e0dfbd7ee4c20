//! Names of the expression language: fields, subfields and predicates with their prerequisites
//! (ovn-sb(5), `Logical_Flow`, column `match`).

use super::field::{Condition, Field};

/// Name that an expression can test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) kind: SymbolKind,
    /// Number of bits; 0 for ports.
    pub(crate) width: u32,
    pub(crate) level: Level,
    /// Condition without which every comparison is false.
    pub(crate) prerequisite: Condition,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SymbolKind {
    /// Bits of a field, from the bit `offset`.
    Field {
        field: Field,
        offset: u32,
    },
    Predicate(Condition),
    /// Name of the input port.
    InputPort,
    /// Name of the output port.
    OutputPort,
}

/// Operators that a symbol accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Level {
    /// Equality, not its negation.
    Nominal,
    /// Equality and its negation.
    Boolean,
    /// All comparisons.
    Ordinal,
}

/// Bits of `ct_state` that a match can test.
const CONNECTION_STATES: [(&str, u32); 8] = [
    ("new", 0),
    ("est", 1),
    ("rel", 2),
    ("rpl", 3),
    ("inv", 4),
    ("trk", 5),
    ("snat", 6),
    ("dnat", 7),
];

/// Bits of `flags` by their names. They belong to pipelines and are 0 in every match of a row.
const FLAGS: [&str; 14] = [
    "loopback",
    "force_snat_for_dnat",
    "force_snat_for_lb",
    "skip_snat_for_lb",
    "use_snat_zone",
    "localnet",
    "icmp_snat",
    "tunnel_rx",
    "unsnat_new",
    "unsnat_not_tracked",
    "network_id",
    "from_ctrl",
    "igmp_loopback",
    "pkt_sampled",
];

impl Symbol {
    /// The symbol with a name. `None`: OVN has no such symbol.
    pub(crate) fn find(name: &str) -> Option<Self> {
        find_port(name)
            .or_else(|| find_field(name))
            .or_else(|| find_predicate(name))
            .or_else(|| find_pipeline_state(name))
    }
}

fn find_port(name: &str) -> Option<Symbol> {
    let kind = match name {
        "inport" => SymbolKind::InputPort,
        "outport" => SymbolKind::OutputPort,
        _ => return None,
    };
    Some(Symbol { kind, width: 0, level: Level::Nominal, prerequisite: Condition::True })
}

fn find_field(name: &str) -> Option<Symbol> {
    use Level::{Nominal, Ordinal};
    let (field, offset, width, level, prerequisite) = match name {
        "eth.src" => (Field::EthSource, 0, 48, Ordinal, Condition::True),
        "eth.dst" => (Field::EthDestination, 0, 48, Ordinal, Condition::True),
        "eth.mcast" => (Field::EthDestination, 40, 1, Ordinal, Condition::True),
        "eth.type" => (Field::EthType, 0, 16, Nominal, Condition::True),
        "vlan.tci" => (Field::Zero, 0, 16, Ordinal, Condition::True),
        "vlan.pcp" => (Field::Zero, 13, 3, Ordinal, Condition::False),
        "vlan.vid" => (Field::Zero, 0, 12, Ordinal, Condition::False),
        "ip.proto" => (Field::IpProtocol, 0, 8, Nominal, Condition::Ip),
        "ip.dscp" => (Field::Dscp, 0, 6, Nominal, Condition::Ip),
        "ip.ecn" => (Field::Zero, 0, 2, Nominal, Condition::Ip),
        "ip.ttl" => (Field::Ttl, 0, 8, Nominal, Condition::Ip),
        "ip.frag" => (Field::Zero, 0, 2, Ordinal, Condition::Ip),
        "ip4.src" => (Field::Source, 0, 32, Ordinal, Condition::Ip4),
        "ip4.dst" => (Field::Destination, 0, 32, Ordinal, Condition::Ip4),
        "icmp4.type" => (Field::IcmpType, 0, 8, Nominal, Condition::Icmp4),
        "icmp4.code" => (Field::Zero, 0, 8, Nominal, Condition::Icmp4),
        "ip6.src" => (Field::Source, 0, 128, Ordinal, Condition::Ip6),
        "ip6.dst" => (Field::Destination, 0, 128, Ordinal, Condition::Ip6),
        "ip6.label" => (Field::Zero, 0, 20, Ordinal, Condition::Ip6),
        "icmp6.type" => (Field::IcmpType, 0, 8, Nominal, Condition::Icmp6),
        "icmp6.code" => (Field::Zero, 0, 8, Nominal, Condition::Icmp6),
        "arp.op" => (Field::ArpOperation, 0, 16, Nominal, Condition::Arp),
        "arp.spa" => (Field::ArpSourceAddress, 0, 32, Ordinal, Condition::Arp),
        "arp.sha" => (Field::ArpSourceMac, 0, 48, Ordinal, Condition::Arp),
        "arp.tpa" => (Field::ArpTargetAddress, 0, 32, Ordinal, Condition::Arp),
        "arp.tha" => (Field::ArpTargetMac, 0, 48, Ordinal, Condition::Arp),
        "rarp.op" => (Field::Zero, 0, 16, Nominal, Condition::False),
        "rarp.spa" | "rarp.tpa" => (Field::Zero, 0, 32, Ordinal, Condition::False),
        "nd.target" => (Field::Zero, 0, 128, Ordinal, Condition::False),
        "nd.sll" | "nd.tll" | "rarp.sha" | "rarp.tha" => {
            (Field::Zero, 0, 48, Ordinal, Condition::False)
        }
        "tcp.src" => (Field::SourcePort, 0, 16, Ordinal, Condition::Tcp),
        "tcp.dst" => (Field::DestinationPort, 0, 16, Ordinal, Condition::Tcp),
        "tcp.flags" => (Field::TcpFlags, 0, 12, Ordinal, Condition::Tcp),
        "udp.src" => (Field::SourcePort, 0, 16, Ordinal, Condition::Udp),
        "udp.dst" => (Field::DestinationPort, 0, 16, Ordinal, Condition::Udp),
        "sctp.src" => (Field::SourcePort, 0, 16, Ordinal, Condition::Sctp),
        "sctp.dst" => (Field::DestinationPort, 0, 16, Ordinal, Condition::Sctp),
        "pkt.mark" => (Field::Mark, 0, 32, Ordinal, Condition::True),
        _ => return None,
    };
    Some(Symbol { kind: SymbolKind::Field { field, offset }, width, level, prerequisite })
}

fn find_predicate(name: &str) -> Option<Symbol> {
    use Level::{Boolean, Nominal, Ordinal};
    let (condition, level) = match name {
        "eth.bcast" => (Condition::EthBroadcast, Boolean),
        "eth.mcastv6" => (Condition::EthMulticast6, Boolean),
        "vlan.present"
        | "from_evpn_vtep"
        | "to_evpn_vtep"
        | "ip6.mcast_rsvd"
        | "ip6.mcast_all_nodes"
        | "ip6.mcast_all_rtrs"
        | "ip6.mcast_sol_node"
        | "ip6.mcast_flood"
        | "ip6.mcast"
        | "ip.is_frag"
        | "ip.later_frag"
        | "ip.first_frag" => (Condition::False, Boolean),
        "ip" => (Condition::Ip, Nominal),
        "ip4" => (Condition::Ip4, Nominal),
        "ip6" => (Condition::Ip6, Nominal),
        "ip4.src_mcast" => (Condition::Source4Multicast, Boolean),
        "ip4.mcast" => (Condition::Destination4Multicast, Boolean),
        "icmp" => (Condition::Icmp, Nominal),
        "icmp4" => (Condition::Icmp4, Nominal),
        "icmp6" => (Condition::Icmp6, Nominal),
        "tcp" => (Condition::Tcp, Nominal),
        "udp" => (Condition::Udp, Nominal),
        "sctp" => (Condition::Sctp, Nominal),
        "arp" => (Condition::Arp, Nominal),
        "igmp" | "rarp" | "nd" | "nd_ns" | "nd_ns_mcast" | "nd_na" | "nd_rs" | "nd_ra"
        | "mldv1" | "mldv2" => (Condition::False, Nominal),
        _ => return None,
    };
    debug_assert_ne!(level, Ordinal);
    Some(Symbol {
        kind: SymbolKind::Predicate(condition),
        width: 1,
        level,
        prerequisite: Condition::True,
    })
}

/// Connection tracking state, flags and registers.
fn find_pipeline_state(name: &str) -> Option<Symbol> {
    let (field, offset, width, prerequisite) = match name.split_once('.') {
        Some(("ct", state)) => {
            let (_, bit) = CONNECTION_STATES.iter().find(|(name, _)| *name == state)?;
            let prerequisite = if state == "trk" { Condition::True } else { Condition::Tracked };
            (Field::ConnectionState, *bit, 1, prerequisite)
        }
        Some(("flags", flag)) if FLAGS.contains(&flag) => {
            let width = if flag == "network_id" { 4 } else { 1 };
            (Field::Zero, 0, width, Condition::True)
        }
        Some(("ct_mark", part)) => (Field::Zero, 0, mark_width(part)?, Condition::True),
        Some(("ct_label", part)) => (Field::Zero, 0, label_width(part)?, Condition::True),
        Some(_) => return None,
        None => match name {
            "ct_state" => (Field::ConnectionState, 0, 32, Condition::True),
            "ct_mark" | "flags" => (Field::Zero, 0, 32, Condition::True),
            "ct_label" => (Field::Zero, 0, 128, Condition::True),
            register => (Field::Zero, 0, register_width(register)?, Condition::True),
        },
    };
    Some(Symbol {
        kind: SymbolKind::Field { field, offset },
        width,
        level: Level::Ordinal,
        prerequisite,
    })
}

fn mark_width(part: &str) -> Option<u32> {
    match part {
        "blocked" | "natted" | "skip_snat" | "force_snat" | "allow_established" => Some(1),
        "obs_stage" => Some(2),
        "obs_collector_id" => Some(8),
        "ecmp_reply_port" => Some(16),
        _ => None,
    }
}

fn label_width(part: &str) -> Option<u32> {
    match part {
        "nf" | "tun_if" => Some(1),
        "nf_id" => Some(8),
        "acl_id" | "tun_if_id" => Some(16),
        "label" | "obs_point_id" => Some(32),
        "ecmp_reply_eth" => Some(48),
        "obs_unused" => Some(96),
        _ => None,
    }
}

/// Width of `reg0` to `reg9`, `xreg0` to `xreg4`, `xxreg0` and `xxreg1`. `None`: another name.
fn register_width(name: &str) -> Option<u32> {
    let (digits, width, count) = match name.strip_prefix("xxreg") {
        Some(digits) => (digits, 128, 2),
        None => match name.strip_prefix("xreg") {
            Some(digits) => (digits, 64, 5),
            None => (name.strip_prefix("reg")?, 32, 10),
        },
    };
    let is_number = digits.len() == 1 && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && digits.parse::<u32>().ok()? < count).then_some(width)
}
