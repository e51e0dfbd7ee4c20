//! ACLs that apply to a switch, and their decisions.

use std::sync::Arc;

use patchbay_schemas::nb::AclAction;

use super::acl_list::AclList;
use super::note::RowRef;
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

/// ACL with its parsed match. All switches to which it applies share it.
#[derive(Debug)]
pub(crate) struct Acl {
    pub(crate) row: RowRef,
    pub(crate) name: Option<String>,
    pub(crate) action: AclAction,
    pub(crate) priority: i64,
    pub(crate) tier: i64,
    /// Name of the network function group that gets the packets which the ACL allows.
    pub(crate) function_group: Option<String>,
    pub(super) place: AclPlace,
    pub(super) matches: Match,
}

/// ACLs that apply to a switch.
#[derive(Debug, Default)]
pub(crate) struct Acls {
    /// ACLs by their places, ordered by tier, then by falling priority, then by UUID.
    places: [Vec<Arc<Acl>>; 3],
    /// `true` if an ACL applies to the switch.
    pub(crate) is_present: bool,
    /// `true` if one of the ACLs has the action `allow-related`.
    pub(crate) is_stateful: bool,
    /// Row with `acl_ct_translation`, if one of the ACLs names ports of TCP, UDP or SCTP: those of
    /// the connection then count.
    pub(crate) translation: Option<RowRef>,
    /// Matches of the ACLs `allow-stateless` of each direction, `from-lport` first.
    stateless: [Vec<Arc<Match>>; 2],
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

impl Acl {
    /// `true` if another ACL decides otherwise on a packet that both match.
    pub(super) fn has_other_outcome(&self, other: &Self) -> bool {
        Outcome::of(self) != Outcome::of(other)
    }

    /// `true` if a switch with the port groups of the match has the ACL. A network function group
    /// needs a stateful ACL that allows.
    pub(super) fn is_valid(&self, is_stateful: bool) -> bool {
        let is_allowing = matches!(self.action, AclAction::Allow | AclAction::AllowRelated);
        self.function_group.is_none() || is_stateful && is_allowing
    }
}

impl Acls {
    /// Collects the ACLs of a switch from the lists that apply to it, each at most once.
    /// `balances`: the switch has a VIP. `translation`: the row with `acl_ct_translation`.
    pub(super) fn collect(
        lists: &[Arc<AclList>],
        (switch, balances): (SwitchId, bool),
        names: &Names,
        translation: Option<RowRef>,
    ) -> Self {
        let mut acls = Self {
            is_present: lists.iter().any(|list| list.is_present),
            is_stateful: lists.iter().any(|list| list.is_stateful),
            ..Self::default()
        };
        let is_stateful = acls.is_stateful || balances;
        let has_transport_port = lists.iter().any(|list| list.has_transport_port);
        acls.translation = translation.filter(|_| is_stateful && has_transport_port);
        let is_known = |matches: &Match| matches.missing_group(switch, names).is_none();
        for list in lists {
            let valid = list.acls.iter().filter(|acl| acl.is_valid(is_stateful));
            for acl in valid.filter(|acl| is_known(&acl.matches)) {
                acls.places[acl.place as usize].push(Arc::clone(acl));
            }
            for (own, all) in acls.stateless.iter_mut().zip(&list.stateless) {
                own.extend(all.iter().filter(|matches| is_known(matches)).cloned());
            }
        }
        for place in &mut acls.places {
            sort(place);
            place.dedup_by_key(|acl| acl.row.uuid);
        }
        acls
    }

    /// The ACL that decides on a packet. In a tier the highest priority that matches counts; `pass`
    /// leads to the next tier.
    pub(crate) fn decide(&self, place: AclPlace, packet: &Packet) -> AclDecision<'_> {
        let acls = &self.places[place as usize];
        let mut rest = &acls[..];
        let mut contradiction = None;
        while let Some(found) = rest.iter().position(|acl| acl.matches.matches(packet)) {
            let acl = &*rest[found];
            let other = rest[found + 1..]
                .iter()
                .take_while(|other| (other.tier, other.priority) == (acl.tier, acl.priority))
                .filter(|other| Outcome::of(other) != Outcome::of(acl))
                .find(|other| other.matches.matches(packet));
            contradiction = contradiction.or(other.map(|other| (acl, &**other)));
            if acl.action != AclAction::Pass {
                return AclDecision { acl: Some(acl), contradiction };
            }
            let next_tier = rest.iter().position(|other| other.tier > acl.tier);
            rest = &rest[next_tier.unwrap_or(rest.len())..];
        }
        AclDecision { acl: None, contradiction }
    }

    /// `true` if an `allow-stateless` ACL of a direction matches. Its packets are not tracked.
    pub(crate) fn is_stateless(&self, is_ingress: bool, packet: &Packet) -> bool {
        let matches = &self.stateless[usize::from(!is_ingress)];
        matches.iter().any(|own| own.matches(packet))
    }
}

/// Sorts ACLs of one place in the order in which they decide.
pub(super) fn sort(acls: &mut [Arc<Acl>]) {
    acls.sort_by_key(|acl| (acl.tier, -acl.priority, acl.row.uuid));
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
