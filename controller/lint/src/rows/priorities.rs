//! Priorities of ACLs and policies.

use std::cmp::Reverse;
use std::collections::HashMap;

use patchbay_reach::RowRef;
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, LogicalRouterPolicy};

use super::index::Index;
use super::report::RowReport;

pub(super) fn conflict(index: &Index<'_>, report: &mut RowReport<'_>) {
    for conflict in &index.conflicts {
        report.found(
            conflict.second,
            &[conflict.first],
            format!(
                "Two rows of priority {} match {} and decide otherwise: OVN leaves open which of \
                 them counts.",
                conflict.priority, conflict.packet
            ),
            "Give the row that shall count a higher priority.",
        );
    }
}

pub(super) fn shadowed(index: &Index<'_>, report: &mut RowReport<'_>) {
    let of_switches = index.switches.iter().map(|(_, row)| &row.acls);
    let of_groups = index.groups.iter().map(|(_, row)| &row.acls);
    for acls in of_switches.chain(of_groups) {
        let mut acls: Vec<_> = index.acls.of(acls).collect();
        acls.sort_by_key(|(row, acl)| (place(acl), acl.tier, Reverse(acl.priority), row.uuid));
        for list in acls.chunk_by(|(_, a), (_, b)| place(a) == place(b)) {
            shadowed_acls(list, report);
        }
    }
    for (_, router) in index.routers.iter() {
        let mut policies: Vec<_> = index.policies.of(&router.policies).collect();
        policies.sort_by_key(|(row, policy)| {
            (policy.chain.clone(), Reverse(policy.priority), row.uuid)
        });
        for chain in policies.chunk_by(|(_, a), (_, b)| a.chain == b.chain) {
            shadowed_policies(chain, report);
        }
    }
}

/// Direction of an ACL, and `true` if it is evaluated after load balancing.
fn place(acl: &Acl) -> (bool, bool) {
    let is_late = acl.options.get("apply-after-lb").is_some_and(|value| value == "true");
    (acl.direction == AclDirection::ToLport, is_late && acl.direction == AclDirection::FromLport)
}

/// Finds shadowed ACLs in a list in the order of their evaluation.
fn shadowed_acls(acls: &[(RowRef, &Acl)], report: &mut RowReport<'_>) {
    let mut first: HashMap<String, (RowRef, &Acl)> = HashMap::new();
    for (row, acl) in acls {
        let text = normal(&acl.r#match);
        let before = first.get(&text).or_else(|| first.get("1"));
        if let Some((other, before)) = before
            && (before.tier, before.priority) != (acl.tier, acl.priority)
        {
            let what = if before.tier == acl.tier {
                format!("priority {}", before.priority)
            } else {
                format!("tier {}, which is evaluated before tier {}", before.tier, acl.tier)
            };
            report.found(
                *row,
                &[*other],
                format!(
                    "The ACL never decides: an ACL of {what} has the match `{}`.",
                    before.r#match
                ),
                "Delete one of the two, or change tier, priority or match.",
            );
        }
        // `pass` leaves the packet to the next tier.
        if acl.action != AclAction::Pass {
            first.entry(text).or_insert((*row, acl));
        }
    }
}

fn shadowed_policies(policies: &[(RowRef, &LogicalRouterPolicy)], report: &mut RowReport<'_>) {
    let mut first: HashMap<String, (RowRef, &LogicalRouterPolicy)> = HashMap::new();
    for (row, policy) in policies {
        let text = normal(&policy.r#match);
        let before = first.get(&text).or_else(|| first.get("1"));
        if let Some((other, before)) = before
            && before.priority != policy.priority
        {
            report.found(
                *row,
                &[*other],
                format!(
                    "The policy never decides: one of priority {} has the match `{}`.",
                    before.priority, before.r#match
                ),
                "Delete one of the two, or change priority or match.",
            );
        }
        first.entry(text).or_insert((*row, policy));
    }
}

/// A match without blanks outside of strings.
fn normal(text: &str) -> String {
    let mut is_in_string = false;
    let kept = text.chars().filter(|character| {
        is_in_string ^= *character == '"';
        is_in_string || !character.is_ascii_whitespace()
    });
    kept.collect()
}
