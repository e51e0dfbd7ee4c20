//! Reasons why EgressIPs do not apply as their objects specify, as far as the objects alone show
//! them.

use std::sync::Arc;

use patchbay_model::{Feature, FieldProblem, ObjectProblem, ObjectRef, object_kind};
use patchbay_zone::{UsableEgressIp, ZoneObjects};

use super::capability::is_on;

/// The EgressIP of this name.
pub(super) fn egress_ip(name: &Arc<str>) -> ObjectRef {
    ObjectRef::cluster(object_kind::EGRESS_IP, name.clone())
}

pub(super) fn object_problems(objects: &ZoneObjects) -> Vec<ObjectProblem> {
    if is_on(objects) {
        return objects.usable_egress_ips().flat_map(unusable).collect();
    }
    let off = FieldProblem::of_feature(Feature::EgressIp);
    let names = objects.egress_ips();
    names.map(|name| ObjectProblem::new(egress_ip(name), off.clone())).collect()
}

/// Selectors that cannot be read, and addresses that no node's bridge has.
fn unusable(of: &UsableEgressIp) -> impl Iterator<Item = ObjectProblem> {
    let selectors = of.object.problems.iter().map(|FieldProblem { field, reason }| {
        FieldProblem::new(field, format!("{reason}; no pod is selected"))
    });
    let secondary = of.unusable.iter().map(|assignment| {
        let reason = format!(
            "{} is not in a subnet of node {}'s primary interface, so pods of networks are not \
             served with it",
            assignment.address, assignment.node
        );
        FieldProblem::new("status.items", reason)
    });
    selectors
        .chain(secondary)
        .map(|problem| ObjectProblem::new(egress_ip(&of.object.name), problem))
}
