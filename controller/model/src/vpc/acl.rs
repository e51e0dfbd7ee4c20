//! ACLs of a subnet's switch.

use ipnet::IpNet;

use crate::{FieldProblem, format_net};

use super::subnet::SubnetNet;

/// Highest priority of an ACL.
const MAX_PRIORITY: i64 = 32_767;
/// Priority of the ACL that drops what no other one allows into a private subnet.
const PRIVATE_DROP_PRIORITY: i64 = 1000;
/// Priority of the ACLs that allow packets of other subnets into a private subnet.
const PRIVATE_ALLOW_PRIORITY: i64 = 1001;
/// Priority of the ACLs that allow packets of nodes into a private subnet.
const NODE_ALLOW_PRIORITY: i64 = 3000;
/// Priority of the ACLs that allow packets between machines of a subnet (`allowEWTraffic`).
const OWN_TRAFFIC_PRIORITY: i64 = 1900;

/// Direction of packets that an ACL is about, as a port sees it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AclFlow {
    /// `from-lport`.
    FromPort,
    /// `to-lport`.
    ToPort,
}

/// Action of an ACL.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AclVerdict {
    /// `allow`.
    Allow,
    /// `allow-related`.
    AllowRelated,
    /// `allow-stateless`.
    AllowStateless,
    /// `drop`.
    Drop,
    /// `reject`.
    Reject,
    /// `pass`: the next tier decides.
    Pass,
}

impl AclVerdict {
    /// `true` if packets pass.
    pub fn is_allowing(self) -> bool {
        matches!(self, Self::Allow | Self::AllowRelated | Self::AllowStateless)
    }
}

/// Reason for an ACL of a subnet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AclReason {
    /// The subnet is private.
    Private,
    /// The field `acls`, or `allowEWTraffic` beside it.
    Listed,
}

/// An ACL of a subnet's switch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SubnetAcl {
    /// Reason.
    pub reason: AclReason,
    /// Direction.
    pub flow: AclFlow,
    /// Priority.
    pub priority: i64,
    /// Expression of OVN.
    pub expression: String,
    /// Action.
    pub verdict: AclVerdict,
}

impl SubnetAcl {
    /// Reads an entry of the field `acls`. `field`: path of the entry. The expression is not parsed.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn read(
        field: &str,
        (direction, priority): (&str, i64),
        expression: &str,
        action: &str,
    ) -> Result<Self, FieldProblem> {
        let flow = match direction {
            "from-lport" => AclFlow::FromPort,
            "to-lport" => AclFlow::ToPort,
            _ => {
                let reason = "is neither from-lport nor to-lport";
                return Err(FieldProblem::of_text(format!("{field}.direction"), direction, reason));
            }
        };
        if !(0..=MAX_PRIORITY).contains(&priority) {
            return Err(FieldProblem::new(
                format!("{field}.priority"),
                format!("{priority} is not in 0..={MAX_PRIORITY}"),
            ));
        }
        let verdict = match action {
            "allow" => AclVerdict::Allow,
            "allow-related" => AclVerdict::AllowRelated,
            "allow-stateless" => AclVerdict::AllowStateless,
            "drop" => AclVerdict::Drop,
            "reject" => AclVerdict::Reject,
            _ => {
                let reason = "is none of allow, allow-related, allow-stateless, drop and reject";
                return Err(FieldProblem::of_text(format!("{field}.action"), action, reason));
            }
        };
        let expression = expression.to_owned();
        Ok(Self { reason: AclReason::Listed, flow, priority, expression, verdict })
    }

    /// ACLs of a private subnet: its machines, allowed ranges and nodes reach it, and nothing else
    /// does. `nodes`: ranges of the nodes' addresses in OVN.
    pub fn of_private(nets: &[SubnetNet], allowed: &[IpNet], nodes: &[IpNet]) -> Vec<Self> {
        let allow = |priority, expression| Self {
            reason: AclReason::Private,
            flow: AclFlow::ToPort,
            priority,
            expression,
            verdict: AclVerdict::AllowRelated,
        };
        let drop =
            Self { verdict: AclVerdict::Drop, ..allow(PRIVATE_DROP_PRIORITY, "ip".to_owned()) };
        let mut acls = vec![drop];
        for net in nets {
            let (family, own) = (ip_word(&net.net), format_net(net.net));
            acls.push(allow(PRIVATE_ALLOW_PRIORITY, between(&net.net, &net.net)));
            let is_of_family = |range: &&IpNet| range.addr().is_ipv4() == net.net.addr().is_ipv4();
            let node = nodes.iter().filter(is_of_family);
            acls.extend(node.map(|nodes| {
                allow(NODE_ALLOW_PRIORITY, format!("{family}.src == {}", format_net(*nodes)))
            }));
            acls.extend(allowed.iter().filter(is_of_family).map(|range| {
                let range = format_net(*range);
                let out = format!("{family}.src == {own} && {family}.dst == {range}");
                let back = format!("{family}.src == {range} && {family}.dst == {own}");
                allow(PRIVATE_ALLOW_PRIORITY, format!("({out}) || ({back})"))
            }));
        }
        acls
    }

    /// ACLs that allow packets between machines of a subnet, in both directions.
    pub fn of_own_traffic(nets: &[SubnetNet]) -> Vec<Self> {
        let flows = [AclFlow::ToPort, AclFlow::FromPort];
        nets.iter()
            .flat_map(|net| {
                flows.map(|flow| Self {
                    reason: AclReason::Listed,
                    flow,
                    priority: OWN_TRAFFIC_PRIORITY,
                    expression: between(&net.net, &net.net),
                    verdict: AclVerdict::Allow,
                })
            })
            .collect()
    }

    /// `true` for an ACL that would have the same row.
    pub fn is_same_row(&self, other: &Self) -> bool {
        let key = |acl: &Self| (acl.flow, acl.priority);
        key(self) == key(other) && self.expression == other.expression
    }
}

/// Word of OVN's expressions for the family of a range.
pub(super) fn ip_word(net: &IpNet) -> &'static str {
    if net.addr().is_ipv4() { "ip4" } else { "ip6" }
}

fn between(source: &IpNet, destination: &IpNet) -> String {
    let family = ip_word(source);
    let [source, destination] = [source, destination].map(|net| format_net(*net));
    format!("{family}.src == {source} && {family}.dst == {destination}")
}
