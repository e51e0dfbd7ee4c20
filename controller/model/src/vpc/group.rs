//! Security groups.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{FieldProblem, format_net};

use super::acl::{AclFlow, AclReason, AclVerdict, SubnetAcl};

/// Name of the group that drops what no other group of a port allows.
pub const DENY_ALL_GROUP: &str = "kubeovn_deny_all";
/// Sum of the priorities of a rule and its ACL.
const HIGHEST_PRIORITY: i64 = 18_484;
/// Priorities of rules.
const RULE_PRIORITIES: std::ops::RangeInclusive<i64> = 1..=16_384;
/// Priority of the ACLs without which no machine gets an address.
const BASE_PRIORITY: i64 = 2005;
/// Priority of the ACLs for packets between machines of a group.
const OWN_PRIORITY: i64 = 2004;
/// Priority of the ACLs that drop.
const DROP_PRIORITY: i64 = 2003;
/// Tiers of groups.
const TIERS: [i64; 2] = [0, 1];
/// Tier of the ACLs of groups of tier 0.
const FIRST_ACL_TIER: i64 = 2;

/// ACL of a security group, with its tier in OVN.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupAcl {
    /// Tier in OVN.
    pub tier: i64,
    /// The ACL.
    pub acl: SubnetAcl,
}

/// Rule of a security group, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupRule {
    /// Path of the entry.
    pub field: String,
    /// ACL that follows from the rule.
    pub acl: SubnetAcl,
    /// Group of the other side. `None`: addresses.
    pub remote: Option<Arc<str>>,
}

/// A security group, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecurityGroup {
    /// Name.
    pub name: Arc<str>,
    /// Tier, 0 or 1.
    pub tier: i64,
    /// `true`: machines of the group reach each other.
    pub allows_own: bool,
    /// Rules.
    pub rules: Vec<GroupRule>,
    /// Rules that cannot be used, and the reason. `true`: without it more would pass.
    pub refused: Vec<(FieldProblem, bool)>,
    /// Position among the objects: of two with one port group, the first one has it.
    pub position: u64,
}

/// Fields of a rule.
#[derive(Clone, Copy, Debug)]
pub struct GroupRuleFields<'a> {
    /// Direction of packets.
    pub flow: AclFlow,
    /// `ipVersion`.
    pub ip_version: &'a str,
    /// `protocol`.
    pub protocol: &'a str,
    /// `priority`.
    pub priority: Option<i64>,
    /// `remoteType`.
    pub remote_type: &'a str,
    /// `remoteAddress`.
    pub remote_address: &'a str,
    /// `remoteSecurityGroup`.
    pub remote_group: &'a str,
    /// `localAddress`.
    pub local_address: &'a str,
    /// `portRangeMin` and `portRangeMax`.
    pub ports: (Option<i64>, Option<i64>),
    /// `sourcePortRangeMin` and `sourcePortRangeMax`.
    pub source_ports: (Option<i64>, Option<i64>),
    /// `policy`.
    pub policy: &'a str,
}

/// Name of the port group of a security group.
pub fn port_group(name: &str) -> String {
    format!("ovn.sg.{name}").replace('-', ".")
}

/// Name of the address set of a security group, for one family.
pub fn group_addresses(name: &str, is_ipv6: bool) -> String {
    let family = if is_ipv6 { "v6" } else { "v4" };
    format!("{}.associated.{family}", port_group(name))
}

