//! Rules that an object must keep by itself, in the order of the API's definition.

use ipnet::IpNet;
use patchbay_model::FieldProblem;

use super::rule_checker::{RuleChecker, is_v4};
use super::{
    ClusterUserDefinedNetworkSpec, CudnTopology, IpamConfig, IpamLifecycle, IpamMode, Layer2Config,
    Layer3Config, NetworkRole, NetworkSpec, Transport, UdnTopology, UserDefinedNetworkSpec, evpn,
    layer2, layer3, localnet,
};
use crate::selector;

const LAYER3_UNION: &str =
    "spec.layer3 is required when topology is Layer3 and forbidden otherwise";
const LAYER2_UNION: &str =
    "spec.layer2 is required when topology is Layer2 and forbidden otherwise";
const LOCALNET_UNION: &str =
    "spec.localnet is required when topology is Localnet and forbidden otherwise";
pub(super) const MTU_IPV6: &str =
    "MTU should be greater than or equal to 1280 when IPv6 subnet is used";
pub(super) const JOIN_SUBNETS_ROLE: &str = "JoinSubnets is only supported for Primary network";

impl UserDefinedNetworkSpec {
    /// Violations for which an API server would refuse this `spec`.
    pub fn violations(&self) -> Vec<FieldProblem> {
        let mut rules = RuleChecker::default();
        let (layer3, layer2) =
            (self.topology == UdnTopology::Layer3, self.topology == UdnTopology::Layer2);
        rules.check(layer3 == self.layer3.is_some(), "spec.layer3", LAYER3_UNION);
        rules.check(layer2 == self.layer2.is_some(), "spec.layer2", LAYER2_UNION);
        check_configs(&mut rules, "spec", self.layer3.as_ref(), self.layer2.as_ref());
        rules.found
    }
}

impl ClusterUserDefinedNetworkSpec {
    /// Violations for which an API server would refuse this `spec`.
    pub fn violations(&self) -> Vec<FieldProblem> {
        let mut rules = RuleChecker::default();
        rules
            .found
            .extend(selector::violations("spec.namespaceSelector", &self.namespace_selector));
        let network = &self.network;
        for (topology, set, field, message) in [
            (CudnTopology::Layer3, network.layer3.is_some(), "spec.network.layer3", LAYER3_UNION),
            (CudnTopology::Layer2, network.layer2.is_some(), "spec.network.layer2", LAYER2_UNION),
            (
                CudnTopology::Localnet,
                network.localnet.is_some(),
                "spec.network.localnet",
                LOCALNET_UNION,
            ),
        ] {
            rules.check((network.topology == topology) == set, field, message);
        }
        check_configs(&mut rules, "spec.network", network.layer3.as_ref(), network.layer2.as_ref());
        if let Some(config) = &network.localnet {
            localnet::check(&mut rules, "spec.network.localnet", config);
        }
        check_transport(&mut rules, "spec.network", network);
        if let Some(uplinks) = &self.uplinks {
            check_uplinks(&mut rules, "spec.uplinks", uplinks, network);
        }
        rules.found
    }
}

impl NetworkSpec {
    /// The role that the member of the topology gives.
    pub fn role(&self) -> Option<NetworkRole> {
        match self.topology {
            CudnTopology::Layer3 => self.layer3.as_ref().map(|config| config.role),
            CudnTopology::Layer2 => self.layer2.as_ref().map(|config| config.role),
            CudnTopology::Localnet => self.localnet.as_ref().map(|config| config.role),
        }
    }
}

fn check_configs(
    rules: &mut RuleChecker,
    field: &str,
    layer3: Option<&Layer3Config>,
    layer2: Option<&Layer2Config>,
) {
    if let Some(config) = layer3 {
        layer3::check(rules, &format!("{field}.layer3"), config);
    }
    if let Some(config) = layer2 {
        layer2::check(rules, &format!("{field}.layer2"), config);
    }
}

/// Checks the MTU as the API does: room for IPv6 packets is required with *exactly one* IPv6 range.
pub(super) fn check_mtu(
    rules: &mut RuleChecker,
    field: &str,
    mtu: Option<i32>,
    cidrs: &[IpNet],
    message: &str,
) {
    let field = format!("{field}.mtu");
    rules.range(&field, mtu, 576, 65536);
    let one_ipv6 = cidrs.iter().filter(|cidr| !is_v4(cidr)).count() == 1;
    rules.check(!one_ipv6 || mtu.is_none_or(|mtu| mtu >= 1280), field, message);
}

pub(super) fn ipam_disabled(ipam: Option<&IpamConfig>) -> bool {
    ipam.is_some_and(|ipam| ipam.mode == Some(IpamMode::Disabled))
}

pub(super) fn check_ipam(rules: &mut RuleChecker, field: &str, ipam: Option<&IpamConfig>) {
    let Some(IpamConfig { mode, lifecycle }) = ipam else {
        return;
    };
    rules.check(mode.is_some() || lifecycle.is_some(), field, "should have at least 1 properties");
    rules.check(
        *lifecycle != Some(IpamLifecycle::Persistent) || *mode != Some(IpamMode::Disabled),
        format!("{field}.lifecycle"),
        "lifecycle Persistent is only supported when ipam.mode is Enabled",
    );
}

fn check_transport(rules: &mut RuleChecker, field: &str, network: &NetworkSpec) {
    let primary = network.role() == Some(NetworkRole::Primary);
    let layer3 = network.topology == CudnTopology::Layer3;
    let no_overlay = network.transport == Some(Transport::NoOverlay);
    let transport_field = format!("{field}.transport");
    rules.check(
        !no_overlay || (layer3 && primary),
        &transport_field,
        "transport 'NoOverlay' is only supported for Layer3 primary networks",
    );
    rules.check(
        network.transport != Some(Transport::Evpn) || primary,
        transport_field,
        "transport 'EVPN' is only supported for Layer2 or Layer3 primary networks",
    );
    let message = if no_overlay {
        "spec.noOverlay is required when type transport is 'NoOverlay'"
    } else {
        "spec.noOverlay is forbidden when transport type is not 'NoOverlay'"
    };
    rules.check(no_overlay == network.no_overlay.is_some(), format!("{field}.noOverlay"), message);
    evpn::check(rules, field, network);
}

fn check_uplinks(rules: &mut RuleChecker, field: &str, uplinks: &[String], network: &NetworkSpec) {
    rules.items(field, uplinks.len(), 1);
    for (index, uplink) in uplinks.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if rules.length(&field, uplink, 253) {
            rules.check(
                is_uplink_name(uplink),
                field,
                "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            );
        }
    }
    rules.check(
        network.role() == Some(NetworkRole::Primary),
        field,
        "spec.uplinks is supported only for primary Layer2 and Layer3 networks",
    );
    rules.check(
        network.transport != Some(Transport::Evpn),
        field,
        "spec.uplinks is not supported with EVPN transport",
    );
}

fn is_uplink_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
