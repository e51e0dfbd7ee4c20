//! Services without pods: ACLs that let cluster IPs and the own network pass and drop what goes to pods of others.

use ipnet::IpNet;
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, AddressSet};

use crate::model::external_ids::{AclKind, OwnedRow, address_set_name};
use crate::model::{Connect, IpFamily};
use crate::zone::inputs::Inputs;

use super::members::Member;
use super::routing::destinations;
use super::{IsolationRows, needs_local_node, owned};

/// The meter that limits how much ACLs log.
const METER: &str = "acl-logging";

/// The ACLs with their switches and the address sets; none if pods may reach pods.
///
/// ACLs that no switch has are left out: such rows cannot exist.
pub(super) fn isolation(
    connect: &Connect,
    members: &[Member<'_>],
    inputs: &Inputs,
) -> Option<IsolationRows> {
    if !connect.connectivity.is_service_only() {
        return None;
    }
    let mut rows = IsolationRows {
        address_sets: address_sets(connect, members, inputs),
        acls: Vec::new(),
        switches: Vec::new(),
    };
    let mut local = members
        .iter()
        .filter(|member| member.is_connected && member.is_active_here)
        .peekable();
    if local.peek().is_none() {
        return Some(rows);
    }
    if !inputs.service_cidrs.is_empty() {
        let matched = format!("({})", destinations(&inputs.service_cidrs));
        let row = acl(connect, AclKind::PassService, 500, AclAction::Pass, matched);
        rows.acls.push(row);
    }
    let matched = format!("{} && ct.new", to_any_pod(connect, inputs));
    rows.acls.push(acl(
        connect,
        AclKind::DropPod,
        450,
        AclAction::Drop,
        matched,
    ));
    let shared = rows.acls.len();
    for member in local {
        let network = member.network;
        let mut places: Vec<usize> = (0..shared).collect();
        places.push(rows.acls.len());
        let subnets: Vec<IpNet> = IpFamily::BOTH
            .into_iter()
            .flat_map(|family| network.pod_subnets_of(family))
            .collect();
        let kind = AclKind::PassSameNetwork(network.id);
        let row = acl(connect, kind, 475, AclAction::Pass, destinations(&subnets));
        rows.acls.push(row);
        rows.switches.push((member.switch.clone(), places));
    }
    Some(rows)
}

fn acl(connect: &Connect, kind: AclKind, priority: i64, action: AclAction, matched: String) -> Acl {
    Acl {
        priority,
        action,
        direction: AclDirection::FromLport,
        r#match: matched,
        meter: Some(METER.to_owned()),
        external_ids: owned(OwnedRow::Acl(kind).external_ids(&connect.name)),
        ..Acl::default()
    }
}

/// The part of a match that is true for packets to a pod of any connected network.
fn to_any_pod(connect: &Connect, inputs: &Inputs) -> String {
    let terms: Vec<String> = families(inputs)
        .map(|family| {
            let field = match family {
                IpFamily::V4 => "ip4.dst",
                IpFamily::V6 => "ip6.dst",
            };
            format!("{field} == ${}", address_set_name(&connect.name, family))
        })
        .collect();
    match &terms[..] {
        [one] => one.clone(),
        _ => format!("({})", terms.join(" || ")),
    }
}

/// The families of the cluster, IPv4 first.
fn families(inputs: &Inputs) -> impl Iterator<Item = IpFamily> {
    IpFamily::BOTH
        .into_iter()
        .filter(|family| inputs.families.contains(family))
}

/// A set for each family of the cluster, with the pod subnets of all networks that are known here.
fn address_sets(connect: &Connect, members: &[Member<'_>], inputs: &Inputs) -> Vec<AddressSet> {
    let has_local_node = inputs.nodes.iter().any(|node| node.name == inputs.zone);
    let known: Vec<_> = members
        .iter()
        .filter(|member| has_local_node || !needs_local_node(member.network.topology))
        .collect();
    families(inputs)
        .map(|family| AddressSet {
            name: address_set_name(&connect.name, family),
            addresses: known
                .iter()
                .flat_map(|member| member.network.pod_subnets_of(family))
                .map(|subnet| subnet.to_string())
                .collect(),
            external_ids: owned(OwnedRow::AddressSet(family).external_ids(&connect.name)),
            ..AddressSet::default()
        })
        .collect()
}
