//! Rules against specs written as users write them.

use super::*;

fn udn(yaml: &str) -> UserDefinedNetworkSpec {
    serde_saphyr::from_str(yaml).unwrap()
}

fn cudn(network: &str) -> ClusterUserDefinedNetworkSpec {
    serde_saphyr::from_str(&format!("{{namespaceSelector: {{}}, network: {network}}}")).unwrap()
}

fn texts(violations: &[patchbay_model::FieldProblem]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn udn_breaks(yaml: &str, expected: &[&str]) {
    assert_eq!(texts(&udn(yaml).violations()), expected, "{yaml}");
}

#[track_caller]
fn cudn_breaks(network: &str, expected: &[&str]) {
    assert_eq!(texts(&cudn(network).violations()), expected, "{network}");
}

#[test]
fn good_specs_break_nothing() {
    for yaml in [
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 103.103.0.0/16, hostSubnet: 24}]}}",
        "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/8}, {cidr: 'fd00::/48'}]}}",
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16, 'fd20::/64'], mtu: 1280}}",
        "{topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}}}",
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16], reservedSubnets: [10.20.1.0/24],
          infrastructureSubnets: [10.20.0.0/24], defaultGatewayIPs: [10.20.0.9]}}",
    ] {
        udn_breaks(yaml, &[]);
    }
    for network in [
        "{topology: Localnet, localnet: {role: Secondary, physicalNetworkName: phys, subnets: [10.0.0.0/24],
          excludeSubnets: [10.0.0.0/28], vlan: {mode: Access, access: {id: 4094}}}}",
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]}, transport: NoOverlay,
          noOverlay: {outboundSNAT: Enabled, routing: Managed}}",
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}, transport: EVPN,
          evpn: {vtep: v, macVRF: {vni: 1, routeTarget: '65000:1'}}}",
    ] {
        cudn_breaks(network, &[]);
    }
}

#[test]
fn the_member_of_the_topology_is_the_only_one() {
    udn_breaks(
        "{topology: Layer3, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}",
        &[
            "spec.layer3: spec.layer3 is required when topology is Layer3 and forbidden otherwise",
            "spec.layer2: spec.layer2 is required when topology is Layer2 and forbidden otherwise",
        ],
    );
    cudn_breaks(
        "{topology: Localnet}",
        &[
            "spec.network.localnet: spec.localnet is required when topology is Localnet and forbidden otherwise",
        ],
    );
}

#[test]
fn layer3_subnets() {
    let layer3 = |role: &str, subnets: &str| {
        format!("{{topology: Layer3, layer3: {{role: {role}, subnets: [{subnets}]}}}}")
    };
    udn_breaks(
        &layer3("Primary", "{cidr: 10.0.0.0/33}, {cidr: 10.1.2.0/16, hostSubnet: 0}"),
        &[
            "spec.layer3.subnets[0].cidr: CIDR is invalid",
            "spec.layer3.subnets[1].hostSubnet: should be greater than or equal to 1",
            "spec.layer3.subnets[1].hostSubnet: HostSubnet must be smaller than CIDR subnet",
        ],
    );
    udn_breaks(&layer3("Primary", ""), &["spec.layer3.subnets: should have at least 1 items"]);
    udn_breaks(
        &layer3(
            "Primary",
            "{cidr: 10.0.0.0/24, hostSubnet: 24}, {cidr: 'fd00::/48', hostSubnet: 128}",
        ),
        &[
            "spec.layer3.subnets[0].hostSubnet: HostSubnet must be smaller than CIDR subnet",
            "spec.layer3.subnets[1].hostSubnet: should be less than or equal to 127",
        ],
    );
    udn_breaks(
        &layer3("Primary", "{cidr: 10.0.0.0/24, hostSubnet: 32}"),
        &["spec.layer3.subnets[0].hostSubnet: HostSubnet must < 32 for ipv4 CIDR"],
    );
    udn_breaks(
        &layer3("Primary", "{cidr: 10.0.0.0/8}, {cidr: 10.1.0.0/16}, {cidr: 10.0.0.0/8}"),
        &[
            "spec.layer3.subnets: Subnets must not overlap or contain each other",
            "spec.layer3.subnets: Subnets with same CIDR are not allowed",
        ],
    );
    udn_breaks(
        &layer3("Primary", "{cidr: 10.0.0.0/16, hostSubnet: 24}, {cidr: 10.1.0.0/16}"),
        &[
            "spec.layer3.subnets: Subnets from the same IP family must use the same hostSubnet value",
        ],
    );
    udn_breaks(
        &layer3("Secondary", "{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}"),
        &[
            "spec.layer3.subnets: When 2 CIDRs are set for Secondary networks, they must be from different IP families",
        ],
    );
    udn_breaks(
        &layer3("Secondary", "{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}, {cidr: 'fd00::/48'}"),
        &["spec.layer3.subnets: Secondary networks may define at most 2 subnets"],
    );
}

