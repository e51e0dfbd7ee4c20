//! Lists of ACLs: those of the rows of switches, and those of port groups.
//!
//! A port group applies its ACLs to each switch with one of its ports. The switches share one list,
//! so that memory grows with the references of rows, and not with pairs of switches and ACLs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use patchbay_schemas::nb::{self, AclAction, AclDirection};
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::acl::{Acl, AclPlace, Acls, sort};
use super::note::{Notes, RowRef};
use super::rows::{Tables, option};
use super::{Names, Northbound, Switch, SwitchId};
use crate::expression::{Match, PortGroupId};

/// ACLs of a switch's row, or of a port group.
#[derive(Debug, Default)]
pub(super) struct AclList {
    /// ACLs whose matches OVN can read, in the order in which they decide.
    pub(super) acls: Vec<Arc<Acl>>,
    /// Matches of the ACLs `allow-stateless` of each direction, `from-lport` first.
    pub(super) stateless: [Vec<Arc<Match>>; 2],
    /// `true` if the list has a row.
    pub(super) is_present: bool,
    /// `true` if one of the rows has the action `allow-related`.
    pub(super) is_stateful: bool,
    /// `true` if one of the rows may compare ports of TCP, UDP or SCTP.
    pub(super) has_transport_port: bool,
}

/// Lists of ACLs that apply to a switch.
#[derive(Debug)]
pub(crate) struct SwitchAcls {
    switch: SwitchId,
    lists: Vec<Arc<AclList>>,
    /// The ACLs of the lists, once a packet has met the switch.
    collected: OnceLock<Acls>,
}

/// Reader of ACLs, which reads each row once.
pub(super) struct AclReader<'a> {
    tables: &'a Tables,
    names: &'a Names,
    read: HashMap<Uuid, ReadAcl, RandomState>,
    /// Bad matches.
    notes: Notes,
}

/// Row of an ACL, as far as OVN can read it.
struct ReadAcl {
    acl: Option<Arc<Acl>>,
    /// Match of an ACL `allow-stateless`.
    stateless: Option<Arc<Match>>,
}

impl Northbound {
    /// The ACLs of a switch. The first packet that meets the switch collects them.
    pub(crate) fn acls<'a>(&'a self, switch: &'a Switch) -> &'a Acls {
        let SwitchAcls { switch: id, lists, collected } = &switch.acls;
        let place = (*id, switch.load_balancers.has_own_vip);
        collected.get_or_init(|| Acls::collect(lists, place, &self.names, self.acl_translation))
    }
}

impl SwitchAcls {
    pub(super) fn new(switch: SwitchId, lists: Vec<Arc<AclList>>) -> Self {
        Self { switch, lists, collected: OnceLock::new() }
    }

    pub(super) fn lists(&self) -> &[Arc<AclList>] {
        &self.lists
    }

    fn is_stateful(&self) -> bool {
        self.lists.iter().any(|list| list.is_stateful)
    }
}

impl<'a> AclReader<'a> {
    pub(super) fn new(tables: &'a Tables, names: &'a Names) -> Self {
        Self { tables, names, read: HashMap::default(), notes: Notes::default() }
    }

