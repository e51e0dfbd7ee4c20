//! Rule O1: objects that an API server refuses.

use patchbay_resources::manifests::RefusedObject;
use patchbay_resources::object::Object as _;
use patchbay_resources::object::kube_ovn::Vlan;

use crate::cluster::Cluster;
use crate::report::Report;

pub(super) fn refused(cluster: &Cluster<'_>, report: &mut Report) {
    for object in &cluster.inventory.refused {
        if is_impossible_id(object) {
            continue;
        }
        for problem in &object.problems {
            let mut draft = report.about_refused(object);
            if let Some(field) = &problem.field {
                draft = draft.field(field);
            }
            draft.located(problem.location.clone()).found(
                format!("An API server refuses the object: {}.", problem.message),
                "Correct the field.",
            );
        }
    }
}

/// `true` for a VLAN whose id is outside of the range, which is rule V9.
pub(super) fn is_impossible_id(object: &RefusedObject) -> bool {
    let mut problems = object.problems.iter();
    object.kind == Vlan::KIND
        && object.json.pointer("/spec/id").is_some_and(serde_json::Value::is_number)
        && problems.any(|problem| problem.field.as_deref() == Some("spec.id"))
}
