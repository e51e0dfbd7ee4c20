//! Violations of the schema and rules of `ClusterNetworkConnect`, in the API server's words.

use std::collections::HashSet;

use ipnet::IpNet;
use patchbay_model::FieldProblem;

use super::{ClusterNetworkConnectSpec, ConnectSubnet, NetworkSelectionType, NetworkSelector};
use crate::address::parse_cidr;
use crate::selector;

impl ClusterNetworkConnectSpec {
    /// Violations for which an API server would refuse this `spec`. Violations of the schema come
    /// first, then violations of the resource's own rules, both in the order of the definition.
    pub fn violations(&self) -> Vec<FieldProblem> {
        let mut violations = Violations::default();
        violations.schema(self);
        violations.rules(self);
        violations.0
    }

    /// Violations for which an API server would refuse an update from `old` to this `spec`, beyond
    /// [`violations`](Self::violations).
    pub fn transition_violations(&self, old: &Self) -> Vec<FieldProblem> {
        let mut violations = Violations::default();
        if self.connect_subnets != old.connect_subnets {
            violations.add("spec.connectSubnets", "connectSubnets is immutable");
        }
        violations.0
    }
}

/// Violations found up to now.
#[derive(Default)]
struct Violations(Vec<FieldProblem>);

impl Violations {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldProblem::new(field, message));
    }
}

// === the schema ===

impl Violations {
    fn schema(&mut self, spec: &ClusterNetworkConnectSpec) {
        self.item_count("spec.networkSelectors", spec.network_selectors.len(), 5);
        let mut types = HashSet::new();
        let mut reported = HashSet::new();
        for (index, selector) in spec.network_selectors.iter().enumerate() {
            let path = format!("spec.networkSelectors[{index}]");
            let kind = selector.network_selection_type;
            if !types.insert(kind) && reported.insert(kind) {
                let message = format!(r#"Duplicate value: {{"networkSelectionType":"{kind}"}}"#);
                self.add(&path, message);
            }
            self.selectors_schema(&path, selector);
        }
        self.item_count("spec.connectSubnets", spec.connect_subnets.len(), 2);
        for (index, subnet) in spec.connect_subnets.iter().enumerate() {
            let path = format!("spec.connectSubnets[{index}]");
            if subnet.cidr.len() > 43 {
                self.add(format!("{path}.cidr"), "Too long: may not be more than 43 bytes");
            }
            if subnet.network_prefix < 1 {
                self.add(format!("{path}.networkPrefix"), "should be greater than or equal to 1");
            } else if subnet.network_prefix > 127 {
                self.add(format!("{path}.networkPrefix"), "should be less than or equal to 127");
            }
        }
        self.item_count("spec.connectivity", spec.connectivity.len(), 2);
    }

    fn item_count(&mut self, path: &str, count: usize, max: usize) {
        if count == 0 {
            self.add(path, "should have at least 1 items");
        } else if count > max {
            self.add(path, format!("Too many: {count}: must have at most {max} items"));
        }
    }

    /// The label selectors of whatever members are set.
    fn selectors_schema(&mut self, path: &str, entry: &NetworkSelector) {
        let mut labels = Vec::new();
        if let Some(member) = &entry.cluster_user_defined_network_selector {
            labels.push((
                "clusterUserDefinedNetworkSelector.networkSelector",
                &member.network_selector,
            ));
        }
        if let Some(member) = &entry.primary_user_defined_network_selector {
            labels.push((
                "primaryUserDefinedNetworkSelector.namespaceSelector",
                &member.namespace_selector,
            ));
        }
        if let Some(member) = &entry.secondary_user_defined_network_selector {
            labels.push((
                "secondaryUserDefinedNetworkSelector.namespaceSelector",
                &member.namespace_selector,
            ));
            labels.push((
                "secondaryUserDefinedNetworkSelector.networkSelector",
                &member.network_selector,
            ));
        }
        if let Some(member) = &entry.network_attachment_definition_selector {
            labels.push((
                "networkAttachmentDefinitionSelector.namespaceSelector",
                &member.namespace_selector,
            ));
            labels.push((
                "networkAttachmentDefinitionSelector.networkSelector",
                &member.network_selector,
            ));
        }
        for (member, labels) in labels {
            self.0.extend(selector::violations(&format!("{path}.{member}"), labels));
        }
    }
}

// === the resource's own rules ===

impl Violations {
    fn rules(&mut self, spec: &ClusterNetworkConnectSpec) {
        let supported = |selector: &NetworkSelector| {
            matches!(
                selector.network_selection_type,
                NetworkSelectionType::ClusterUserDefinedNetworks
                    | NetworkSelectionType::PrimaryUserDefinedNetworks
                    | NetworkSelectionType::NetworkAttachmentDefinitions
            )
        };
        if !spec.network_selectors.iter().all(supported) {
            self.add(
                "spec",
                "Only ClusterUserDefinedNetworks, PrimaryUserDefinedNetworks \
                 or NetworkAttachmentDefinitions of Kube-OVN can be selected",
            );
        }
        for (index, selector) in spec.network_selectors.iter().enumerate() {
            self.union_rules(&format!("spec.networkSelectors[{index}]"), selector);
        }
        self.family_rules(&spec.connect_subnets);
        for (index, subnet) in spec.connect_subnets.iter().enumerate() {
            self.connect_subnet_rules(&format!("spec.connectSubnets[{index}]"), subnet);
        }
        if let [first, second] = spec.connectivity[..]
            && first == second
        {
            self.add("spec.connectivity", "connectivity cannot contain duplicate values");
        }
    }

