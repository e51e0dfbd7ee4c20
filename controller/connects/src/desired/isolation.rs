//! Service-only connectivity: ACLs that pass traffic to cluster IPs and within a network, and drop
//! traffic to pods of other networks.

use ipnet::IpNet;
use patchbay_model::external_ids::{AclKind, OwnedRow, address_set_name};
use patchbay_model::{Connect, IpFamily, NetworkId};
use patchbay_schemas::nb::{AclAction, AclDirection};
use patchbay_zone::ZoneObjects;

use super::routing::destinations;
use super::{Member, needs_local_node};
use crate::tables::{AclRow, AddressSetRow};

/// Meter that limits the log rate of ACLs.
const ACL_LOG_METER: &str = "acl-logging";

/// ACLs that drop traffic between pods, and the address sets that they use.
#[derive(Debug)]
pub(crate) struct IsolationRows {
    /// Address sets with the pod subnets of all networks, one for each IP family.
    pub(crate) address_sets: Vec<AddressSetRow>,
    /// ACLs of all switches.
    pub(crate) shared: Vec<AclRow>,
    /// Switches with ACLs.
    pub(crate) switches: Vec<IsolatedSwitch>,
}

/// Switch whose pods are isolated from the pods of other networks.
#[derive(Debug)]
pub(crate) struct IsolatedSwitch {
    /// Name.
    pub(crate) name: String,
    /// Network of the switch.
    pub(crate) network: NetworkId,
    /// ACL that passes traffic within the network.
    pub(crate) pass_own: AclRow,
}

/// ACLs, their switches and the address sets. `None`: pods may reach pods.
///
/// ACLs without a switch are omitted, because OVSDB deletes unreferenced rows.
pub(crate) fn isolation<'m>(
    connect: &Connect,
    members: impl Iterator<Item = &'m Member> + Clone,
    objects: &ZoneObjects,
) -> Option<IsolationRows> {
    if !connect.connectivity.is_service_only() {
        return None;
    }
    let has_local_node = objects.own_node().is_some();
    let service_cidrs = &objects.settings().service_cidrs;
    let families = objects.families();
    let mut rows = IsolationRows {
        address_sets: address_sets(connect, members.clone(), &families, has_local_node),
        shared: Vec::new(),
        switches: Vec::new(),
    };
    for member in members.filter(|member| member.is_connected() && member.is_active_here) {
        let subnets: Vec<IpNet> =
            IpFamily::BOTH.into_iter().flat_map(|family| member.pod_subnets_of(family)).collect();
        let kind = AclKind::PassSameNetwork(member.id);
        rows.switches.push(IsolatedSwitch {
            name: member.switch.clone(),
            network: member.id,
            pass_own: acl(connect, kind, 475, AclAction::Pass, destinations(&subnets)),
        });
    }
    if rows.switches.is_empty() {
        return Some(rows);
    }
    if !service_cidrs.is_empty() {
        let matched = format!("({})", destinations(service_cidrs));
        let row = acl(connect, AclKind::PassService, 500, AclAction::Pass, matched);
        rows.shared.push(row);
    }
    let matched = format!("{} && ct.new", to_any_pod(connect, &families));
    let row = acl(connect, AclKind::DropPod, 450, AclAction::Drop, matched);
    rows.shared.push(row);
    Some(rows)
}

fn acl(
    connect: &Connect,
    kind: AclKind,
    priority: i64,
    action: AclAction,
    matched: String,
) -> AclRow {
    AclRow {
        priority,
        action,
        direction: AclDirection::FromLport,
        r#match: matched,
        meter: Some(ACL_LOG_METER.to_owned()),
        external_ids: OwnedRow::Acl(kind).external_ids(&connect.name),
        ..AclRow::default()
    }
}

/// Match term for packets to a pod of any connected network.
fn to_any_pod(connect: &Connect, families: &[IpFamily]) -> String {
    let terms: Vec<String> = families
        .iter()
        .map(|family| {
            let field = match family {
                IpFamily::V4 => "ip4.dst",
                IpFamily::V6 => "ip6.dst",
            };
            format!("{field} == ${}", address_set_name(&connect.name, *family))
        })
        .collect();
    match &terms[..] {
        [one] => one.clone(),
        _ => format!("({})", terms.join(" || ")),
    }
}

/// One address set for each IP family, with the pod subnets of all networks known in this zone.
fn address_sets<'m>(
    connect: &Connect,
    members: impl Iterator<Item = &'m Member>,
    families: &[IpFamily],
    has_local_node: bool,
) -> Vec<AddressSetRow> {
    let known: Vec<_> =
        members.filter(|member| has_local_node || !needs_local_node(member.topology)).collect();
    let families = families.iter().copied();
    families
        .map(|family| AddressSetRow {
            name: address_set_name(&connect.name, family),
            addresses: known
                .iter()
                .flat_map(|member| member.pod_subnets_of(family))
                .map(|subnet| subnet.to_string())
                .collect(),
            external_ids: OwnedRow::AddressSet(family).external_ids(&connect.name),
        })
        .collect()
}
