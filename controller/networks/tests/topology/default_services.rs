//! Routes to services of the default network that networks reach.

use patchbay_model::ClusterSettings;
use patchbay_schemas::nb::LogicalRouterStaticRoute;

use crate::support::{TWO_NODES, Zone, ipv4_settings, zone_networks};

const GREEN: &str = r"
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16]}}
";

fn service(namespace: &str, name: &str, cluster_ip: &str) -> String {
    format!(
        "- apiVersion: v1\n  kind: Service\n  metadata: {{name: {name}, namespace: {namespace}}}\n  \
         spec: {{clusterIP: {cluster_ip}, clusterIPs: [{cluster_ip}], ports: [{{port: 53}}]}}\n"
    )
}

#[test]
fn a_service_in_the_namespace_of_a_network_is_reached_by_that_network_only() {
    let kubernetes = service("default", "kubernetes", "10.96.0.1");
    let dns = service("green", "dns", "10.96.0.10");
    let settings = ClusterSettings {
        reachable_default_services: ["default/kubernetes", "green/dns"].map(str::to_owned).to_vec(),
        ..ipv4_settings(&[])
    };
    let yaml = format!("{}{GREEN}{kubernetes}{dns}", TWO_NODES.trim_end());
    let mut zone = Zone::new();
    zone.settle(&zone_networks(&yaml, &settings, None));
    let mut routes: Vec<String> = zone
        .rows::<LogicalRouterStaticRoute>()
        .into_iter()
        .filter_map(|route| {
            let id = |key| route.external_ids.get(key).map(String::as_str);
            let service = id("k8s.ovn.org/udn-enabled-default-service")?;
            let network = id("k8s.ovn.org/network")?;
            Some(format!("{network} {service} {}", route.nexthop))
        })
        .collect();
    routes.sort();
    let expected = [
        "blue_l3 default/kubernetes 10.10.0.2",
        "green_l2 default/kubernetes 10.20.0.2",
        "green_l2 green/dns 10.20.0.2",
    ];
    assert_eq!(routes, expected);
}
