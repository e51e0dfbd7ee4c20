//! ACLs of a switch: its own and those of the port groups with a port on it.

use std::collections::HashSet;

use patchbay_schemas::nb::{self, AclAction, AclDirection};
use uuid::Uuid;

use super::note::{Notes, RowRef};
use super::rows::{Tables, option};
use super::{Names, SwitchId};
use crate::expression::Match;
use crate::packet::Packet;

/// Place of the pipeline in which ACLs are evaluated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AclPlace {
    /// `from-lport`, before load balancing.
    BeforeLoadBalancing,
    /// `from-lport` with `apply-after-lb`.
    AfterLoadBalancing,
    /// `to-lport`.
    Egress,
}

/// ACL with its parsed match.
#[derive(Debug)]
pub(crate) struct Acl {
    pub(crate) row: RowRef,
    pub(crate) name: Option<String>,
    pub(crate) action: AclAction,
    pub(crate) priority: i64,
    pub(crate) tier: i64,
    /// Name of the network function group that gets the packets which the ACL allows.
    pub(crate) function_group: Option<String>,
    matches: Match,
}

/// ACLs that apply to a switch.
#[derive(Debug, Default)]
pub(crate) struct Acls {
    /// ACLs by their places, ordered by tier, then by falling priority, then by UUID.
    places: [Vec<Acl>; 3],
    /// `true` if an ACL applies to the switch.
    pub(crate) is_present: bool,
    /// `true` if one of the ACLs has the action `allow-related`.
    pub(crate) is_stateful: bool,
    /// Row with `acl_ct_translation`, if one of the ACLs names ports of TCP, UDP or SCTP: those of
    /// the connection then count.
    pub(crate) translation: Option<RowRef>,
    /// Matches of the ACLs `allow-stateless` of each direction, `from-lport` first.
    stateless: [Vec<Match>; 2],
}

/// Outcome of the ACLs in one place.
#[derive(Debug)]
pub(crate) struct AclDecision<'a> {
    /// The deciding ACL. `None`: no ACL decides.
    pub(crate) acl: Option<&'a Acl>,
    /// First pair of ACLs on the way with the same priority that decide differently. OVN leaves
    /// open which one counts.
    pub(crate) contradiction: Option<(&'a Acl, &'a Acl)>,
}

