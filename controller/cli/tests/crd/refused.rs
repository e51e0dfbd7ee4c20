//! Invalid objects, at least one for each rule and limit.

use crate::rules::{Case, change, refused};

/// A ClusterNetworkConnect with these selectors, connect subnets and connectivity.
fn connect(selectors: &str, subnets: &str, connectivity: &str) -> &'static str {
    format!(
        "{{networkSelectors: {selectors}, connectSubnets: {subnets}, connectivity: {connectivity}}}"
    )
    .leak()
}

const SELECTORS: &str = "[{networkSelectionType: ClusterUserDefinedNetworks, clusterUserDefinedNetworkSelector: \
                         {networkSelector: {}}}]";
const SUBNETS: &str = "[{cidr: 192.168.0.0/16, networkPrefix: 24}]";

pub(crate) fn connects() -> Vec<Case> {
    let subnets = |subnets: &str| connect(SELECTORS, subnets, "[PodNetwork]");
    let selectors = |selectors: &str| connect(selectors, SUBNETS, "[PodNetwork]");
    let connectivity = |connectivity: &str| connect(SELECTORS, SUBNETS, connectivity);
    vec![
        refused(selectors("[]"), &["networkSelectors: should have at least 1 items"]),
        refused(
            selectors(
                "[{networkSelectionType: DefaultNetwork}, {networkSelectionType: DefaultNetwork}]",
            ),
            &[
                r#"networkSelectors[1]: Duplicate value: {"networkSelectionType":"DefaultNetwork"}"#,
                ": Only ClusterUserDefinedNetworks, PrimaryUserDefinedNetworks or NetworkAttachmentDefinitions of Kube-OVN can be selected",
            ],
        ),
        refused(
            selectors(
                "[{networkSelectionType: PrimaryUserDefinedNetworks, clusterUserDefinedNetworkSelector: \
                 {networkSelector: {}}}]",
            ),
            &[
                "networkSelectors[0]: Inconsistent selector: both networkSelectionType ClusterUserDefinedNetworks and clusterUserDefinedNetworkSelector have to be set or neither",
                "networkSelectors[0]: Inconsistent selector: both networkSelectionType PrimaryUserDefinedNetworks and primaryUserDefinedNetworkSelector have to be set or neither",
            ],
        ),
        refused(
            selectors(
                "[{networkSelectionType: SecondaryUserDefinedNetworks, networkAttachmentDefinitionSelector: \
                 {networkSelector: {}, namespaceSelector: {}}}]",
            ),
            &[
                ": Only ClusterUserDefinedNetworks, PrimaryUserDefinedNetworks or NetworkAttachmentDefinitions of Kube-OVN can be selected",
                "networkSelectors[0]: Inconsistent selector: both networkSelectionType SecondaryUserDefinedNetworks and secondaryUserDefinedNetworkSelector have to be set or neither",
                "networkSelectors[0]: Inconsistent selector: both networkSelectionType NetworkAttachmentDefinitions and networkAttachmentDefinitionSelector have to be set or neither",
            ],
        ),
        refused(subnets("[]"), &["connectSubnets: should have at least 1 items"]),
        refused(
            subnets(
                "[{cidr: 10.0.0.0/16, networkPrefix: 24}, {cidr: 10.1.0.0/16, networkPrefix: 24}, {cidr: 'fd00::/64', \
                 networkPrefix: 120}]",
            ),
            &["connectSubnets: Too many: 3: must have at most 2 items"],
        ),
        refused(
            subnets(
                "[{cidr: 10.0.0.0/16, networkPrefix: 24}, {cidr: 10.1.0.0/16, networkPrefix: 25}]",
            ),
            &["connectSubnets: When 2 CIDRs are set, they must be from different IP families"],
        ),
        refused(
            subnets(
                "[{cidr: 10.0.0.0/16, networkPrefix: 24}, {cidr: 'fd00::/64', networkPrefix: 121}]",
            ),
            &[
                "connectSubnets: For dual-stack, networkPrefix must have matching host bits: (32 - ipv4NetworkPrefix) must equal (128 - ipv6NetworkPrefix)",
            ],
        ),
        refused(
            subnets("[{cidr: 10.0.0.1/16, networkPrefix: 24}]"),
            &["connectSubnets[0].cidr: CIDR must be a valid network address"],
        ),
        refused(
            subnets(
                "[{cidr: 10.0.0.0, networkPrefix: 0}, {cidr: 'fd00::/64', networkPrefix: 128}]",
            ),
            &[
                "connectSubnets[0].cidr: CIDR must be a valid network address",
                "connectSubnets[0].networkPrefix: should be greater than or equal to 1",
                "connectSubnets[1].networkPrefix: should be less than or equal to 127",
            ],
        ),
        refused(
            subnets("[{cidr: '::ffff:10.0.0.0/104', networkPrefix: 120}]"),
            &["connectSubnets[0].cidr: CIDR must be a valid network address"],
        ),
        refused(
            subnets(
                "[{cidr: 'fd00:0000:0000:0000:0000:0000:0000:00000000/64', networkPrefix: 120}]",
            ),
            &["connectSubnets[0].cidr: Too long: may not be more than 43 bytes"],
        ),
        refused(
            subnets("[{cidr: 10.0.0.0/16, networkPrefix: 16}]"),
            &["connectSubnets[0]: NetworkPrefix must be longer than the CIDR prefix length"],
        ),
        refused(
            subnets("[{cidr: 10.0.0.0/16, networkPrefix: 32}]"),
            &["connectSubnets[0]: NetworkPrefix must < 32 for ipv4 CIDR"],
        ),
        refused(connectivity("[]"), &["connectivity: should have at least 1 items"]),
        refused(
            connectivity("[PodNetwork, PodNetwork]"),
            &["connectivity: connectivity cannot contain duplicate values"],
        ),
        refused(
            connectivity("[PodNetwork, PodNetwork, ServiceNetwork]"),
            &["connectivity: Too many: 3: must have at most 2 items"],
        ),
        change(
            subnets(
                "[{cidr: 10.0.0.0/16, networkPrefix: 24}, {cidr: 'fd00::/64', networkPrefix: 120}]",
            ),
            subnets(
                "[{cidr: 'fd00::/64', networkPrefix: 120}, {cidr: 10.0.0.0/16, networkPrefix: 24}]",
            ),
            &["connectSubnets: connectSubnets is immutable"],
        ),
        change(subnets(SUBNETS), connectivity("[ServiceNetwork]"), &[]),
    ]
}

