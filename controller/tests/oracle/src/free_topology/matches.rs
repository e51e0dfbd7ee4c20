//! Random matches of ACLs, policies, NAT rules and marks.

use super::{Families, Topology};
use crate::random::Random;

impl Topology {
    pub(super) fn switch_match(
        &self,
        random: &mut Random,
        address_set: &str,
        group: &str,
        is_ingress: bool,
    ) -> String {
        let side = if is_ingress { "inport" } else { "outport" };
        let machine = random.pick(&self.machines);
        let choices = [
            format!("{side} == @{group}"),
            format!("{side} == @{group} && ip4"),
            format!("{side} == @{group} && tcp.dst == {{80, 22}}"),
            format!("{side} == \"{}\" && ip4", machine.port),
            format!("{side} == {{\"{}\", \"nowhere\"}}", machine.port),
            format!("eth.src == {}", machine.mac),
            format!("outport == \"{}\" && ct.new", machine.port),
            format!("outport == \"{}\" && !ct.new", machine.port),
            format!("ip4.src == ${address_set}"),
            format!("ip4.dst != ${address_set}"),
            format!("ip4 && ip4.dst == $missing_{address_set}"),
            format!("{side} != \"{}\"", machine.port),
            "arp || icmp4".to_owned(),
            "eth.dst[0..7] == 1".to_owned(),
            // IPv6 load balancers write other values into the register.
            match self.families {
                Families::Ipv4 => "reg7 == 0 && ip".to_owned(),
                Families::Ipv6 | Families::Both => "ip".to_owned(),
            },
            format!("ip4.src == ${group}_ip4"),
            format!("{side} == @{group} && ip4.dst == ${group}_ip4"),
            format!("ip4.src == {{${group}_ip4, ${address_set}}} && tcp"),
            "ct.new && ip4".to_owned(),
            "ct.trk && tcp".to_owned(),
            self.ip_match(random),
            self.ip_match(random),
            self.ip_match(random),
            self.ip_match(random),
        ];
        random.pick(&choices).clone()
    }

    pub(super) fn ip_match(&self, random: &mut Random) -> String {
        let address = random.pick(&self.destinations);
        let other = random.pick(&self.destinations);
        let choices = [
            format!("ip4.src == {address}"),
            format!("ip4.dst == {address}"),
            format!("ip4.dst == {{{address}, {other}}} && tcp"),
            format!("ip4.src != {address} && ip4.dst == {other}"),
            format!("!(ip4.dst == {{{address}, {other}}})"),
            format!("ip4.dst == {address} /* a comment */ && (tcp || udp)"),
            format!("{address} == ip4.dst // to the end"),
            "ip4.dst == 10.2.0.0/16".to_owned(),
            "ip4.src == 10.1.0.0/255.255.255.0 && icmp4.type == 8".to_owned(),
            "ip4.dst[8..15] == 0 && ip.proto == 6".to_owned(),
            "80 <= tcp.dst < 100".to_owned(),
            "udp.dst > 52 || tcp.dst == 22".to_owned(),
            "tcp.dst != 80".to_owned(),
            "!(tcp.dst == 80 || udp)".to_owned(),
            "!(tcp.dst == 80) && !(ip4.src == 10.2.0.0/16)".to_owned(),
            "tcp.flags == 2/2".to_owned(),
            "ip.ttl == 64 || icmp".to_owned(),
            "pkt.mark == 5".to_owned(),
            "ip.dscp == 10".to_owned(),
            "tcp.dst == 99999".to_owned(),
            "!ct.est && ip4".to_owned(),
            "ct.new && tcp".to_owned(),
            "ct.est || ct.rel || ct.rpl || ct.inv".to_owned(),
            format!("ip4.dst == ^{}", self.variable("ADDRESS")),
            "ip4 && tcp || udp".to_owned(),
            "ip4.src ==".to_owned(),
            "1".to_owned(),
            "ip4".to_owned(),
        ];
        random.pick(&choices).clone()
    }
}