    fn union_rules(&mut self, path: &str, selector: &NetworkSelector) {
        use NetworkSelectionType as Type;
        let members = [
            (
                Type::ClusterUserDefinedNetworks,
                "clusterUserDefinedNetworkSelector",
                selector.cluster_user_defined_network_selector.is_some(),
            ),
            (
                Type::PrimaryUserDefinedNetworks,
                "primaryUserDefinedNetworkSelector",
                selector.primary_user_defined_network_selector.is_some(),
            ),
            (
                Type::SecondaryUserDefinedNetworks,
                "secondaryUserDefinedNetworkSelector",
                selector.secondary_user_defined_network_selector.is_some(),
            ),
            (
                Type::NetworkAttachmentDefinitions,
                "networkAttachmentDefinitionSelector",
                selector.network_attachment_definition_selector.is_some(),
            ),
        ];
        for (kind, member, is_set) in members {
            if is_set != (selector.network_selection_type == kind) {
                self.add(
                    path,
                    format!(
                        "Inconsistent selector: both networkSelectionType {kind} and {member} have to be set or neither"
                    ),
                );
            }
        }
    }

    fn family_rules(&mut self, subnets: &[ConnectSubnet]) {
        let [first, second] = subnets else { return };
        let (Some(first_net), Some(second_net)) =
            (parse_cidr(&first.cidr), parse_cidr(&second.cidr))
        else {
            return;
        };
        let host_bits = |net: IpNet, subnet: &ConnectSubnet| {
            i32::from(net.max_prefix_len()) - subnet.network_prefix
        };
        if first_net.max_prefix_len() == second_net.max_prefix_len() {
            self.add(
                "spec.connectSubnets",
                "When 2 CIDRs are set, they must be from different IP families",
            );
        } else if host_bits(first_net, first) != host_bits(second_net, second) {
            self.add(
                "spec.connectSubnets",
                "For dual-stack, networkPrefix must have matching host bits: (32 - ipv4NetworkPrefix) must equal (128 - ipv6NetworkPrefix)",
            );
        }
    }

    fn connect_subnet_rules(&mut self, path: &str, subnet: &ConnectSubnet) {
        let net = parse_cidr(&subnet.cidr);
        if !matches!(&net, Some(net) if *net == net.trunc()) {
            self.add(format!("{path}.cidr"), "CIDR must be a valid network address");
        }
        let Some(net) = net else { return };
        if subnet.network_prefix <= i32::from(net.prefix_len()) {
            self.add(path, "NetworkPrefix must be longer than the CIDR prefix length");
        }
        if matches!(net, IpNet::V4(_)) && subnet.network_prefix >= 32 {
            self.add(path, "NetworkPrefix must < 32 for ipv4 CIDR");
        }
    }
}

#[cfg(test)]
mod tests;
