//! Objects that have no effect although nothing is wrong with them: one warning for each kind, with
//! the number of objects.

use patchbay_model::{ClusterSettings, Databases, Feature, IpFamily};

use crate::cluster_of;

/// A node, two connected networks with a pod each, and a namespace of the default network.
const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {k8s.ovn.org/node-chassis-id: c1}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: '', team: blue}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: '', team: green}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: plain, labels: {team: plain}}}
---
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: blue}, spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.10.0.0/16]}}}
---
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: green}, spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: blue, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: green, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}
";

/// The warnings about objects beside those of [`CLUSTER`].
fn warnings(objects: &[&str]) -> Vec<String> {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        features: Feature::ALL.into_iter().collect(),
        ..ClusterSettings::default()
    };
    let manifests = [&[CLUSTER], objects].concat().join("\n---\n");
    cluster_of(&manifests, settings).warnings
}

/// Exactly one warning contains the text.
#[track_caller]
fn warns(objects: &[&str], expected: &str) {
    let warnings = warnings(objects);
    let found = warnings.iter().filter(|warning| warning.contains(expected));
    assert_eq!(found.count(), 1, "{expected}\nin {warnings:#?}");
}

#[track_caller]
fn does_not_warn(objects: &[&str], unexpected: &str) {
    let warnings = warnings(objects);
    let mut found = warnings.iter().map(|warning| warning.contains(unexpected));
    assert!(!found.any(|is_found| is_found), "{warnings:#?}");
}

#[test]
fn endpoint_slices_of_no_network() {
    let slice = |name: &str, namespace: &str, annotations: &str| {
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: {namespace}, \
             labels: {{kubernetes.io/service-name: web}}, annotations: {{{annotations}}}}}, addressType: IPv4, \
             endpoints: [{{addresses: [10.10.0.9]}}], ports: [{{port: 80}}]}}"
        )
    };
    let text = "of no user-defined network: ignored";
    let (one, two) = (slice("one", "blue", ""), slice("two", "blue", ""));
    warns(&[&one], &format!("EndpointSlice blue/one {text}"));
    warns(&[&one, &two], &format!("EndpointSlice blue/one and 1 more {text}"));
    does_not_warn(&[&slice("one", "plain", "")], text);
}

#[test]
fn egress_ips_without_status() {
    let egress_ip = |name: &str, status: &str| {
        format!(
            "{{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {{name: {name}}}, spec: {{egressIPs: [172.18.0.100], \
             namespaceSelector: {{matchLabels: {{team: blue}}}}}}{status}}}"
        )
    };
    let text = "without status.items: ignored";
    let (one, two) = (egress_ip("one", ""), egress_ip("two", ", status: {}"));
    warns(&[&one], &format!("EgressIP one {text}"));
    warns(&[&one, &two], &format!("EgressIP one and 1 more {text}"));
    let assigned = egress_ip("one", ", status: {items: [{node: n1, egressIP: 172.18.0.100}]}");
    does_not_warn(&[&assigned], text);
}

#[test]
fn egress_ips_in_one_database_of_all_nodes() {
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        databases: Databases::Central,
        features: Feature::ALL.into_iter().collect(),
        ..ClusterSettings::default()
    };
    let egress_ip = "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: one}, spec: {egressIPs: \
                     [172.18.0.100], namespaceSelector: {matchLabels: {team: blue}}}, status: {items: [{node: n1, \
                     egressIP: 172.18.0.100}]}}";
    let warnings = cluster_of(&[CLUSTER, egress_ip].join("\n---\n"), settings).warnings;
    let expected = "EgressIP one: ignored, because networks in one database for all nodes have no gateway \
                    routers";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:#?}");
}

#[test]
fn policy_peers_of_other_networks() {
    let policy = |name: &str, team: &str| {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: blue}}, \
             spec: {{podSelector: {{}}, ingress: [{{from: [{{namespaceSelector: {{matchLabels: {{team: {team}}}}}}}]}}]}}}}"
        )
    };
    let text = "selects pods of other networks only: nothing is allowed";
    let (one, two) = (policy("one", "green"), policy("two", "green"));
    warns(&[&one], &format!("peer of NetworkPolicy blue/one: spec.ingress[0], {text}"));
    warns(
        &[&one, &two],
        &format!("peer of NetworkPolicy blue/one: spec.ingress[0] and 1 more, {text}"),
    );
    // Pods of the policy's network, and no pods at all.
    does_not_warn(&[&policy("one", "blue"), &policy("two", "plain")], text);
}

#[test]
fn policies_of_administrators() {
    let admin = "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: anp}, spec: \
                 {priority: 1, subject: {namespaces: {}}, ingress: [{name: all, action: Deny, from: [{namespaces: {}}]}]}}";
    let baseline = "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: \
                    default}, spec: {subject: {namespaces: {}}, ingress: [{name: all, action: Deny, from: [{namespaces: \
                    {}}]}]}}";
    let text = "no effect on packets in user-defined networks";
    warns(&[admin], &format!("AdminNetworkPolicy anp: {text}"));
    warns(&[admin, baseline], &format!("AdminNetworkPolicy anp and 1 more: {text}"));
}

#[test]
fn kinds_that_are_not_read() {
    let deployment =
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: blue}}";
    let machine =
        "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm, namespace: blue}}";
    let other = deployment.replace("name: web", "name: api");
    let objects = [deployment, &other, machine];
    warns(
        &objects,
        "ignored, like 1 more of the kind: patchbay does not use kind Deployment of apps/v1; manifests of its pods are \
         needed",
    );
    warns(
        &objects,
        "ignored: patchbay does not use kind VirtualMachine of kubevirt.io/v1; manifests of its pods are needed",
    );
}

#[test]
fn objects_of_kube_ovn_in_a_zone() {
    let vpc = "{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: alpha-vpc}, spec: {namespaces: [plain]}}";
    let subnet = "{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: alpha}, spec: {vpc: alpha-vpc, cidrBlock: 10.0.0.0/24}}";
    let text = "ignored, because a VPC is in one Northbound database for all nodes";
    warns(&[vpc], &format!("kubeovn.io Vpc alpha-vpc: {text}"));
    let both = format!("kubeovn.io Subnet alpha and 1 more: {text}");
    warns(&[vpc, subnet], &both);
    does_not_warn(&[], text);
}

#[test]
fn objects_that_only_lint_reads() {
    let dns = "{apiVersion: kubeovn.io/v1, kind: VpcDns, metadata: {name: a}, spec: {vpc: v}}";
    let text = "ignored, because only lint reads such objects";
    warns(&[dns], &format!("kubeovn.io VpcDns a: {text}"));
    let gateway =
        "{apiVersion: kubeovn.io/v1, kind: VpcNatGateway, metadata: {name: g}, spec: {vpc: v}}";
    warns(&[dns, gateway], &format!("kubeovn.io VpcDns a, VpcNatGateway g: {text}"));
    does_not_warn(&[], text);
}