pub(crate) const NETWORKS: &[Case] = &[
    refused(
        "{topology: Layer3, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}",
        &[
            "layer3: spec.layer3 is required when topology is Layer3 and forbidden otherwise",
            "layer2: spec.layer2 is required when topology is Layer2 and forbidden otherwise",
        ],
    ),
    refused(
        "{topology: Layer3, layer3: {role: Primary, subnets: []}}",
        &["layer3.subnets: should have at least 1 items"],
    ),
    refused(
        "{topology: Layer3, layer3: {role: Primary, mtu: 575, subnets: [{cidr: 10.0.0.0, hostSubnet: 0},
          {cidr: 10.1.0.0/24, hostSubnet: 32}, {cidr: 'fd00::/64', hostSubnet: 64}]}}",
        &[
            "layer3.mtu: MTU should be greater than or equal to 1280 when IPv6 subnet is used",
            "layer3.mtu: should be greater than or equal to 576",
            "layer3.subnets[0].cidr: CIDR is invalid",
            "layer3.subnets[0].hostSubnet: should be greater than or equal to 1",
            "layer3.subnets[1].hostSubnet: HostSubnet must < 32 for ipv4 CIDR",
            "layer3.subnets[2].hostSubnet: HostSubnet must be smaller than CIDR subnet",
        ],
    ),
    refused(
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/8}, {cidr: 10.1.0.0/16},
          {cidr: 10.0.0.0/8}]}}",
        &[
            "layer3.subnets: Subnets must not overlap or contain each other",
            "layer3.subnets: Subnets with same CIDR are not allowed",
        ],
    ),
    refused(
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 24}, {cidr: 10.1.0.0/16},
          {cidr: 'fd00::/48', hostSubnet: 64}]}}",
        &["layer3.subnets: Subnets from the same IP family must use the same hostSubnet value"],
    ),
    refused(
        "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}],
          joinSubnets: [100.66.0.0/16, 100.67.0.0/16]}}",
        &[
            "layer3.subnets: When 2 CIDRs are set for Secondary networks, they must be from different IP families",
            "layer3.joinSubnets: JoinSubnets is only supported for Primary network",
            "layer3.joinSubnets: When 2 CIDRs are set, they must be from different IP families",
        ],
    ),
    refused(
        "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16},
          {cidr: 'fd00::/48'}]}}",
        &["layer3.subnets: Secondary networks may define at most 2 subnets"],
    ),
    refused(
        "{topology: Layer2, layer2: {role: Primary}}",
        &["layer2.subnets: Subnets is required with ipam.mode is Enabled or unset"],
    ),
    refused(
        "{topology: Layer2, layer2: {role: Primary, mtu: 1279, subnets: ['fd00::/48'],
          ipam: {mode: Disabled, lifecycle: Persistent}}}",
        &[
            "layer2.subnets: Subnets must be unset when ipam.mode is Disabled",
            "layer2.ipam.mode: Disabled ipam.mode is only supported for Secondary network",
            "layer2.ipam.lifecycle: lifecycle Persistent is only supported when ipam.mode is Enabled",
            "layer2.mtu: MTU should be greater than or equal to 1280 when IPv6 subnet is used",
        ],
    ),
    refused(
        "{topology: Layer2, layer2: {role: Secondary, mtu: 65537, subnets: [10.0.0.0/16], ipam: {},
          joinSubnets: [100.66.0.0/16]}}",
        &[
            "layer2.mtu: should be less than or equal to 65536",
            "layer2.ipam: should have at least 1 properties",
            "layer2.joinSubnets: JoinSubnets is only supported for Primary network",
        ],
    ),
    refused(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16], reservedSubnets: [10.0.1.1/24],
          infrastructureSubnets: [10.0.0.1/23, 10.9.0.0/33], defaultGatewayIPs: [10.1.0.1, x]}}",
        &[
            "layer2.reservedSubnets: reservedSubnets must be a masked network address (no host bits set)",
            "layer2.infrastructureSubnets: infrastructureSubnets must be a masked network address (no host bits set)",
            "layer2.infrastructureSubnets[1]: CIDR is invalid",
            "layer2.infrastructureSubnets: infrastructureSubnets and reservedSubnets must not overlap",
            "layer2.defaultGatewayIPs[1]: IP is invalid",
            "layer2.defaultGatewayIPs: defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
            "layer2.defaultGatewayIPs: defaultGatewayIPs must be specified for all IP families",
            "layer2.defaultGatewayIPs: defaultGatewayIPs have to belong to infrastructureSubnets",
        ],
    ),
    refused(
        "{topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}, reservedSubnets: [10.0.1.0/24],
          infrastructureSubnets: [10.0.0.0/24], defaultGatewayIPs: [10.0.0.1, 10.0.0.2]}}",
        &[
            "layer2.reservedSubnets: reservedSubnets must be unset when subnets is unset",
            "layer2.reservedSubnets: reservedSubnets is only supported for Primary network",
            "layer2.infrastructureSubnets: infrastructureSubnets must be unset when subnets is unset",
            "layer2.infrastructureSubnets: infrastructureSubnets is only supported for Primary network",
            "layer2.defaultGatewayIPs: When 2 IPs are set, they must be from different IP families",
            "layer2.defaultGatewayIPs: defaultGatewayIPs is only supported for Primary network",
            "layer2.defaultGatewayIPs: defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
            "layer2.defaultGatewayIPs: defaultGatewayIPs must be specified for all IP families",
        ],
    ),
    refused(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16], reservedSubnets: [10.2.0.0/24],
          infrastructureSubnets: [10.0.0.0/8]}}",
        &[
            "layer2.reservedSubnets: reservedSubnets must be subnetworks of the networks specified in the subnets field",
            "layer2.infrastructureSubnets: infrastructureSubnets must be subnetworks of the networks specified in the subnets field",
            "layer2.infrastructureSubnets: infrastructureSubnets and reservedSubnets must not overlap",
        ],
    ),
    change(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}}",
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/17]}}",
        &["layer2: Layer2 is immutable"],
    ),
    change(
        "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}}",
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]}}",
        &["topology: Topology is immutable"],
    ),
    change(
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 24}]}}",
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.1.0.0/16, hostSubnet: 24}, {cidr: 10.0.0.0/16,
          hostSubnet: 24}], mtu: 1400, joinSubnets: [100.66.0.0/16]}}",
        &[],
    ),
    change(
        "{topology: Layer3, layer3: {role: Primary, mtu: 1400, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 24},
          {cidr: 10.1.0.0/16, hostSubnet: 24}], joinSubnets: [100.66.0.0/16]}}",
        "{topology: Layer3, layer3: {role: Primary, mtu: 1401, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 25}],
          joinSubnets: [100.67.0.0/16]}}",
        &[
            "layer3.mtu: mtu is immutable",
            "layer3.subnets: Removing existing subnets is not allowed",
            "layer3.subnets: hostSubnet is immutable",
            "layer3.joinSubnets: joinSubnets is immutable",
        ],
    ),
    change(
        "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]}}",
        "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 'fd00::/48'}]}}",
        &["layer3.role: role is immutable", "layer3.subnets: Subnets is immutable for Secondary role"],
    ),
];