impl GroupRule {
    /// Reads an entry of the fields `ingressRules` and `egressRules`. `field`: path of the entry;
    /// `group`: name of its group.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn read(
        field: &str,
        (group, tier): (&str, i64),
        fields: &GroupRuleFields<'_>,
    ) -> Result<Self, FieldProblem> {
        let problem = |name: &str, text: &str, reason: &str| {
            FieldProblem::of_text(format!("{field}.{name}"), text, reason)
        };
        let is_ipv6 = match fields.ip_version {
            "ipv4" => false,
            "ipv6" => true,
            other => return Err(problem("ipVersion", other, "is neither ipv4 nor ipv6")),
        };
        let priority = fields.priority.unwrap_or_default();
        if !RULE_PRIORITIES.contains(&priority) {
            let reason = format!("{priority} is not in 1..={}", RULE_PRIORITIES.end());
            return Err(FieldProblem::new(format!("{field}.priority"), reason));
        }
        let verdict = match fields.policy {
            "allow" => AclVerdict::AllowRelated,
            "drop" => AclVerdict::Drop,
            "pass" if tier == TIERS[1] => {
                return Err(problem("policy", "pass", "needs spec.tier 0: no tier is behind it"));
            }
            "pass" => AclVerdict::Pass,
            other => return Err(problem("policy", other, "is none of allow, drop and pass")),
        };
        let family = if is_ipv6 { "ip6" } else { "ip4" };
        let (port, local, remote) = match fields.flow {
            AclFlow::ToPort => ("outport", "dst", "src"),
            AclFlow::FromPort => ("inport", "src", "dst"),
        };
        let mut parts = vec![format!("{port} == @{}", port_group(group)), family.to_owned()];
        let mut remote_group = None;
        match fields.remote_type {
            "address" => {
                let name = format!("{field}.remoteAddress");
                let address = address(&name, fields.remote_address, is_ipv6)?;
                parts.push(format!("{family}.{remote} == {address}"));
            }
            "securityGroup" => {
                let name = fields.remote_group;
                parts.push(format!("{family}.{remote} == ${}", group_addresses(name, is_ipv6)));
                remote_group = Some(Arc::from(name));
            }
            other => {
                let reason = "is neither address nor securityGroup";
                return Err(problem("remoteType", other, reason));
            }
        }
        let has_local = !fields.local_address.is_empty();
        if has_local {
            let name = format!("{field}.localAddress");
            let address = address(&name, fields.local_address, is_ipv6)?;
            parts.push(format!("{family}.{local} == {address}"));
        }
        match fields.protocol {
            "" | "all" => {}
            "icmp" if is_ipv6 => parts.push("icmp6".to_owned()),
            "icmp" => parts.push("icmp4".to_owned()),
            protocol @ ("tcp" | "udp") => {
                let names = ["portRangeMin", "portRangeMax"];
                let (min, max) = ports(field, names, fields.ports)?;
                parts.push(format!("{min} <= {protocol}.dst <= {max}"));
                // As in Kube-OVN, ports of the source count with an address of this side only.
                if has_local {
                    let names = ["sourcePortRangeMin", "sourcePortRangeMax"];
                    let (min, max) = ports(field, names, fields.source_ports)?;
                    parts.push(format!("{min} <= {protocol}.src <= {max}"));
                }
            }
            other => {
                return Err(problem("protocol", other, "is none of all, icmp, tcp and udp"));
            }
        }
        let priority = HIGHEST_PRIORITY - priority;
        let acl = acl(fields.flow, priority, parts.join(" && "), verdict);
        Ok(Self { field: field.to_owned(), acl, remote: remote_group })
    }
}

fn acl(flow: AclFlow, priority: i64, expression: String, verdict: AclVerdict) -> SubnetAcl {
    SubnetAcl { reason: AclReason::Listed, flow, priority, expression, verdict }
}

/// An address, or a range without host bits.
fn address(field: &str, text: &str, is_ipv6: bool) -> Result<String, FieldProblem> {
    let is_of_family = |address: IpAddr| address.is_ipv6() == is_ipv6;
    if let Some(address) = text.parse().ok().filter(|address| is_of_family(*address)) {
        return Ok(address.to_string());
    }
    let net = text.parse::<IpNet>().ok().filter(|net| is_of_family(net.addr()));
    let family = if is_ipv6 { "IPv6" } else { "IPv4" };
    let problem = || {
        FieldProblem::of_text(field, text, &format!("is neither an {family} address nor a range"))
    };
    net.map(|net| format_net(net.trunc())).ok_or_else(problem)
}

