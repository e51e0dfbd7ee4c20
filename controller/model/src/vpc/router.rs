//! VPCs, as their objects have them.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::format_net;

use crate::FieldProblem;

/// Highest priority of a policy.
const MAX_POLICY_PRIORITY: i64 = 32_767;

/// External subnets that a VPC is to be connected to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExternalSubnets {
    /// None.
    None,
    /// The default one.
    Default,
    /// These ones.
    Listed(Vec<Arc<str>>),
}

/// A VPC, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Vpc {
    /// Name.
    pub name: Arc<str>,
    /// Namespaces whose subnets and pods may be in the VPC.
    pub namespaces: Vec<String>,
    /// Static routes that can be used.
    pub routes: Vec<StaticRoute>,
    /// Policies that can be used.
    pub policies: Vec<PolicyRoute>,
    /// Peerings that can be used.
    pub peerings: Vec<Peering>,
    /// External subnets.
    pub external: ExternalSubnets,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
}

/// A static route.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct StaticRoute {
    /// `true`: the prefix is of sources.
    pub is_of_source: bool,
    /// Range without host bits, or an address.
    pub prefix: String,
    /// Next hop.
    pub next_hop: IpAddr,
    /// Route table; empty: the main one.
    pub table: String,
}

impl StaticRoute {
    /// Reads a route. `field`: path of the route.
    ///
    /// # Errors
    /// A text cannot be read, or the families of prefix and next hop differ.
    pub fn read(
        field: &str,
        (policy, table): (&str, &str),
        cidr: &str,
        next_hop: &str,
    ) -> Result<Self, FieldProblem> {
        let is_of_source = match policy {
            "" | "policyDst" => false,
            "policySrc" => true,
            _ => {
                let field = format!("{field}.policy");
                let reason = "is neither policyDst nor policySrc";
                return Err(FieldProblem::of_text(field, policy, reason));
            }
        };
        let (prefix, is_ipv6) = read_prefix(cidr.trim()).ok_or_else(|| {
            let reason = "is neither a range nor an address";
            FieldProblem::of_text(format!("{field}.cidr"), cidr, reason)
        })?;
        let hop = read_address(&format!("{field}.nextHopIP"), next_hop.trim())?;
        if hop.is_ipv6() != is_ipv6 {
            let reason = format!("is of another IP family than {prefix}");
            return Err(FieldProblem::of_text(format!("{field}.nextHopIP"), next_hop, &reason));
        }
        Ok(Self { is_of_source, prefix, next_hop: hop, table: table.to_owned() })
    }
}

/// Range without host bits, or an address, and whether it is of IPv6.
fn read_prefix(text: &str) -> Option<(String, bool)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_string(), address.is_ipv6()));
    }
    let net: IpNet = text.parse().ok()?;
    Some((format_net(net.trunc()), net.addr().is_ipv6()))
}

fn read_address(field: &str, text: &str) -> Result<IpAddr, FieldProblem> {
    text.parse().map_err(|_| FieldProblem::of_text(field, text, "is not an address"))
}

/// Action of a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicyAction {
    /// Packets go the way of their route.
    Allow,
    /// Packets are dropped.
    Drop,
    /// Packets go to one of these next hops. There is at least one.
    Reroute(Vec<IpAddr>),
}

/// A policy of a router.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyRoute {
    /// Priority.
    pub priority: i64,
    /// Expression of OVN.
    pub expression: String,
    /// Action.
    pub action: PolicyAction,
}

impl PolicyRoute {
    /// Reads a policy. `field`: path of the policy. Next hops have no effect with actions other
    /// than `reroute`.
    ///
    /// # Errors
    /// A value is out of its range, a text cannot be read, or next hops are missing.
    pub fn read(
        field: &str,
        priority: i64,
        (expression, action): (&str, &str),
        next_hops: &str,
    ) -> Result<Self, FieldProblem> {
        if !(0..=MAX_POLICY_PRIORITY).contains(&priority) {
            return Err(FieldProblem::new(
                format!("{field}.priority"),
                format!("{priority} is not in 0..={MAX_POLICY_PRIORITY}"),
            ));
        }
        if expression.trim().is_empty() {
            let reason = "an expression is required";
            return Err(FieldProblem::new(format!("{field}.match"), reason));
        }
        let action = match action {
            "allow" => PolicyAction::Allow,
            "drop" => PolicyAction::Drop,
            "reroute" => {
                let field = format!("{field}.nextHopIP");
                let hops = next_hops.split(',').map(str::trim).filter(|hop| !hop.is_empty());
                let mut hops: Vec<IpAddr> =
                    hops.map(|hop| read_address(&field, hop)).collect::<Result<_, _>>()?;
                hops.sort_unstable();
                hops.dedup();
                if hops.is_empty() {
                    return Err(FieldProblem::new(field, "reroute needs an address"));
                }
                PolicyAction::Reroute(hops)
            }
            _ => {
                let reason = "is none of allow, drop and reroute";
                let field = format!("{field}.action");
                return Err(FieldProblem::of_text(field, action, reason));
            }
        };
        Ok(Self { priority, expression: expression.to_owned(), action })
    }
}

/// Direct connection of two VPCs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peering {
    /// The other VPC.
    pub remote: Arc<str>,
    /// Addresses of the port towards it, with the lengths of their networks.
    pub networks: Vec<IpNet>,
}

impl Peering {
    /// Reads a peering. `field`: path of the peering.
    ///
    /// # Errors
    /// The name is empty, or an address cannot be read.
    pub fn read(field: &str, remote: &str, addresses: &str) -> Result<Self, FieldProblem> {
        if remote.is_empty() {
            let reason = "the name of a Vpc is required";
            return Err(FieldProblem::new(format!("{field}.remoteVpc"), reason));
        }
        let field = format!("{field}.localConnectIP");
        let texts = addresses.split(',').map(str::trim).filter(|text| !text.is_empty());
        let networks = texts.map(|text| {
            let reason = "is not an address with the length of its network";
            text.parse().map_err(|_| FieldProblem::of_text(&field, text, reason))
        });
        let networks: Vec<IpNet> = networks.collect::<Result<_, _>>()?;
        if networks.is_empty() {
            return Err(FieldProblem::new(field, "an address is required"));
        }
        Ok(Self { remote: remote.into(), networks })
    }
}
