//! Fields that are set and have no effect yet.

use patchbay_model::FieldProblem;
use patchbay_resources::object::kube_ovn::{SubnetSpec, VpcSpec};

/// Fields of a subnet from which rows would follow.
pub(super) fn of_subnet(spec: &SubnetSpec) -> Vec<FieldProblem> {
    let fields = [
        ("u2oInterconnection", spec.u2o_interconnection),
        ("enableMulticastSnoop", spec.enable_multicast_snoop),
    ];
    problems(&fields)
}

/// Fields of a VPC from which rows would follow.
pub(super) fn of_vpc(spec: &VpcSpec) -> Vec<FieldProblem> {
    let bfd_port = spec.bfd_port.as_ref();
    problems(&[
        ("enableBfd", spec.enable_bfd),
        ("bfdPort", bfd_port.is_some_and(|port| port.enabled)),
    ])
}

fn problems(fields: &[(&str, bool)]) -> Vec<FieldProblem> {
    let set = fields.iter().filter(|(_, is_set)| *is_set);
    let reason = "not supported yet: no row follows from it";
    set.map(|(field, _)| FieldProblem::new(format!("spec.{field}"), reason)).collect()
}