#[test]
fn mtu_and_join_subnets() {
    udn_breaks(
        "{topology: Layer3, layer3: {role: Secondary, mtu: 1000, subnets: [{cidr: 'fd00::/48'}],
          joinSubnets: [100.66.0.0/16, 100.67.0.0/16]}}",
        &[
            "spec.layer3.joinSubnets: When 2 CIDRs are set, they must be from different IP families",
            "spec.layer3.joinSubnets: JoinSubnets is only supported for Primary network",
            "spec.layer3.mtu: MTU should be greater than or equal to 1280 when IPv6 subnet is used",
        ],
    );
    udn_breaks(
        "{topology: Layer2, layer2: {role: Primary, mtu: 70000, subnets: [10.0.0.0/16]}}",
        &["spec.layer2.mtu: should be less than or equal to 65536"],
    );
}

#[test]
fn layer2_ipam_and_ranges() {
    udn_breaks(
        "{topology: Layer2, layer2: {role: Primary}}",
        &["spec.layer2.subnets: Subnets is required with ipam.mode is Enabled or unset"],
    );
    udn_breaks(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16],
          ipam: {mode: Disabled, lifecycle: Persistent}}}",
        &[
            "spec.layer2.subnets: Subnets must be unset when ipam.mode is Disabled",
            "spec.layer2.ipam.mode: Disabled ipam.mode is only supported for Secondary network",
            "spec.layer2.ipam.lifecycle: lifecycle Persistent is only supported when ipam.mode is Enabled",
        ],
    );
    udn_breaks(
        "{topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/16], ipam: {}}}",
        &["spec.layer2.ipam: should have at least 1 properties"],
    );
    udn_breaks(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16], reservedSubnets: [10.0.1.1/24],
          infrastructureSubnets: [10.0.0.0/23, 10.9.0.0/33], defaultGatewayIPs: [10.1.0.1, x]}}",
        &[
            "spec.layer2.reservedSubnets: reservedSubnets must be a masked network address (no host bits set)",
            "spec.layer2.infrastructureSubnets[1]: CIDR is invalid",
            "spec.layer2.infrastructureSubnets: infrastructureSubnets and reservedSubnets must not overlap",
            "spec.layer2.defaultGatewayIPs[1]: IP is invalid",
            "spec.layer2.defaultGatewayIPs: defaultGatewayIPs must belong to one of the subnets specified in the \
             subnets field",
            "spec.layer2.defaultGatewayIPs: defaultGatewayIPs must be specified for all IP families",
            "spec.layer2.defaultGatewayIPs: defaultGatewayIPs have to belong to infrastructureSubnets",
        ],
    );
    udn_breaks(
        "{topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}, reservedSubnets: [10.0.1.0/24],
          infrastructureSubnets: []}}",
        &[
            "spec.layer2.reservedSubnets: reservedSubnets must be unset when subnets is unset",
            "spec.layer2.reservedSubnets: reservedSubnets is only supported for Primary network",
            "spec.layer2.infrastructureSubnets: should have at least 1 items",
            "spec.layer2.infrastructureSubnets: infrastructureSubnets must be unset when subnets is unset",
            "spec.layer2.infrastructureSubnets: infrastructureSubnets is only supported for Primary network",
        ],
    );
    udn_breaks(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16], reservedSubnets: [10.2.0.0/24]}}",
        &[
            "spec.layer2.reservedSubnets: reservedSubnets must be subnetworks of the networks specified in the subnets \
           field",
        ],
    );
}

#[test]
fn localnet() {
    cudn_breaks(
        "{topology: Localnet, localnet: {role: Primary, physicalNetworkName: 'a,b', excludeSubnets: [10.0.0.0/24],
          mtu: 576, vlan: {mode: Access}}}",
        &[
            "spec.network.localnet.role: Unsupported value: \"Primary\": supported values: \"Secondary\"",
            "spec.network.localnet.physicalNetworkName: physicalNetworkName cannot contain `,` or `:` characters",
            "spec.network.localnet.subnets: Subnets is required with ipam.mode is Enabled or unset, and forbidden \
             otherwise",
            "spec.network.localnet.excludeSubnets: excludeSubnets must be unset when subnets is unset",
            "spec.network.localnet.vlan.access: vlan access config is required when vlan mode is 'Access', and \
             forbidden otherwise",
        ],
    );
    cudn_breaks(
        "{topology: Localnet, localnet: {role: Secondary, physicalNetworkName: p, subnets: ['fd00::/64'], mtu: 1279,
          vlan: {mode: Access, access: {id: 4095}}}}",
        &[
            "spec.network.localnet.mtu: MTU should be greater than or equal to 1280 when an IPv6 subnet is used",
            "spec.network.localnet.vlan.access.id: should be less than or equal to 4094",
        ],
    );
}

