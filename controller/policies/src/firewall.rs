//! ACLs of EgressFirewalls.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    FirewallAction, FirewallDestination, FirewallPort, FirewallRule, IpFamily, PolicyDirection,
    Protocol, format_address,
};
use patchbay_schemas::nb::{Acl, AclAction};
use patchbay_zone::{AclLogging, ZoneObjects};

use super::acls::{acl, identified};
use super::ports::{ip_word, word};
use super::tables::{DEFAULT_NETWORK, FIREWALL};

/// Priority of the ACL of the first rule. The one of each other rule is one lower.
const FIRST_PRIORITY: i64 = 10_000;

/// Order of protocols in matches.
const PROTOCOLS: [Protocol; 3] = [Protocol::Udp, Protocol::Tcp, Protocol::Sctp];

/// Inputs of the ACLs of a firewall other than its rules.
pub(super) struct FirewallScene<'a> {
    pub(super) namespace: &'a str,
    /// Name of the port group of the namespace.
    pub(super) group: &'a str,
    /// Subnets of the network. Packets within it are not the firewall's.
    pub(super) subnets: &'a [IpNet],
    pub(super) logging: AclLogging,
}

impl FirewallScene<'_> {
    /// ACL of a rule. `nodes`: addresses of the nodes that the rule chooses. `None`: the rule has
    /// no destinations.
    ///
    /// The packets come from the pods, yet the ACL is in the pipeline towards ports, so that
    /// services are resolved before.
    pub(super) fn acl(&self, index: usize, rule: &FirewallRule, nodes: Vec<IpAddr>) -> Option<Acl> {
        let destinations = match &rule.destination {
            FirewallDestination::Cidr { cidr, text } => self.subnet_match(*cidr, text),
            FirewallDestination::Nodes(_) => nodes_match(nodes)?,
            FirewallDestination::Name(_) => return None,
        };
        let mut text = format!("({destinations}) && inport == @{}", self.group);
        if !rule.ports.is_empty() {
            text = format!("{text} && ({})", ports_match(&rule.ports));
        }
        let index_text = index.to_string();
        let values = [("rule-index", index_text.as_str())];
        let ids = identified(DEFAULT_NETWORK, FIREWALL, self.namespace, &values);
        let (action, severity) = match rule.action {
            FirewallAction::Allow => (AclAction::Allow, self.logging.allow),
            FirewallAction::Deny => (AclAction::Drop, self.logging.deny),
        };
        let name = format!("EF:{}:{index}", self.namespace);
        Some(Acl {
            action,
            priority: FIRST_PRIORITY - i64::try_from(index).ok()?,
            r#match: text,
            external_ids: ids.external_ids,
            log: severity.is_some(),
            severity,
            ..acl(PolicyDirection::Ingress, name)
        })
    }

    /// Match of the addresses of a subnet, but for those of the network.
    fn subnet_match(&self, cidr: IpNet, text: &str) -> String {
        let field = format!("{}.dst", ip_word(IpFamily::of_net(cidr)));
        let own: Vec<String> = self
            .subnets
            .iter()
            .filter(|subnet| subnet.contains(&cidr.network()) || cidr.contains(&subnet.network()))
            .map(|subnet| format!("{field} != {subnet}"))
            .collect();
        // OVN refuses addresses with host bits.
        let destinations = if cidr == cidr.trunc() {
            format!("{field} == {text}")
        } else {
            format!("{field} == {}", cidr.trunc())
        };
        if own.is_empty() { destinations } else { format!("{destinations} && {}", own.join("&&")) }
    }
}

/// Match of the addresses of nodes. `None`: there are none.
fn nodes_match(addresses: Vec<IpAddr>) -> Option<String> {
    let mut addresses: Vec<(String, IpFamily)> = addresses
        .into_iter()
        .map(|address| (format_address(address), IpFamily::of(address)))
        .collect();
    addresses.sort_unstable();
    let terms: Vec<String> = addresses
        .into_iter()
        .map(|(address, family)| format!("{}.dst == {address}", ip_word(family)))
        .collect();
    (!terms.is_empty()).then(|| terms.join(" || "))
}

