//! Policies of a router.

use std::collections::HashSet;
use std::net::IpAddr;

use patchbay_schemas::nb::{LogicalRouterPolicy, LogicalRouterPolicyAction};
use uuid::Uuid;

use super::Names;
use super::id::{PortId, RouterPortId};
use super::note::{Notes, RowRef};
use super::ports::Ports;
use super::route::{is_down, output_port};
use super::router::RouterPort;
use super::rows::Tables;
use crate::expression::Match;
use crate::packet::Packet;

/// Policy that OVN has.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) row: RowRef,
    pub(crate) priority: i64,
    /// Chain of the policy; empty for the one that packets begin with. `None`: every chain, because
    /// OVN does not look at the chain of a policy with several next hops.
    chain: Option<String>,
    pub(crate) action: PolicyAction,
    /// Mark for the packet. `None`: unchanged.
    pub(crate) mark: Option<u32>,
    matches: Match,
}

/// Action of a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PolicyAction {
    Allow,
    Drop,
    /// Next hops: any of them.
    Reroute(Vec<PolicyHop>),
    /// Another chain.
    Jump(String),
}

/// Next hop of a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PolicyHop {
    pub(crate) address: IpAddr,
    pub(crate) output: RouterPortId,
    /// `true` if several ports have a network with the next hop. OVN takes any of them.
    pub(crate) has_other_outputs: bool,
}

/// Policies of a router by falling priority.
#[derive(Debug, Default)]
pub(crate) struct Policies(Vec<Policy>);

impl Policies {
    pub(super) fn new<'a>(
        rows: impl IntoIterator<Item = (Uuid, &'a LogicalRouterPolicy)>,
        (ports, all): (&[(RouterPortId, &RouterPort)], &Ports),
        tables: &Tables,
        names: &Names,
        notes: &mut Notes,
    ) -> Self {
        let rows: Vec<_> = rows.into_iter().collect();
        let chains: HashSet<&str> = rows
            .iter()
            .filter_map(|(_, row)| row.chain.as_deref())
            .filter(|chain| !chain.is_empty())
            .collect();
        let mut policies = Vec::new();
        for (uuid, row) in rows {
            let reference = RowRef::new::<LogicalRouterPolicy>(uuid);
            match policy(row, reference, &chains, (ports, all), tables, names) {
                Ok(policy) => policies.push(policy),
                Err(reason) => notes.add(reference, reason),
            }
        }
        policies.sort_by_key(|policy| (-policy.priority, policy.row.uuid));
        Self(policies)
    }

    /// All policies by falling priority.
    pub(super) fn all(&self) -> &[Policy] {
        &self.0
    }

    /// The policy that decides on a packet in a chain, and another one of the same priority with
    /// another action. OVN leaves open which of the two counts.
    pub(crate) fn decide(
        &self,
        chain: &str,
        packet: &Packet,
    ) -> Option<(&Policy, Option<&Policy>)> {
        // Few matches hold, and comparing names of chains takes longer.
        let mut matching = self.0.iter().filter(|policy| {
            policy.matches.matches(packet) && policy.chain.as_deref().is_none_or(|own| own == chain)
        });
        let first = matching.next()?;
        let contradiction = matching
            .take_while(|other| other.priority == first.priority)
            .find(|other| first.decides_otherwise(other));
        Some((first, contradiction))
    }
}

impl Policy {
    fn decides_otherwise(&self, other: &Self) -> bool {
        other.action != self.action || other.mark != self.mark
    }

    /// `true` if a packet of a chain may meet both policies, and they decide otherwise.
    pub(super) fn contradicts(&self, other: &Self) -> bool {
        let is_same_chain = match (&self.chain, &other.chain) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        is_same_chain && self.decides_otherwise(other)
    }

    /// A packet that both policies match. `None`: none was found.
    pub(super) fn common_packet(&self, other: &Self) -> Option<Packet> {
        self.matches.common_packet(&other.matches)
    }
}