impl Acls {
    /// Reads ACLs from their rows, each at most once. `balances`: the switch has a VIP.
    pub(super) fn new<'a>(
        rows: impl IntoIterator<Item = (Uuid, &'a nb::Acl)>,
        (switch, balances): (SwitchId, bool),
        tables: &Tables,
        names: &Names,
        matches: &mut dyn FnMut(&str, RowRef) -> Option<Match>,
        notes: &mut Notes,
    ) -> Self {
        let mut acls = Self::default();
        let mut seen = HashSet::new();
        let mut has_transport_port = false;
        for (uuid, row) in rows {
            if seen.insert(uuid) {
                let group = row.network_function_group;
                let group = group.and_then(|group| tables.function_groups.get(group));
                let group = group.map(|group| group.name.clone());
                acls.add((uuid, row), group, switch, names, matches, notes);
                has_transport_port |= names_transport_port(&row.r#match);
            }
        }
        let is_stateful = acls.is_stateful || balances;
        for place in &mut acls.places {
            place.retain(|acl| {
                let is_allowing = matches!(acl.action, AclAction::Allow | AclAction::AllowRelated);
                let is_kept = acl.function_group.is_none() || is_stateful && is_allowing;
                if !is_kept {
                    notes.add(
                        acl.row,
                        "network_function_group needs a stateful ACL that allows",
                    );
                }
                is_kept
            });
        }
        if is_stateful && has_transport_port {
            acls.translation = tables.global_row("acl_ct_translation");
        }
        for place in &mut acls.places {
            place.sort_by_key(|acl| (acl.tier, -acl.priority, acl.row.uuid));
        }
        acls
    }

    fn add(
        &mut self,
        (uuid, row): (Uuid, &nb::Acl),
        function_group: Option<String>,
        switch: SwitchId,
        names: &Names,
        matches: &mut dyn FnMut(&str, RowRef) -> Option<Match>,
        notes: &mut Notes,
    ) {
        let reference = RowRef::new::<nb::Acl>(uuid);
        self.is_present = true;
        self.is_stateful |= row.action == AclAction::AllowRelated;
        let parsed = matches(&row.r#match, reference);
        if row.action == AclAction::AllowStateless {
            // Here OVN takes the match as it is, without parentheses around it.
            let bare = parsed
                .clone()
                .or_else(|| Match::parse(&row.r#match, names).ok());
            let known = bare.filter(|bare| bare.missing_group(switch, names).is_none());
            let is_egress = row.direction == AclDirection::ToLport;
            self.stateless[usize::from(is_egress)].extend(known);
        }
        let Some(parsed) = parsed else {
            return;
        };
        if let Some(group) = parsed.missing_group(switch, names) {
            notes.add(
                reference,
                format!("port group {group} has no port on the switch of the ACL"),
            );
            return;
        }
        let place = match row.direction {
            AclDirection::ToLport => AclPlace::Egress,
            AclDirection::FromLport if option(&row.options, "apply-after-lb") => {
                AclPlace::AfterLoadBalancing
            }
            AclDirection::FromLport => AclPlace::BeforeLoadBalancing,
        };
        self.places[place as usize].push(Acl {
            row: reference,
            name: row.name.clone(),
            action: row.action,
            priority: row.priority,
            tier: row.tier,
            function_group,
            matches: parsed,
        });
    }

    /// The ACL that decides on a packet. In a tier the highest priority that matches counts; `pass`
    /// leads to the next tier.
    pub(crate) fn decide(&self, place: AclPlace, packet: &Packet) -> AclDecision<'_> {
        let acls = &self.places[place as usize];
        let mut rest = &acls[..];
        let mut contradiction = None;
        while let Some(found) = rest.iter().position(|acl| acl.matches.matches(packet)) {
            let acl = &rest[found];
            let other = rest[found + 1..]
                .iter()
                .take_while(|other| (other.tier, other.priority) == (acl.tier, acl.priority))
                .filter(|other| Outcome::of(other) != Outcome::of(acl))
                .find(|other| other.matches.matches(packet));
            contradiction = contradiction.or(other.map(|other| (acl, other)));
            if acl.action != AclAction::Pass {
                return AclDecision {
                    acl: Some(acl),
                    contradiction,
                };
            }
            let next_tier = rest.iter().position(|other| other.tier > acl.tier);
            rest = &rest[next_tier.unwrap_or(rest.len())..];
        }
        AclDecision {
            acl: None,
            contradiction,
        }
    }

    /// `true` if an `allow-stateless` ACL of a direction matches. Its packets are not tracked.
    pub(crate) fn is_stateless(&self, is_ingress: bool, packet: &Packet) -> bool {
        let matches = &self.stateless[usize::from(!is_ingress)];
        matches.iter().any(|own| own.matches(packet))
    }
}

/// `true` if a match may compare ports of TCP, UDP or SCTP.
fn names_transport_port(text: &str) -> bool {
    let mut fields = ["tcp.", "udp.", "sctp."].into_iter();
    fields.any(|field| text.contains(field))
}

/// Effect of an ACL on the first packet of a connection.
#[derive(Eq, PartialEq)]
enum Outcome {
    Allow,
    Drop,
    Pass,
}

impl Outcome {
    fn of(acl: &Acl) -> Self {
        match acl.action {
            AclAction::Allow | AclAction::AllowRelated | AclAction::AllowStateless => Self::Allow,
            AclAction::Drop | AclAction::Reject => Self::Drop,
            AclAction::Pass => Self::Pass,
        }
    }
}
