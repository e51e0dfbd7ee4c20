//! Security groups, with their references resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::FieldProblem;

use super::acl::AclVerdict;
use super::group::{DENY_ALL_GROUP, GroupAcl, SecurityGroup, deny_all, port_group};
use super::scene::{PortRequest, VpcScene};

/// Security group with its ACLs, or the reason why ports cannot be in it.
pub type ResolvedGroup = Result<WiredGroup, FieldProblem>;

/// Port group with its ACLs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WiredGroup {
    /// Tier, 0 or 1.
    pub tier: i64,
    /// ACLs.
    pub acls: Vec<GroupAcl>,
    /// Rules that cannot be used.
    pub problems: Vec<FieldProblem>,
}

impl VpcScene {
    /// Security groups by name. If ports or objects name any, the group that drops is among them.
    pub fn groups(&self) -> BTreeMap<Arc<str>, ResolvedGroup> {
        let mut requests = self.objects.requests.iter();
        let has_any =
            !self.objects.groups.is_empty() || requests.any(|request| !request.groups.is_empty());
        if !has_any {
            return BTreeMap::new();
        }
        let mut found = BTreeMap::new();
        let mut rows: BTreeMap<String, Arc<str>> = BTreeMap::new();
        let mut ordered: Vec<&SecurityGroup> = self.objects.groups.values().flatten().collect();
        ordered.sort_by_key(|group| group.position);
        let usable: Vec<&SecurityGroup> = ordered
            .into_iter()
            .filter(|group| match rows.insert(port_group(&group.name), group.name.clone()) {
                None => true,
                Some(first) => {
                    let reason = format!("SecurityGroup {first} has its port group");
                    let problem = FieldProblem::new("metadata.name", reason);
                    found.insert(group.name.clone(), Err(problem));
                    rows.insert(port_group(&first), first);
                    false
                }
            })
            .collect();
        let names: BTreeSet<&str> = usable.iter().map(|group| &*group.name).collect();
        for group in &usable {
            found.insert(group.name.clone(), Ok(wired(group, &names)));
        }
        for (name, group) in &self.objects.groups {
            if let Err(problem) = group {
                found.insert(name.clone(), Err(problem.clone()));
            }
        }
        // No object has this name, because names of objects have no underscore.
        let dropping = WiredGroup { tier: 0, acls: deny_all(), problems: Vec::new() };
        found.insert(DENY_ALL_GROUP.into(), Ok(dropping));
        found
    }

    /// Groups of a request that have no effect, with the reason.
    pub fn idle_groups(
        request: &PortRequest,
        groups: &BTreeMap<Arc<str>, ResolvedGroup>,
    ) -> Vec<FieldProblem> {
        let annotation = format!("{}.kubernetes.io/security_groups", request.provider);
        // In both tiers, packets without another ACL are dropped.
        let usable = request.groups.iter().filter_map(|name| groups.get(name)?.as_ref().ok());
        let mut acls = usable.flat_map(|group| &group.acls);
        let is_passed = acls.any(|acl| acl.acl.verdict == AclVerdict::Pass);
        let idle = request.groups.iter().filter_map(|name| match groups.get(name) {
            Some(Ok(group)) if group.tier > 0 && !is_passed => {
                let reason = "has tier 1, and no group of tier 0 passes packets to it";
                Some(format!("SecurityGroup {name} {reason}"))
            }
            Some(Ok(_)) => None,
            Some(Err(problem)) => Some(format!("SecurityGroup {name}: {problem}")),
            None => Some(format!("there is no SecurityGroup {name}")),
        });
        idle.map(|reason| FieldProblem::of_annotation(&annotation, reason)).collect()
    }
}

/// A group of rules that can be used. `names`: names of all usable groups.
fn wired(group: &SecurityGroup, names: &BTreeSet<&str>) -> WiredGroup {
    let mut problems: Vec<FieldProblem> =
        group.refused.iter().map(|(problem, _)| problem.clone()).collect();
    let mut is_opened = group.refused.iter().any(|(_, would_open)| *would_open);
    let mut usable = Vec::new();
    for rule in &group.rules {
        let unknown = rule.remote.as_ref().filter(|name| !names.contains(&***name));
        if let Some(name) = unknown {
            let field = format!("{}.remoteSecurityGroup", rule.field);
            problems.push(FieldProblem::new(field, format!("there is no SecurityGroup {name}")));
            is_opened |= !rule.acl.verdict.is_allowing();
            continue;
        }
        usable.push(rule);
    }
    // A missing drop would open what it drops.
    if is_opened {
        usable.clear();
        let reason = "no rule is in effect, because one that drops or passes cannot be used";
        problems.push(FieldProblem::new("spec", reason));
    }
    WiredGroup { tier: group.tier, acls: group.acls(usable.into_iter()), problems }
}