    /// Reads the rows that references name.
    pub(super) fn list(
        &mut self,
        references: impl IntoIterator<Item = &'a Ref<nb::Acl>>,
    ) -> Arc<AclList> {
        let mut list = AclList::default();
        let tables = self.tables;
        for (uuid, row) in tables.acls.of(references) {
            list.is_present = true;
            list.is_stateful |= row.action == AclAction::AllowRelated;
            list.has_transport_port |= names_transport_port(&row.r#match);
            let ReadAcl { acl, stateless } = self.read(uuid, row);
            list.acls.extend(acl.as_ref().map(Arc::clone));
            let is_egress = row.direction == AclDirection::ToLport;
            list.stateless[usize::from(is_egress)].extend(stateless.as_ref().map(Arc::clone));
        }
        sort(&mut list.acls);
        list.into()
    }

    fn read(&mut self, uuid: Uuid, row: &nb::Acl) -> &ReadAcl {
        self.read.entry(uuid).or_insert_with(|| {
            let reference = RowRef::new::<nb::Acl>(uuid);
            let parsed = Match::parse_nested(&row.r#match, self.names)
                .map_err(|error| self.notes.add(reference, format!("bad match: {error}")))
                .ok();
            // Here OVN takes the match as it is, without parentheses around it.
            let bare = |_| Match::parse(&row.r#match, self.names);
            let stateless = (row.action == AclAction::AllowStateless)
                .then(|| Match::parse_nested(&row.r#match, self.names).or_else(bare));
            let group = row.network_function_group;
            let group = group.and_then(|group| self.tables.function_groups.get(group));
            ReadAcl {
                stateless: stateless.and_then(Result::ok).map(Arc::new),
                acl: parsed.map(|matches| {
                    Arc::new(Acl {
                        row: reference,
                        name: row.name.clone(),
                        action: row.action,
                        priority: row.priority,
                        tier: row.tier,
                        function_group: group.map(|group| group.name.clone()),
                        place: place_of(row),
                        matches,
                    })
                }),
            }
        })
    }

    /// Notes about the rows that were read.
    pub(super) fn into_notes(self) -> Notes {
        self.notes
    }
}

/// Notes about the ACLs that OVN ignores on some of the switches of their lists, each reason once.
pub(super) struct AclNotes<'a> {
    switches: &'a [Switch],
    names: &'a Names,
    /// Missing port groups, and `None` for network function groups.
    noted: HashSet<(Uuid, Option<PortGroupId>), RandomState>,
}

/// Switches of a list of ACLs, as a match with port groups sees them.
#[derive(Default)]
struct Presence {
    /// Port groups that have no port on some switch, and that OVN misses first there.
    missing: Vec<PortGroupId>,
    /// `true` if the port groups have ports on a stateful switch.
    is_on_stateful: bool,
    /// `true` if they have ports on a switch without state.
    is_on_stateless: bool,
}

impl<'a> AclNotes<'a> {
    pub(super) fn new(switches: &'a [Switch], names: &'a Names) -> Self {
        Self { switches, names, noted: HashSet::default() }
    }

    /// Adds notes about the ACLs of a list that applies to switches.
    pub(super) fn add(&mut self, list: &AclList, switches: &[SwitchId], notes: &mut Notes) {
        // Most ACLs of a port group name the same groups.
        let mut known: HashMap<&[PortGroupId], Presence, RandomState> = HashMap::default();
        for acl in &list.acls {
            let groups = acl.matches.groups();
            let presence = known.entry(groups).or_insert_with(|| self.presence(groups, switches));
            for group in &presence.missing {
                if self.noted.insert((acl.row.uuid, Some(*group))) {
                    let group = self.names.group_name(*group);
                    let reason = format!("port group {group} has no port on the switch of the ACL");
                    notes.add(acl.row, reason);
                }
            }
            let is_ignored = presence.is_on_stateful && !acl.is_valid(true)
                || presence.is_on_stateless && !acl.is_valid(false);
            if is_ignored && self.noted.insert((acl.row.uuid, None)) {
                let reason = "network_function_group needs a stateful ACL that allows";
                notes.add(acl.row, reason);
            }
        }
    }

    fn presence(&self, groups: &[PortGroupId], switches: &[SwitchId]) -> Presence {
        let mut presence = Presence::default();
        for id in switches {
            let mut absent = groups.iter().filter(|group| !self.names.is_group_on(**group, *id));
            if let Some(missing) = absent.next() {
                if !presence.missing.contains(missing) {
                    presence.missing.push(*missing);
                }
                continue;
            }
            let switch = &self.switches[id.0 as usize];
            if switch.acls.is_stateful() || switch.load_balancers.has_own_vip {
                presence.is_on_stateful = true;
            } else {
                presence.is_on_stateless = true;
            }
        }
        presence
    }
}

fn place_of(row: &nb::Acl) -> AclPlace {
    match row.direction {
        AclDirection::ToLport => AclPlace::Egress,
        AclDirection::FromLport if option(&row.options, "apply-after-lb") => {
            AclPlace::AfterLoadBalancing
        }
        AclDirection::FromLport => AclPlace::BeforeLoadBalancing,
    }
}

/// `true` if a match may compare ports of TCP, UDP or SCTP.
fn names_transport_port(text: &str) -> bool {
    let mut fields = ["tcp.", "udp.", "sctp."].into_iter();
    fields.any(|field| text.contains(field))
}