pub(crate) const CLUSTER_NETWORKS: &[Case] = &[
    refused(
        "{namespaceSelector: {}, network: {topology: Localnet}}",
        &["network.localnet: spec.localnet is required when topology is Localnet and forbidden otherwise"],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Primary, physicalNetworkName: phys,
          subnets: [10.0.0.0/24]}}}",
        &[r#"network.localnet.role: Unsupported value: "Primary": supported values: "Secondary""#],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: 'a,b',
          excludeSubnets: [10.0.0.0/24], mtu: 576, vlan: {mode: Access}}}}",
        &[
            "network.localnet.physicalNetworkName: physicalNetworkName cannot contain `,` or `:` characters",
            "network.localnet.subnets: Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise",
            "network.localnet.excludeSubnets: excludeSubnets must be unset when subnets is unset",
            "network.localnet.vlan.access: vlan access config is required when vlan mode is 'Access', and forbidden otherwise",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: '',
          subnets: ['fd00::/64'], mtu: 1279, vlan: {mode: Access, access: {id: 4095}}}}}",
        &[
            "network.localnet.physicalNetworkName: should be at least 1 chars long",
            "network.localnet.mtu: MTU should be greater than or equal to 1280 when an IPv6 subnet is used",
            "network.localnet.vlan.access.id: should be less than or equal to 4094",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
          transport: NoOverlay, evpn: {vtep: '', macVRF: {vni: 0}, ipVRF: {vni: 0, routeTarget: 'x:1'}}}}",
        &[
            "network.transport: transport 'NoOverlay' is only supported for Layer3 primary networks",
            "network.noOverlay: spec.noOverlay is required when type transport is 'NoOverlay'",
            "network.evpn: spec.evpn field is forbidden when transport is not 'EVPN'",
            "network.evpn.vtep: should be at least 1 chars long",
            "network.evpn: macVRF and ipVRF must use different VNIs",
            "network.evpn.macVRF.vni: should be greater than or equal to 1",
            "network.evpn.ipVRF.vni: should be greater than or equal to 1",
            "network.evpn.ipVRF.routeTarget: RT global administrator must be either '*', an IPv4 address, or a number",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/16}]},
          transport: EVPN, noOverlay: {outboundSNAT: Enabled, routing: Managed}, evpn: {vtep: v}}}",
        &[
            "network.transport: transport 'EVPN' is only supported for Layer2 or Layer3 primary networks",
            "network.noOverlay: spec.noOverlay is forbidden when transport type is not 'NoOverlay'",
            "network.evpn: spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'",
            "network.evpn: at least one of macVRF or ipVRF must be specified",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]},
          transport: EVPN, evpn: {vtep: v, macVRF: {vni: 16777216, routeTarget: '65000'}}}}",
        &[
            "network.evpn: spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'",
            "network.evpn: spec.evpn.macVRF field is forbidden for Layer3 topology when transport is 'EVPN'",
            "network.evpn.macVRF.vni: should be less than or equal to 16777215",
            "network.evpn.macVRF.routeTarget: RT must contain exactly one colon",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
          transport: EVPN}}",
        &["network.evpn: spec.evpn field is required when transport is 'EVPN'"],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
          transport: EVPN, evpn: {vtep: v, ipVRF: {vni: 1, routeTarget: '1:x'}}}}",
        &[
            "network.evpn: spec.evpn.macVRF field is required for Layer2 topology when transport is 'EVPN'",
            "network.evpn.ipVRF.routeTarget: RT local administrator must be a number",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
          transport: EVPN, evpn: {vtep: v, macVRF: {vni: 1, routeTarget: '*:4294967296'},
          ipVRF: {vni: 2, routeTarget: '10.0.0.1:65536'}}}}",
        &[
            "network.evpn.macVRF.routeTarget: RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295",
            "network.evpn.ipVRF.routeTarget: RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
          transport: EVPN, evpn: {vtep: v, macVRF: {vni: 1, routeTarget: '65536:65536'},
          ipVRF: {vni: 2, routeTarget: '1:9999999999999999999'}}}}",
        &[
            "network.evpn.macVRF.routeTarget: RT with 4-byte ASN global administrator must have format GHJK:MN where GHJK <= 4294967295 and MN <= 65535",
            "network.evpn.ipVRF.routeTarget: RT with 2-byte ASN global administrator must have format EF:OPQR where EF <= 65535 and OPQR <= 4294967295",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/16]}},
          uplinks: [Eth]}",
        &[
            "uplinks[0]: should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            "uplinks: spec.uplinks is supported only for primary Layer2 and Layer3 networks",
        ],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
          transport: EVPN, evpn: {vtep: v, macVRF: {vni: 1}}}, uplinks: [eth0]}",
        &["uplinks: spec.uplinks is not supported with EVPN transport"],
    ),
    refused(
        "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]}},
          uplinks: [eth0, eth1]}",
        &["uplinks: Too many: 2: must have at most 1 item"],
    ),
    change(
        "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: phys,
          subnets: [10.0.0.0/24]}}}",
        "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: other,
          subnets: [10.0.0.0/24]}}}",
        &["network.localnet: Localnet is immutable"],
    ),
    change(
        "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]},
          transport: NoOverlay, noOverlay: {outboundSNAT: Enabled, routing: Managed}}}",
        "{namespaceSelector: {matchLabels: {tier: app}}, network: {topology: Layer3, layer3: {role: Primary,
          subnets: [{cidr: 10.0.0.0/16}]}, transport: NoOverlay, noOverlay: {outboundSNAT: Disabled, routing: Managed}},
          uplinks: [eth0]}",
        &["network.noOverlay: NoOverlay is immutable", "uplinks: uplinks is immutable"],
    ),
    change(
        "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]},
          transport: NoOverlay, noOverlay: {outboundSNAT: Enabled, routing: Managed}}}",
        "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]}}}",
        &["network.transport: Transport is immutable"],
    ),
];
