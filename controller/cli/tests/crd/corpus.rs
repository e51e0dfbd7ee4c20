//! Valid objects, at least one for each variant.

use serde_json::Value;

/// A `spec` in YAML, as JSON.
pub(crate) fn spec(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

pub(crate) const CONNECTS: [&str; 4] = [
    "{networkSelectors: [{networkSelectionType: ClusterUserDefinedNetworks,
        clusterUserDefinedNetworkSelector: {networkSelector: {}}}],
      connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}], connectivity: [PodNetwork]}",
    "{networkSelectors: [{networkSelectionType: PrimaryUserDefinedNetworks,
        primaryUserDefinedNetworkSelector: {namespaceSelector: {matchLabels: {tier: app}}}},
       {networkSelectionType: ClusterUserDefinedNetworks, clusterUserDefinedNetworkSelector: {networkSelector:
        {matchExpressions: [{key: tier, operator: In, values: [app]}]}}}],
      connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}, {cidr: 'fd01::/64', networkPrefix: 120}],
      connectivity: [ServiceNetwork, PodNetwork]}",
    // The definition accepts it; the allocator does not.
    "{networkSelectors: [{networkSelectionType: ClusterUserDefinedNetworks,
        clusterUserDefinedNetworkSelector: {networkSelector: {}}}],
      connectSubnets: [{cidr: 'fd01::/64', networkPrefix: 96}], connectivity: [PodNetwork]}",
    "{networkSelectors: [{networkSelectionType: ClusterUserDefinedNetworks,
        clusterUserDefinedNetworkSelector: {networkSelector: {}}}],
      connectSubnets: [{cidr: 10.0.0.0/8, networkPrefix: 24}], connectivity: [ServiceNetwork]}",
];

pub(crate) const NETWORKS: [&str; 7] = [
    "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 103.103.0.0/16, hostSubnet: 24}]}}",
    "{topology: Layer3, layer3: {role: Primary, mtu: 1400, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 24},
       {cidr: 10.1.0.0/16, hostSubnet: 24}, {cidr: 'fd00::/48', hostSubnet: 64}],
       joinSubnets: [100.65.0.0/16, 'fd99::/64']}}",
    "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.0.0.0/8}, {cidr: 'fd00::/48'}]}}",
    "{topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16, 'fd20::/64'], mtu: 1280}}",
    "{topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}}}",
    "{topology: Layer2, layer2: {role: Secondary, subnets: [10.30.0.0/24], ipam: {lifecycle: Persistent}}}",
    "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16, 'fd00::/48'], reservedSubnets: [10.0.1.0/24],
       infrastructureSubnets: [10.0.0.0/24, 'fd00::/64'], defaultGatewayIPs: [10.0.0.9, 'fd00::9'],
       joinSubnets: [100.66.0.0/16], ipam: {mode: Enabled, lifecycle: Persistent}}}",
];

pub(crate) const CLUSTER_NETWORKS: [&str; 8] = [
    "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]}}}",
    "{namespaceSelector: {matchLabels: {tier: app}}, network: {topology: Layer2, layer2: {role: Primary,
       subnets: [10.0.0.0/16]}}, uplinks: [eth0]}",
    "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: phys,
       subnets: [10.0.0.0/24], excludeSubnets: [10.0.0.0/28], vlan: {mode: Access, access: {id: 4094}}}}}",
    "{namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: phys,
       mtu: 1280, ipam: {mode: Disabled}}}}",
    "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]},
       transport: NoOverlay, noOverlay: {outboundSNAT: Enabled, routing: Managed}}}",
    "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
       transport: EVPN, evpn: {vtep: v, macVRF: {vni: 1, routeTarget: '*:4294967295'}}}}",
    "{namespaceSelector: {}, network: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/16]},
       transport: EVPN, evpn: {vtep: v, macVRF: {vni: 1, routeTarget: '10.0.0.1:65535'},
       ipVRF: {vni: 2, routeTarget: '65535:4294967295'}}}}",
    "{namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]},
       transport: EVPN, evpn: {vtep: v, ipVRF: {vni: 16777215, routeTarget: '65536:65535'}}}}",
];
