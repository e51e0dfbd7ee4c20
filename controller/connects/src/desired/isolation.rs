//! Services without pods: ACLs that let cluster IPs and the own network pass and drop what goes to pods of others.

use ipnet::IpNet;
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, AddressSet};

use crate::inputs::Inputs;
use patchbay_model::external_ids::{AclKind, OwnedRow, address_set_name};
use patchbay_model::{Connect, IpFamily, NetworkId};

use super::routing::destinations;
use super::{Member, PlanContext, needs_local_node};

/// The meter that limits how much ACLs log.
const ACL_LOG_METER: &str = "acl-logging";

/// ACLs that drop traffic from pod to pod, and the address sets that they refer to.
#[derive(Debug)]
pub(crate) struct IsolationRows {
    /// The pod subnets of all networks, a row for each family.
    pub(crate) address_sets: Vec<AddressSet>,
    /// The ACLs that all switches have.
    pub(crate) shared: Vec<Acl>,
    /// The switches.
    pub(crate) switches: Vec<IsolatedSwitch>,
}

/// A switch whose pods are kept from the pods of other networks.
#[derive(Debug)]
pub(crate) struct IsolatedSwitch {
    /// Its name.
    pub(crate) name: String,
    /// Its network.
    pub(crate) network: NetworkId,
    /// What lets its pods reach each other.
    pub(crate) pass_own: Acl,
}

/// The ACLs with their switches and the address sets; none if pods may reach pods.
///
/// ACLs that no switch has are left out: such rows cannot exist.
pub(crate) fn isolation<'m>(
    connect: &Connect,
    members: impl Iterator<Item = &'m Member> + Clone,
    context: &PlanContext<'_>,
) -> Option<IsolationRows> {
    if !connect.connectivity.is_service_only() {
        return None;
    }
    let inputs = context.inputs;
    let mut rows = IsolationRows {
        address_sets: address_sets(connect, members.clone(), context),
        shared: Vec::new(),
        switches: Vec::new(),
    };
    for member in members.filter(|member| member.is_connected() && member.is_active_here) {
        let subnets: Vec<IpNet> = IpFamily::BOTH
            .into_iter()
            .flat_map(|family| member.pod_subnets_of(family))
            .collect();
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
    if !inputs.service_cidrs.is_empty() {
        let matched = format!("({})", destinations(&inputs.service_cidrs));
        let row = acl(connect, AclKind::PassService, 500, AclAction::Pass, matched);
        rows.shared.push(row);
    }
    let matched = format!("{} && ct.new", to_any_pod(connect, inputs));
    let row = acl(connect, AclKind::DropPod, 450, AclAction::Drop, matched);
    rows.shared.push(row);
    Some(rows)
}

fn acl(connect: &Connect, kind: AclKind, priority: i64, action: AclAction, matched: String) -> Acl {
    Acl {
        priority,
        action,
        direction: AclDirection::FromLport,
        r#match: matched,
        meter: Some(ACL_LOG_METER.to_owned()),
        external_ids: OwnedRow::Acl(kind).external_ids(&connect.name),
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
fn address_sets<'m>(
    connect: &Connect,
    members: impl Iterator<Item = &'m Member>,
    context: &PlanContext<'_>,
) -> Vec<AddressSet> {
    let known: Vec<_> = members
        .filter(|member| context.has_local_node() || !needs_local_node(member.topology))
        .collect();
    families(context.inputs)
        .map(|family| AddressSet {
            name: address_set_name(&connect.name, family),
            addresses: known
                .iter()
                .flat_map(|member| member.pod_subnets_of(family))
                .map(|subnet| subnet.to_string())
                .collect(),
            external_ids: OwnedRow::AddressSet(family).external_ids(&connect.name),
            ..AddressSet::default()
        })
        .collect()
}