/// First and last port of a range.
fn ports(
    field: &str,
    names: [&str; 2],
    (min, max): (Option<i64>, Option<i64>),
) -> Result<(i64, i64), FieldProblem> {
    let [min, max] = [min, max].map(Option::unwrap_or_default);
    for (name, port) in names.into_iter().zip([min, max]) {
        if !(1..=65_535).contains(&port) {
            let reason = format!("{port} is not in 1..=65535");
            return Err(FieldProblem::new(format!("{field}.{name}"), reason));
        }
    }
    if min > max {
        let reason = format!("{max} is below {} ({min})", names[0]);
        return Err(FieldProblem::new(format!("{field}.{}", names[1]), reason));
    }
    Ok((min, max))
}

impl SecurityGroup {
    /// ACLs without which no machine gets an address, those for packets between machines of the group,
    /// and those of rules.
    pub(super) fn acls<'a>(&self, rules: impl Iterator<Item = &'a GroupRule>) -> Vec<GroupAcl> {
        let tier = FIRST_ACL_TIER + self.tier;
        let of_tier = |acl| GroupAcl { tier, acl };
        let mut acls = base(&self.name);
        if self.allows_own {
            let group = port_group(&self.name);
            for (flow, port, other) in
                [(AclFlow::ToPort, "outport", "src"), (AclFlow::FromPort, "inport", "dst")]
            {
                for (family, is_ipv6) in [("ip4", false), ("ip6", true)] {
                    let set = group_addresses(&self.name, is_ipv6);
                    let expression =
                        format!("{port} == @{group} && {family} && {family}.{other} == ${set}");
                    let verdict = AclVerdict::AllowRelated;
                    acls.push(of_tier(acl(flow, OWN_PRIORITY, expression, verdict)));
                }
            }
        }
        acls.extend(rules.map(|rule| of_tier(rule.acl.clone())));
        acls
    }
}

/// ACLs in both tiers for what machines need before they have an address, and to keep it.
fn base(group: &str) -> Vec<GroupAcl> {
    let group = port_group(group);
    let flows = [
        (AclFlow::ToPort, "outport", (67, 68), (547, 546), "{130, 134, 135, 136}"),
        (AclFlow::FromPort, "inport", (68, 67), (546, 547), "{130, 133, 135, 136}"),
    ];
    let mut acls = Vec::new();
    for (flow, port, (source4, target4), (source6, target6), types) in flows {
        let matches = [
            "arp".to_owned(),
            format!("icmp6.type == {types} && icmp6.code == 0 && ip.ttl == 255"),
            format!("udp.src == {source4} && udp.dst == {target4} && ip4"),
            format!("udp.src == {source6} && udp.dst == {target6} && ip6"),
            "ip.proto == 112".to_owned(),
        ];
        for expression in matches {
            let expression = format!("{port} == @{group} && {expression}");
            let acl = acl(flow, BASE_PRIORITY, expression, AclVerdict::AllowRelated);
            acls.extend(
                TIERS.map(|tier| GroupAcl { tier: FIRST_ACL_TIER + tier, acl: acl.clone() }),
            );
        }
    }
    acls
}

/// ACLs of [`DENY_ALL_GROUP`].
pub(super) fn deny_all() -> Vec<GroupAcl> {
    let group = port_group(DENY_ALL_GROUP);
    let flows = [(AclFlow::ToPort, "outport"), (AclFlow::FromPort, "inport")];
    flows
        .into_iter()
        .flat_map(|(flow, port)| {
            let expression = format!("{port} == @{group} && ip");
            let acl = acl(flow, DROP_PRIORITY, expression, AclVerdict::Drop);
            TIERS.map(|tier| GroupAcl { tier: FIRST_ACL_TIER + tier, acl: acl.clone() })
        })
        .collect()
}
