//! Manifests of objects: one line each, and a separator behind it.

fn document(kind: &str, metadata: &str, rest: &str) -> String {
    let (api_version, kind) = match kind {
        "Node" | "Namespace" | "Pod" => ("v1", kind),
        _ => ("k8s.ovn.org/v1", kind),
    };
    format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{{metadata}}}{rest}}}\n---\n")
}

pub(crate) fn node(name: &str) -> String {
    document("Node", &format!("name: {name}"), "")
}

/// A namespace with labels, which are pairs with commas between them.
pub(crate) fn namespace(name: &str, labels: &str) -> String {
    document("Namespace", &format!("name: {name}, labels: {{{labels}}}"), "")
}

/// A namespace whose pods have a primary network, with further labels.
pub(crate) fn primary_namespace(name: &str, labels: &str) -> String {
    let label = "k8s.ovn.org/primary-user-defined-network: ''";
    namespace(name, &format!("{label}, {labels}"))
}

pub(crate) fn pod(namespace: &str, name: &str, node: &str) -> String {
    let metadata = format!("name: {name}, namespace: {namespace}");
    document("Pod", &metadata, &pod_spec(node))
}

/// A pod that is attached to further networks.
pub(crate) fn attached_pod(namespace: &str, name: &str, node: &str, networks: &str) -> String {
    let annotations = format!("annotations: {{k8s.v1.cni.cncf.io/networks: '{networks}'}}");
    let metadata = format!("name: {name}, namespace: {namespace}, {annotations}");
    document("Pod", &metadata, &pod_spec(node))
}

fn pod_spec(node: &str) -> String {
    format!(", spec: {{nodeName: {node}, containers: [{{name: c, image: r.example/c}}]}}")
}

/// A network of a namespace, with the fields of its specification.
pub(crate) fn udn(namespace: &str, name: &str, spec: &str) -> String {
    let metadata = format!("name: {name}, namespace: {namespace}");
    document("UserDefinedNetwork", &metadata, &format!(", spec: {{{spec}}}"))
}

/// A network with a label, of the namespaces with a label.
pub(crate) fn cudn(name: &str, label: &str, namespaces: &str, network: &str) -> String {
    let selector = format!("namespaceSelector: {{matchLabels: {{{namespaces}}}}}");
    document(
        "ClusterUserDefinedNetwork",
        &format!("name: {name}, labels: {{{label}}}"),
        &format!(", spec: {{{selector}, network: {{{network}}}}}"),
    )
}

/// Fields of a layer3 network with a subnet of 24 bits for each node.
pub(crate) fn layer3(role: &str, subnet: &str) -> String {
    let subnets = format!("subnets: [{{cidr: {subnet}, hostSubnet: 24}}]");
    format!("topology: Layer3, layer3: {{role: {role}, {subnets}}}")
}

/// Fields of a layer2 network.
pub(crate) fn layer2(role: &str, subnet: &str) -> String {
    format!("topology: Layer2, layer2: {{role: {role}, subnets: [{subnet}]}}")
}

/// A connect named `c` of pods.
pub(crate) fn connect(selectors: &[String], range: &str) -> String {
    let selectors = selectors.join(", ");
    let fields = format!("connectSubnets: [{range}], connectivity: [PodNetwork]");
    document(
        "ClusterNetworkConnect",
        "name: c",
        &format!(", spec: {{networkSelectors: [{selectors}], {fields}}}"),
    )
}

/// Selector of ClusterUserDefinedNetworks with a label.
pub(crate) fn cluster_networks(label: &str) -> String {
    format!(
        "{{networkSelectionType: ClusterUserDefinedNetworks, \
         clusterUserDefinedNetworkSelector: {{networkSelector: {{matchLabels: {{{label}}}}}}}}}"
    )
}

/// Selector of the primary networks of namespaces with a label.
pub(crate) fn namespaces(label: &str) -> String {
    format!(
        "{{networkSelectionType: PrimaryUserDefinedNetworks, \
         primaryUserDefinedNetworkSelector: {{namespaceSelector: {{matchLabels: {{{label}}}}}}}}}"
    )
}

/// Range of a connect that is large enough for all tests.
pub(crate) const RANGE: &str = "{cidr: 192.168.0.0/16, networkPrefix: 24}";
