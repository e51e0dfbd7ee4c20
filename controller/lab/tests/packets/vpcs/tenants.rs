//! Manifests of a platform and its tenants.

use std::fmt::Write as _;

/// Chassis of the nodes c1, w1 and w2.
pub(crate) const CHASSIS: [&str; 3] = [
    "1f0a3c5e-7b2d-4e61-9c48-0d5e6f7a8b01",
    "4ac9d0c6-2f1b-4a52-9a55-d6a4a1d31c01",
    "8b7e2f35-0d5c-4c7c-8f1e-2b9d9a6f7e02",
];
/// Range of the external subnet.
const EXTERNAL: &str = "77.220.68.96/27";
/// Policy that drops packets to the external range.
pub(crate) const WALL: &str = "{priority: 1500, match: 'ip4.dst == 77.220.68.96/27', action: drop}";

/// Platform with three nodes and an external subnet.
#[derive(Clone, Copy)]
pub(crate) struct Platform<'a> {
    /// Nodes with the label of gateways.
    pub(crate) gateways: &'a [&'a str],
    /// Rest of the specification of the provider network.
    pub(crate) provider: &'a str,
    /// VLAN id of the external subnet.
    pub(crate) vlan: u16,
}

impl Default for Platform<'_> {
    fn default() -> Self {
        Self {
            gateways: &["w1", "w2"],
            provider: "defaultInterface: data.222, excludeNodes: [c1]",
            vlan: 0,
        }
    }
}

impl Platform<'_> {
    pub(crate) fn manifests(&self) -> String {
        let mut text = String::new();
        for (node, chassis) in ["c1", "w1", "w2"].into_iter().zip(CHASSIS) {
            let is_gateway = self.gateways.contains(&node);
            writeln!(
                text,
                "{{apiVersion: v1, kind: Node, metadata: {{name: {node}, labels: \
                 {{ovn.kubernetes.io/external-gw: '{is_gateway}'}}, annotations: \
                 {{ovn.kubernetes.io/chassis: {chassis}}}}}}}\n---"
            )
            .unwrap();
        }
        let Self { provider, vlan, .. } = self;
        let network = format!(
            "{{apiVersion: kubeovn.io/v1, kind: ProviderNetwork, metadata: {{name: provider}}, spec: {{{provider}}}}}
---
{{apiVersion: kubeovn.io/v1, kind: Vlan, metadata: {{name: vlan}}, spec: {{id: {vlan}, provider: provider}}}}
---
{{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {{name: external}}, spec: {{vpc: ovn-cluster, vlan: vlan, cidrBlock: {EXTERNAL}, gateway: 77.220.68.97}}}}
---
"
        );
        text + &network
    }
}

/// A floating address of a pod.
pub(crate) fn floating_address(tenant: &str, pod: &str, address: &str) -> String {
    format!(
        "{{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {{name: {tenant}-eip-{pod}}}, spec: {{externalSubnet: external, v4Ip: {address}, type: nat}}}}
---
{{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {{name: {tenant}-fip-{pod}}}, spec: {{ovnEip: {tenant}-eip-{pod}, ipName: {pod}.{tenant}.dev.{tenant}.ovn, type: centralized}}}}
---
"
    )
}

/// TCP port 443 of an address, which is port 8443 of a pod.
pub(crate) fn forwarded_port(tenant: &str, pod: &str, address: &str) -> String {
    format!(
        "{{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {{name: {tenant}-eip-port}}, spec: {{externalSubnet: external, v4Ip: {address}, type: nat}}}}
---
{{apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {{name: {tenant}-port}}, spec: {{ovnEip: {tenant}-eip-port, ipName: {pod}.{tenant}.dev.{tenant}.ovn, protocol: TCP, externalPort: '443', internalPort: '8443'}}}}
---
"
    )
}

/// Tenant with a VPC, a subnet, a rule for all connections, and two pods.
#[derive(Clone, Copy)]
pub(crate) struct Tenant<'a> {
    pub(crate) name: &'a str,
    /// The first three numbers of its addresses.
    pub(crate) net: &'a str,
    /// Nodes of the pods `vm1` and `vm2`.
    pub(crate) nodes: [&'a str; 2],
    /// Policies of its VPC.
    pub(crate) policies: &'a [&'a str],
    /// Static routes of its VPC, beside the default one.
    pub(crate) routes: &'a [&'a str],
    /// Rest of the specification of its VPC.
    pub(crate) rest: &'a str,
}

impl<'a> Tenant<'a> {
    /// A tenant behind the external subnet, with the wall.
    pub(crate) fn new(name: &'a str, net: &'a str) -> Self {
        Self {
            name,
            net,
            nodes: ["w1", "w2"],
            policies: &[WALL],
            routes: &["{cidr: 0.0.0.0/0, nextHopIP: 77.220.68.97, policy: policyDst}"],
            rest: "enableExternal: true",
        }
    }

    /// The VPC, the subnet and the pods. The source address of all connections is the VPC's own.
    pub(crate) fn manifests(&self) -> String {
        let Self { name, .. } = self;
        self.inner()
            + &format!(
                "{{apiVersion: kubeovn.io/v1, kind: OvnSnatRule, metadata: {{name: {name}-snat}}, spec: {{ovnEip: {name}-vpc-external, vpcSubnet: {name}-dev}}}}
---
"
            )
    }

    /// The VPC, the subnet and the pods, without a rule about external addresses.
    pub(crate) fn inner(&self) -> String {
        let Self { name, net, nodes, policies, routes, rest } = self;
        let (policies, routes) = (policies.join(", "), routes.join(", "));
        let mut text = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}
---
{{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {{name: {name}-vpc}}, spec: {{namespaces: [{name}], staticRoutes: [{routes}], policyRoutes: [{policies}], {rest}}}}}
---
{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {{name: dev, namespace: {name}}}, spec: {{config: '{{\"type\": \"kube-ovn\", \"server_socket\": \"/run/d.sock\", \"provider\": \"dev.{name}.ovn\"}}'}}}}
---
{{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {{name: {name}-dev}}, spec: {{vpc: {name}-vpc, cidrBlock: {net}.0/24, provider: dev.{name}.ovn, namespaces: [{name}]}}}}
---
"
        );
        for (number, node) in (1..).zip(nodes) {
            let address = format!("{net}.{}", number + 1);
            writeln!(
                text,
                "{{apiVersion: v1, kind: Pod, metadata: {{name: vm{number}, namespace: {name}, annotations: \
                 {{k8s.v1.cni.cncf.io/networks: {name}/dev, dev.{name}.ovn.kubernetes.io/ip_address: {address}}}}}, \
                 spec: {{nodeName: {node}, containers: [{{name: vm}}]}}}}\n---"
            )
            .unwrap();
        }
        text
    }
}
