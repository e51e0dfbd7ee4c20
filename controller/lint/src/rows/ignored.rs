//! Rows that OVN ignores.

use patchbay_reach::{Note, RowRef};
use patchbay_schemas::nb::{LogicalRouterPolicy, LogicalRouterStaticRoute};
use patchbay_schemas::typed::TableRow as _;

use super::index::Index;
use super::releases::OLDER;
use super::report::RowReport;

/// Reason that `reach` gives for a match, before the reason of the parser.
const BAD_MATCH: &str = "bad match: ";
/// Reasons of the parser for names that do not exist.
const UNKNOWN_SETS: [&str; 2] = ["unknown address set", "unknown port group"];

/// Part of the reason for a column that newer releases of OVN do not read.
const OBSOLETE: &str = "obsolete";

/// Kind of a note.
#[derive(Eq, PartialEq)]
enum Kind {
    BadMatch,
    UnknownSet,
    NoWay,
    /// A state that comes and goes without a change of the configuration.
    Passing,
    Other,
}

impl Kind {
    fn of(note: &Note) -> Self {
        let reason = note.reason.as_str();
        let names_set = reason.contains("port group")
            || UNKNOWN_SETS.iter().any(|unknown| reason.contains(unknown));
        let is_way =
            [LogicalRouterStaticRoute::TABLE, LogicalRouterPolicy::TABLE].contains(&note.row.table);
        if names_set {
            Self::UnknownSet
        } else if reason.starts_with(BAD_MATCH) {
            Self::BadMatch
        } else if reason.contains("BFD session") {
            Self::Passing
        } else if is_way
            && ["no port of the router", "nexthop ", "output_port"]
                .iter()
                .any(|part| reason.contains(part) && !reason.starts_with("bad"))
            && !reason.contains(OBSOLETE)
        {
            Self::NoWay
        } else {
            Self::Other
        }
    }
}

fn notes<'a>(index: &'a Index<'_>, kind: &'a Kind) -> impl Iterator<Item = &'a Note> {
    index.notes.iter().filter(move |note| Kind::of(note) == *kind)
}

/// Match of an ACL, policy, NAT rule or `QoS` rule.
fn match_of<'a>(index: &'a Index<'_>, row: RowRef) -> &'a str {
    let acl = index.acls.get(row.uuid).map(|row| &row.r#match);
    let policy = || index.policies.get(row.uuid).map(|row| &row.r#match);
    let nat = || index.nats.get(row.uuid).map(|row| &row.r#match);
    let qos = || index.qos.get(row.uuid).map(|row| &row.r#match);
    acl.or_else(policy).or_else(nat).or_else(qos).map_or("", String::as_str)
}

/// `true` if a match has `&` or `|` alone.
fn has_single_operator(text: &str) -> bool {
    ['&', '|'].into_iter().any(|operator| {
        let doubled = [operator, operator].into_iter().collect::<String>();
        text.replace(&doubled, "").contains(operator)
    })
}

pub(super) fn bad_match(index: &Index<'_>, report: &mut RowReport<'_>) {
    for note in notes(index, &Kind::BadMatch) {
        let text = match_of(index, note.row);
        let reason = note.reason.trim_start_matches(BAD_MATCH);
        let repair = if has_single_operator(text) {
            "Write && and || in place of & and |."
        } else if reason.contains("parentheses") {
            "Put parentheses around what belongs together."
        } else {
            "Correct the match; its language is described in ovn-sb(5), Logical_Flow, match."
        };
        report.found(
            note.row,
            &[],
            format!(
                "OVN cannot parse the match `{text}`: {reason}. ovn-controller logs it and has no \
                 flow of the row."
            ),
            repair,
        );
    }
}

pub(super) fn unknown_set(index: &Index<'_>, report: &mut RowReport<'_>) {
    for note in notes(index, &Kind::UnknownSet) {
        let text = match_of(index, note.row);
        let reason = note.reason.trim_start_matches(BAD_MATCH);
        report.found(
            note.row,
            &[],
            format!(
                "The match `{text}` names what is not there: {reason}. ovn-controller logs it and \
                 has no flow of the row."
            ),
            "Create the set or group, or take it out of the match.",
        );
    }
}

pub(super) fn no_way(index: &Index<'_>, report: &mut RowReport<'_>) {
    for note in notes(index, &Kind::NoWay) {
        report.found(
            note.row,
            &[],
            format!("ovn-northd logs \"No path\" and leaves the row out: {}.", note.reason),
            "Name a next hop in a network of a port of the router, or set output_port to a port of \
             the router.",
        );
    }
}

pub(super) fn other(index: &Index<'_>, report: &mut RowReport<'_>) {
    let reads_nexthop = index.release.is_some_and(|release| release <= OLDER);
    let notes = notes(index, &Kind::Other);
    for note in notes.filter(|note| !(reads_nexthop && note.reason.contains(OBSOLETE))) {
        report.found(
            note.row,
            &[],
            format!("OVN ignores the row, or this part of it: {}.", note.reason),
            "Correct the column; ovn-nb(5) has its form.",
        );
    }
}

pub(super) fn unknown_port(index: &Index<'_>, report: &mut RowReport<'_>) {
    let switch_ports = index.switch_ports.iter().map(|(_, port)| port.name.as_str());
    let router_ports = index.router_ports.iter().map(|(_, port)| port.name.as_str());
    let known: std::collections::HashSet<&str> = switch_ports.chain(router_ports).collect();
    let acls = index.acls.iter().map(|(row, acl)| (row, &acl.r#match));
    let policies = index.policies.iter().map(|(row, policy)| (row, &policy.r#match));
    let qos = index.qos.iter().map(|(row, qos)| (row, &qos.r#match));
    for (row, text) in acls.chain(policies).chain(qos) {
        let missing = ports_of(text).find(|name| {
            !known.contains(name.strip_prefix("cr-").unwrap_or(name)) && !known.contains(name)
        });
        if let Some(name) = missing {
            report.found(
                row,
                &[],
                format!("The match `{text}` names port {name}, which does not exist: that part never matches."),
                "Correct the name, or delete the row if the port is gone.",
            );
        }
    }
}

/// Names of ports in a match: strings, except those of `is_chassis_resident`.
fn ports_of(text: &str) -> impl Iterator<Item = &str> {
    let mut before = "";
    text.split('"').enumerate().filter_map(move |(place, part)| {
        let is_string = place % 2 == 1;
        let is_resident = before.trim_end().ends_with("is_chassis_resident(");
        before = part;
        // Strings with escapes are compared by nobody.
        (is_string && !is_resident && !part.contains(['\\', '^']) && !part.is_empty())
            .then_some(part)
    })
}
