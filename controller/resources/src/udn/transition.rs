//! Rules about what may change in an existing object.

use super::rule_checker::RuleChecker;
use super::{
    ClusterUserDefinedNetworkSpec, Layer3Config, Layer3Subnet, NetworkRole, UserDefinedNetworkSpec,
};
use patchbay_model::FieldProblem;

impl UserDefinedNetworkSpec {
    /// Violations for which an API server would refuse the change from `old` to this `spec`.
    pub fn transition_violations(&self, old: &Self) -> Vec<FieldProblem> {
        let mut rules = RuleChecker::default();
        rules.check(self.topology == old.topology, "spec.topology", "Topology is immutable");
        check_kept(
            &mut rules,
            "spec.layer2",
            old.layer2.as_ref(),
            self.layer2.as_ref(),
            "Layer2 is immutable",
        );
        if let (Some(old), Some(new)) = (&old.layer3, &self.layer3) {
            check_layer3(&mut rules, "spec.layer3", old, new);
        }
        rules.found
    }
}

impl ClusterUserDefinedNetworkSpec {
    /// Violations for which an API server would refuse the change from `old` to this `spec`.
    pub fn transition_violations(&self, old: &Self) -> Vec<FieldProblem> {
        let mut rules = RuleChecker::default();
        let field = |name: &str| format!("spec.network.{name}");
        let (was, is) = (&old.network, &self.network);
        rules.check(is.topology == was.topology, field("topology"), "Topology is immutable");
        check_kept(
            &mut rules,
            &field("layer2"),
            was.layer2.as_ref(),
            is.layer2.as_ref(),
            "Layer2 is immutable",
        );
        check_kept(
            &mut rules,
            &field("localnet"),
            was.localnet.as_ref(),
            is.localnet.as_ref(),
            "Localnet is immutable",
        );
        if let (Some(old), Some(new)) = (&was.layer3, &is.layer3) {
            check_layer3(&mut rules, &field("layer3"), old, new);
        }
        rules.check(is.transport == was.transport, field("transport"), "Transport is immutable");
        check_kept(
            &mut rules,
            &field("noOverlay"),
            was.no_overlay.as_ref(),
            is.no_overlay.as_ref(),
            "NoOverlay is immutable",
        );
        rules.check(self.uplinks == old.uplinks, "spec.uplinks", "uplinks is immutable");
        rules.found
    }
}

/// A member that may not change; that it may not come or go is a rule of the topology.
fn check_kept<T: PartialEq>(
    rules: &mut RuleChecker,
    field: &str,
    old: Option<&T>,
    new: Option<&T>,
    message: &str,
) {
    if let (Some(old), Some(new)) = (old, new) {
        rules.check(old == new, field, message);
    }
}

fn check_layer3(rules: &mut RuleChecker, field: &str, old: &Layer3Config, new: &Layer3Config) {
    rules.check(old.role == new.role, format!("{field}.role"), "role is immutable");
    check_kept(
        rules,
        &format!("{field}.mtu"),
        old.mtu.as_ref(),
        new.mtu.as_ref(),
        "mtu is immutable",
    );
    let (was, is) = (old.join_subnets.as_ref(), new.join_subnets.as_ref());
    check_kept(rules, &format!("{field}.joinSubnets"), was, is, "joinSubnets is immutable");
    let field = format!("{field}.subnets");
    rules.check(
        new.role != NetworkRole::Secondary || old.subnets == new.subnets,
        &field,
        "Subnets is immutable for Secondary role",
    );
    let kept = |old: &Layer3Subnet| new.subnets.iter().any(|new| new.cidr == old.cidr);
    rules.check(old.subnets.iter().all(kept), &field, "Removing existing subnets is not allowed");
    let same = |old: &Layer3Subnet| {
        let mut left = new.subnets.iter().filter(|new| new.cidr == old.cidr);
        left.all(|new| new.host_subnet == old.host_subnet)
    };
    rules.check(old.subnets.iter().all(same), &field, "hostSubnet is immutable");
}