#[test]
fn transports_and_uplinks() {
    cudn_breaks(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}, transport: NoOverlay,
          evpn: {vtep: '', macVRF: {vni: 0}, ipVRF: {vni: 0, routeTarget: 'x:1'}}}",
        &[
            "spec.network.transport: transport 'NoOverlay' is only supported for Layer3 primary networks",
            "spec.network.noOverlay: spec.noOverlay is required when type transport is 'NoOverlay'",
            "spec.network.evpn: spec.evpn field is forbidden when transport is not 'EVPN'",
            "spec.network.evpn.vtep: should be at least 1 chars long",
            "spec.network.evpn: macVRF and ipVRF must use different VNIs",
            "spec.network.evpn.macVRF.vni: should be greater than or equal to 1",
            "spec.network.evpn.ipVRF.vni: should be greater than or equal to 1",
            "spec.network.evpn.ipVRF.routeTarget: RT global administrator must be either '*', an IPv4 address, or a \
             number",
        ],
    );
    cudn_breaks(
        "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/16}]}, transport: EVPN,
          noOverlay: {outboundSNAT: Enabled, routing: Managed}, evpn: {vtep: v}}",
        &[
            "spec.network.transport: transport 'EVPN' is only supported for Layer2 or Layer3 primary networks",
            "spec.network.noOverlay: spec.noOverlay is forbidden when transport type is not 'NoOverlay'",
            "spec.network.evpn: spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'",
            "spec.network.evpn: at least one of macVRF or ipVRF must be specified",
        ],
    );
    let mut spec = cudn("{topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/16]}}");
    spec.uplinks = Some(vec!["eth0".into(), "Eth".into()]);
    assert_eq!(
        texts(&spec.violations()),
        [
            "spec.uplinks: Too many: 2: must have at most 1 item",
            "spec.uplinks[1]: should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            "spec.uplinks: spec.uplinks is supported only for primary Layer2 and Layer3 networks",
        ]
    );
}

#[test]
fn a_primary_layer3_network_may_only_gain_subnets() {
    let spec = |role: &str, subnets: &str, rest: &str| {
        udn(&format!("{{topology: Layer3, layer3: {{role: {role}, subnets: [{subnets}]{rest}}}}}"))
    };
    let old = spec("Primary", "{cidr: 10.0.0.0/16, hostSubnet: 24}", ", mtu: 1400");
    let grown = spec(
        "Primary",
        "{cidr: 10.0.0.0/16, hostSubnet: 24}, {cidr: 10.1.0.0/16, hostSubnet: 24}",
        "",
    );
    assert_eq!(texts(&grown.transition_violations(&old)), [""; 0]);
    assert_eq!(
        texts(&old.transition_violations(&grown)),
        ["spec.layer3.subnets: Removing existing subnets is not allowed"]
    );
    let changed = spec("Secondary", "{cidr: 10.0.0.0/16, hostSubnet: 25}", ", mtu: 1401");
    assert_eq!(
        texts(&changed.transition_violations(&old)),
        [
            "spec.layer3.role: role is immutable",
            "spec.layer3.mtu: mtu is immutable",
            "spec.layer3.subnets: Subnets is immutable for Secondary role",
            "spec.layer3.subnets: hostSubnet is immutable",
        ]
    );
}

#[test]
fn further_immutable_fields() {
    let old = cudn("{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}}");
    let mut new = cudn(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/17]}, transport: NoOverlay}",
    );
    new.uplinks = Some(vec!["eth0".into()]);
    assert_eq!(
        texts(&new.transition_violations(&old)),
        [
            "spec.network.layer2: Layer2 is immutable",
            "spec.network.transport: Transport is immutable",
            "spec.uplinks: uplinks is immutable",
        ]
    );
    let other = cudn("{topology: Localnet}");
    assert_eq!(
        texts(&other.transition_violations(&old)),
        ["spec.network.topology: Topology is immutable"]
    );
}
