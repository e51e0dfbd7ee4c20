//! What other releases of OVN do with rows.

use std::fmt;
use std::str::FromStr;

use patchbay_schemas::nb::{AclAction, LogicalRouterPolicyAction};

use super::index::Index;
use super::report::RowReport;

/// Release of OVN whose ovn-northd reads the rows: year and month.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct OvnRelease {
    year: u8,
    month: u8,
}

impl OvnRelease {
    const fn new(year: u8, month: u8) -> Self {
        Self { year, month }
    }
}

impl fmt::Display for OvnRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.year, self.month)
    }
}

impl FromStr for OvnRelease {
    type Err = &'static str;

    /// Reads `YY.MM`; a patch level behind it does not count.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('.').map(str::parse::<u8>);
        match (parts.next(), parts.next()) {
            (Some(Ok(year)), Some(Ok(month @ 1..=12))) => Ok(Self { year, month }),
            _ => Err("expected a release such as 25.03"),
        }
    }
}

/// Release whose schema was compared, and that ran on the rows of this rule. Releases between this
/// one and [`NEWER`] count as `NEWER`.
pub(super) const OLDER: OvnRelease = OvnRelease::new(23, 3);
/// Next release that was looked at.
const NEWER: OvnRelease = OvnRelease::new(25, 3);

pub(super) fn other_release(index: &Index<'_>, report: &mut RowReport<'_>) {
    let Some(release) = index.release.filter(|release| *release <= OLDER) else { return };
    let mut lacks = |row, what: &str, effect: &str| {
        report.found(
            row,
            &[],
            format!("OVN {release} has no {what}: {effect}."),
            format!("Run OVN {NEWER} or newer, or do without {what}."),
        );
    };
    for (row, acl) in index.acls.iter() {
        if acl.tier != 0 {
            lacks(row, "tiers of ACLs", "it ranks the ACL by its priority among all others");
        }
        if acl.action == AclAction::Pass {
            lacks(row, "action pass", "it refuses the row");
        }
    }
    for (row, policy) in index.policies.iter() {
        let has_chain = policy.chain.as_ref().is_some_and(|chain| !chain.is_empty());
        if has_chain || policy.action == LogicalRouterPolicyAction::Jump {
            lacks(row, "chains of policies", "every packet meets the policy");
        }
    }
    for (row, rule) in index.nats.iter() {
        if !rule.r#match.is_empty() {
            lacks(row, "matches of NAT rules", "it translates all packets of the address");
        }
    }
    for (row, port) in index.router_ports.iter() {
        let peer = port.peer.as_ref().and_then(|peer| index.router_ports_by_name.get(peer));
        let back = peer.and_then(|peer| index.router_ports.get(peer.uuid)?.peer.as_ref());
        if peer.is_some() && back.is_none() {
            report.found(
                row,
                &[],
                format!(
                    "OVN {release} connects the port with its peer in one direction, newer \
                     releases not at all."
                ),
                "Let both ports name each other as peer.",
            );
        }
    }
}
