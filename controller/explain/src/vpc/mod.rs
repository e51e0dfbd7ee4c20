//! Explanation of an object of a VPC: what it specifies, the status and rows that follow, and what
//! stops it.
//!
//! ```text
//! objects                    -> facts    what the object specifies, and what it has
//! verdicts about objects,
//! findings of lint           -> reasons  what stops it, with the object and field to change
//! rows before and after
//! a dry run                  -> rows     rows of the object, and those that are not as wanted
//!                            -> ObjectExplanation
//! ```

mod balancer_facts;
mod facts;
mod reasons;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use patchbay_engine::db::Snapshot;
use patchbay_lint::{Finding, RULES, Rule, Severity};
use patchbay_model::ObjectProblem;
use patchbay_model::vpc::{NatKind, PortRequest};
use patchbay_resources::conversion::vpc_scene;
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects};
use patchbay_resources::object::Object as _;
use patchbay_resources::object::kube_ovn::{
    IP, IPPool, KubeOvnCondition, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, RouterLBRule,
    SecurityGroup, Subnet, SwitchLBRule, Vip, Vpc,
};

use super::object::{ObjectExplanation, ObjectRow, ObjectState, RowState};
use super::reasons::Reason;

/// Kinds of objects of VPCs that have an explanation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VpcKind {
    /// `Vpc`.
    Vpc,
    /// `Subnet`.
    Subnet,
    /// `OvnEip`.
    Eip,
    /// Rule about an external address.
    Nat(NatKind),
    /// `SwitchLBRule`.
    SwitchRule,
    /// `RouterLBRule`.
    RouterRule,
    /// `SecurityGroup`.
    Group,
    /// `Vip`.
    VirtualIp,
    /// `IPPool`.
    IpPool,
    /// `IP` of a pod's port.
    Ip,
}

impl VpcKind {
    /// Kind of the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vpc => Vpc::KIND,
            Self::Subnet => Subnet::KIND,
            Self::Eip => OvnEip::KIND,
            Self::Nat(NatKind::Snat) => OvnSnatRule::KIND,
            Self::Nat(NatKind::Dnat) => OvnDnatRule::KIND,
            Self::Nat(NatKind::Fip) => OvnFip::KIND,
            Self::SwitchRule => SwitchLBRule::KIND,
            Self::RouterRule => RouterLBRule::KIND,
            Self::Group => SecurityGroup::KIND,
            Self::VirtualIp => Vip::KIND,
            Self::IpPool => IPPool::KIND,
            Self::Ip => IP::KIND,
        }
    }

    /// Names of all objects of the kind. Ports that pods request are among those of `IP`s.
    pub fn names(self, inventory: &Inventory) -> Vec<String> {
        let names: BTreeSet<String> = match self {
            Self::Vpc => names_of(&inventory.vpcs),
            Self::Subnet => names_of(&inventory.subnets),
            Self::Eip => names_of(&inventory.ovn_eips),
            Self::Nat(NatKind::Snat) => names_of(&inventory.ovn_snat_rules),
            Self::Nat(NatKind::Dnat) => names_of(&inventory.ovn_dnat_rules),
            Self::Nat(NatKind::Fip) => names_of(&inventory.ovn_fips),
            Self::SwitchRule => names_of(&inventory.switch_lb_rules),
            Self::RouterRule => names_of(&inventory.router_lb_rules),
            Self::Group => names_of(&inventory.security_groups),
            Self::VirtualIp => names_of(&inventory.vips),
            Self::IpPool => names_of(&inventory.ip_pools),
            Self::Ip => {
                let requests = vpc_scene(inventory).objects.requests;
                let mut names = names_of(&inventory.ips);
                names.extend(requests.iter().map(PortRequest::port));
                names
            }
        };
        names.into_iter().collect()
    }

    /// Conditions of an object of the kind.
    fn conditions(self, inventory: &Inventory, name: &str) -> Vec<KubeOvnCondition> {
        macro_rules! of {
            ($objects:ident) => {{
                let object = inventory.$objects.named(name);
                object.and_then(|object| Some(object.status.as_ref()?.conditions.clone()))
            }};
        }
        let found = match self {
            Self::Vpc => of!(vpcs),
            Self::Subnet => of!(subnets),
            Self::Eip => of!(ovn_eips),
            Self::Nat(NatKind::Snat) => of!(ovn_snat_rules),
            Self::Nat(NatKind::Dnat) => of!(ovn_dnat_rules),
            Self::Nat(NatKind::Fip) => of!(ovn_fips),
            Self::SwitchRule => of!(switch_lb_rules),
            Self::RouterRule => of!(router_lb_rules),
            Self::VirtualIp => of!(vips),
            Self::IpPool => of!(ip_pools),
            Self::Group | Self::Ip => None,
        };
        found.unwrap_or_default()
    }
}

fn names_of<T: InventoryKind>(objects: &Objects<T>) -> BTreeSet<String> {
    objects.iter().map(|(key, _)| key.name.clone()).collect()
}

/// What is known of an object beside the inventory.
#[derive(Clone, Copy, Debug)]
pub struct VpcView<'a> {
    /// Findings about the manifests.
    pub findings: &'a [Finding],
    /// Problems of the dry run.
    pub problems: &'a [ObjectProblem],
    /// Rows of the database. `None`: it was not read.
    pub before: Option<&'a Snapshot>,
    /// Rows after the dry run.
    pub after: &'a Snapshot,
}

/// Explains an object of an inventory whose objects have their addresses and status. `None`: there is
/// no such object.
pub fn explain_vpc(
    kind: VpcKind,
    name: &str,
    inventory: &Inventory,
    view: VpcView<'_>,
) -> Option<ObjectExplanation> {
    kind.names(inventory).iter().find(|known| *known == name)?;
    let scene = vpc_scene(inventory);
    let cause = reasons::Causes::of(kind, name, inventory, &scene);
    let mut found = cause.found;
    let own = view.problems.iter().filter(|problem| {
        let object = &problem.object;
        (&*object.kind, &*object.name) == (kind.as_str(), name)
    });
    found.extend(own.map(|one| Reason::of_text(one.problem.to_string(), object(kind, name))));
    let mut notices = cause.notices;
    let owner = format!("{}/{name}", kind.as_str());
    for finding in view.findings.iter().filter(|finding| cause.objects.contains(&finding.object)) {
        // Rules after whose violation nothing flows, while all objects look ready.
        let mut rules = RULES.iter().filter(|rule| rule.id == finding.rule);
        let stops = finding.severity == Severity::Error && !rules.any(Rule::can_be_silenced);
        // Facts about other objects are in their own explanations.
        let is_foreign = finding.severity == Severity::Note && finding.object != owner;
        if stops {
            found.insert(reasons::of_finding(finding));
        } else if !is_foreign {
            notices.push(reasons::notice(finding));
        }
    }
    let rows = rows::of(&owner, view.before, view.after);
    let is_there = |row: &ObjectRow| row.state == RowState::Present;
    let state = match (found.is_empty(), rows.iter().all(is_there)) {
        (true, true) => ObjectState::Ready,
        _ if rows.iter().any(is_there) => ObjectState::Partly,
        _ => ObjectState::NotReady,
    };
    let conditions = kind.conditions(inventory, name);
    Some(ObjectExplanation {
        object: object(kind, name),
        state,
        facts: facts::of(kind, name, inventory, &scene),
        conditions: conditions.iter().map(facts::condition).collect(),
        reasons: found.into_iter().collect(),
        rows,
        notices,
    })
}

/// Kind and name of an object.
fn object(kind: VpcKind, name: &str) -> String {
    format!("{} {name}", kind.as_str())
}
