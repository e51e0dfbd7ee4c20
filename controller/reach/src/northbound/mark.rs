//! Marks and DSCP values that the rows of `QoS` give to packets.

use patchbay_schemas::nb::{self, QoSDirection};
use uuid::Uuid;

use super::note::{Notes, RowRef};
use super::{Names, SwitchId};
use crate::expression::Match;
use crate::packet::Packet;

/// Largest DSCP value.
const DSCP_MAX: i64 = 63;

/// Rows of `QoS` of a switch that change packets, by direction, by falling priority.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    ingress: Vec<MarkRule>,
    egress: Vec<MarkRule>,
}

#[derive(Debug)]
struct MarkRule {
    uuid: Uuid,
    priority: i64,
    matches: Match,
    mark: Option<u32>,
    dscp: Option<u8>,
}

impl Marks {
    pub(super) fn new<'a>(
        rows: impl IntoIterator<Item = (Uuid, &'a nb::QoS)>,
        switch: SwitchId,
        names: &Names,
        notes: &mut Notes,
    ) -> Self {
        let mut marks = Self::default();
        for (uuid, row) in rows {
            let reference = RowRef::new::<nb::QoS>(uuid);
            let matches = match Match::parse(&row.r#match, names) {
                Ok(matches) => matches,
                Err(error) => {
                    notes.add(reference, format!("bad match: {error}"));
                    continue;
                }
            };
            if let Some(group) = matches.missing_group(switch, names) {
                notes.add(reference, format!("port group {group} has no port on the switch"));
                continue;
            }
            let value = |name: &str| {
                let mut actions = row.action.iter();
                let found = actions.find(|(key, _)| key.as_str() == name);
                found.map(|(_, value)| *value)
            };
            let rule = MarkRule {
                uuid,
                priority: row.priority,
                matches,
                mark: value("mark").and_then(|mark| u32::try_from(mark).ok()),
                dscp: value("dscp").filter(|dscp| *dscp <= DSCP_MAX).map(|dscp| dscp as u8),
            };
            match row.direction {
                QoSDirection::FromLport => marks.ingress.push(rule),
                QoSDirection::ToLport => marks.egress.push(rule),
            }
        }
        for rules in [&mut marks.ingress, &mut marks.egress] {
            rules.sort_by_key(|rule| (-rule.priority, rule.uuid));
        }
        marks
    }

    /// Marks a packet as the first matching row does. Returns `true` if OVN leaves open whether the
    /// row counts, because its own flow that changes nothing has the priority 0, too.
    pub(crate) fn apply(&self, is_ingress: bool, packet: &mut Packet) -> bool {
        let rules = if is_ingress { &self.ingress } else { &self.egress };
        let Some(rule) = rules.iter().find(|rule| rule.matches.matches(packet)) else {
            return false;
        };
        packet.mark = rule.mark.unwrap_or(packet.mark);
        packet.dscp = rule.dscp.unwrap_or(packet.dscp);
        rule.priority == 0 && (rule.mark.is_some() || rule.dscp.is_some())
    }
}