fn ports_match(ports: &[FirewallPort]) -> String {
    let terms = PROTOCOLS.into_iter().filter_map(|protocol| {
        let ports: Option<Vec<u16>> =
            ports.iter().filter(|port| port.protocol == protocol).map(|port| port.port).collect();
        let name = word(protocol);
        let Some(ports) = ports else {
            return Some(format!("({name})"));
        };
        let terms: Vec<String> = ports.iter().map(|port| format!("{name}.dst == {port}")).collect();
        (!terms.is_empty()).then(|| format!("({name} && ( {} ))", terms.join(" || ")))
    });
    terms.collect::<Vec<_>>().join(" || ")
}

/// A node that is a destination, and whose addresses cannot be read.
pub(super) fn unread_node<'a>(
    objects: &'a ZoneObjects,
    destination: &FirewallDestination,
) -> Option<&'a Arc<str>> {
    match destination {
        FirewallDestination::Nodes(selector) => objects.unread_node([selector]),
        FirewallDestination::Cidr { .. } | FirewallDestination::Name(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn match_of(rule: &FirewallRule, nodes: &[&str]) -> Option<String> {
        let subnets = ["10.10.0.0/16", "10.20.0.0/16", "fd10::/48"];
        let scene = FirewallScene {
            namespace: "blue",
            group: "pg",
            subnets: &subnets.map(|subnet| subnet.parse().unwrap()),
            logging: AclLogging::default(),
        };
        let nodes = nodes.iter().map(|node| node.parse().unwrap()).collect();
        Some(scene.acl(0, rule, nodes)?.r#match)
    }

    fn to(destination: FirewallDestination) -> FirewallRule {
        FirewallRule { action: FirewallAction::Deny, destination, ports: Vec::new() }
    }

    fn cidr(text: &str) -> FirewallDestination {
        FirewallDestination::Cidr { cidr: text.parse().unwrap(), text: text.to_owned() }
    }

    #[test]
    fn a_subnet_is_matched_without_the_network() {
        let cases = [
            ("1.2.3.0/24", "(ip4.dst == 1.2.3.0/24)"),
            ("10.10.1.0/24", "(ip4.dst == 10.10.1.0/24 && ip4.dst != 10.10.0.0/16)"),
            (
                "0.0.0.0/0",
                "(ip4.dst == 0.0.0.0/0 && ip4.dst != 10.10.0.0/16&&ip4.dst != 10.20.0.0/16)",
            ),
            ("::/0", "(ip6.dst == ::/0 && ip6.dst != fd10::/48)"),
        ];
        for (text, matched) in cases {
            let found = match_of(&to(cidr(text)), &[]);
            assert_eq!(found, Some(format!("{matched} && inport == @pg")));
        }
    }

    #[test]
    fn nodes_are_matched_by_their_addresses_and_names_not_at_all() {
        let nodes = to(FirewallDestination::Nodes(patchbay_model::Selector::default()));
        assert_eq!(match_of(&nodes, &[]), None);
        assert_eq!(
            match_of(&nodes, &["172.18.0.3", "172.18.0.11", "fc00::2"]),
            Some(
                "(ip4.dst == 172.18.0.11 || ip4.dst == 172.18.0.3 || ip6.dst == fc00::2) && \
                 inport == @pg"
                    .to_owned()
            )
        );
        let name = FirewallDestination::Name("example.com".to_owned());
        assert_eq!(match_of(&to(name), &["172.18.0.3"]), None);
    }

    #[test]
    fn ports_are_grouped_by_protocol() {
        let port = |protocol, port| FirewallPort { protocol, port };
        let rule = FirewallRule {
            ports: vec![
                port(Protocol::Tcp, Some(443)),
                port(Protocol::Sctp, None),
                port(Protocol::Udp, Some(53)),
                port(Protocol::Tcp, Some(80)),
                port(Protocol::Sctp, Some(7)),
            ],
            ..to(cidr("1.2.3.4/32"))
        };
        let ports = "(udp && ( udp.dst == 53 )) || (tcp && ( tcp.dst == 443 || tcp.dst == 80 )) || \
                     (sctp)";
        assert_eq!(
            match_of(&rule, &[]),
            Some(format!("(ip4.dst == 1.2.3.4/32) && inport == @pg && ({ports})"))
        );
    }
}