/// Reads a policy. The error is the reason why OVN ignores it.
fn policy(
    row: &LogicalRouterPolicy,
    reference: RowRef,
    chains: &HashSet<&str>,
    ports: (&[(RouterPortId, &RouterPort)], &Ports),
    tables: &Tables,
    names: &Names,
) -> Result<Policy, String> {
    if row.nexthop.as_ref().is_some_and(|next_hop| !next_hop.is_empty()) {
        return Err("the column nexthop is obsolete".to_owned());
    }
    let action = match row.action {
        LogicalRouterPolicyAction::Allow => PolicyAction::Allow,
        LogicalRouterPolicyAction::Drop => PolicyAction::Drop,
        LogicalRouterPolicyAction::Jump => {
            let target = row.jump_chain.as_deref().unwrap_or_default();
            if !chains.contains(target) {
                return Err(format!("no policy of the router is in chain {target:?}"));
            }
            PolicyAction::Jump(target.to_owned())
        }
        LogicalRouterPolicyAction::Reroute => PolicyAction::Reroute(next_hops(row, ports, tables)?),
    };
    let is_multipath = matches!(action, PolicyAction::Reroute(_)) && row.nexthops.len() > 1;
    let chain = (!is_multipath).then_some(row.chain.clone().unwrap_or_default());
    let parsed = if chains.is_empty() || is_multipath {
        Match::parse(&row.r#match, names)
    } else {
        Match::parse_nested(&row.r#match, names)
    };
    let matches = parsed.map_err(|error| format!("bad match: {error}"))?;
    if let Some(group) = matches.first_group(names) {
        return Err(format!("routers do not know port group {group}"));
    }
    let mark = row.options.get("pkt_mark").and_then(|mark| mark.parse().ok());
    let is_marking = matches!(action, PolicyAction::Allow | PolicyAction::Reroute(_));
    Ok(Policy {
        row: reference,
        priority: row.priority,
        chain,
        mark: mark.filter(|mark| *mark != 0 && is_marking),
        action,
        matches,
    })
}

/// Next hops of a policy. A port that it names is looked for among those of all routers.
fn next_hops(
    row: &LogicalRouterPolicy,
    (own, all): (&[(RouterPortId, &RouterPort)], &Ports),
    tables: &Tables,
) -> Result<Vec<PolicyHop>, String> {
    if row.output_port.is_some() && row.nexthops.len() != 1 {
        return Err("output_port needs exactly one next hop".to_owned());
    }
    let output = row
        .output_port
        .and_then(|port| tables.router_ports.get(port))
        .map(|port| port.name.as_str());
    let foreign = output.and_then(|name| match all.by_name.get(name) {
        Some(PortId::Router(id)) => Some([(*id, &all.router_ports[id.0 as usize])]),
        _ => None,
    });
    let ports = foreign.as_ref().map_or(own, |foreign| &foreign[..]);
    let sessions: Vec<_> = tables.bfd.of(&row.bfd_sessions).collect();
    let mut valid = Vec::new();
    for text in &row.nexthops {
        let Ok(next_hop) = text.parse::<IpAddr>() else {
            continue;
        };
        let Some(port) = output_port(output, Some(next_hop), next_hop.is_ipv4(), ports) else {
            continue;
        };
        let port_name = ports.iter().find(|(id, _)| *id == port.port).map(|(_, port)| &port.name);
        let session = sessions
            .iter()
            .find(|(_, bfd)| bfd.dst_ip == *text && Some(&bfd.logical_port) == port_name);
        if session.is_none_or(|(_, bfd)| !is_down(bfd)) {
            valid.push(PolicyHop {
                address: next_hop,
                output: port.port,
                has_other_outputs: port.has_others,
            });
        }
    }
    let mut families = valid.iter().map(|hop| hop.address.is_ipv4());
    match families.next() {
        None => Err("no port of the router leads to a next hop".to_owned()),
        Some(first) if families.any(|family| family != first) => {
            Err("the next hops have different address families".to_owned())
        }
        Some(_) => Ok(valid),
    }
}
