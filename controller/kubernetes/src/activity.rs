//! Nodes on which networks are rendered, for OVN-Kubernetes with dynamic allocation of networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_connects::Activity;
use patchbay_model::ConnectInput;
use patchbay_model::Networks;
use patchbay_resources::manifests::ObjectKey;

/// Computes the nodes on which each network of a ClusterNetworkConnect is rendered.
///
/// A network is rendered on every node with a pod or an egress IP of a namespace whose primary
/// network it is. It is also rendered on the nodes of the networks that it is connected with.
///
/// `pods` maps each pod to its node, or to `None` if the pod is on no network. `egress` maps each
/// namespace to the nodes of its egress IPs.
pub(super) fn network_activity(
    networks: &Networks,
    connects: &OrdMap<String, Arc<ConnectInput>>,
    pods: &OrdMap<ObjectKey, Option<String>>,
    egress: &BTreeMap<String, BTreeSet<String>>,
) -> Activity {
    let mut nodes_by_namespace = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (key, node) in pods {
        if let (Some(namespace), Some(node)) = (&key.namespace, node) {
            nodes_by_namespace
                .entry(namespace)
                .or_default()
                .insert(node);
        }
    }
    for (namespace, nodes) in egress {
        let namespace_nodes = nodes_by_namespace.entry(namespace).or_default();
        namespace_nodes.extend(nodes.iter().map(String::as_str));
    }
    let mut limited = BTreeMap::<String, BTreeSet<String>>::new();
    for input in connects.values() {
        let Ok(connect) = &input.connect else {
            continue;
        };
        let owners = connect.subnets.owners();
        let members: Vec<_> = owners
            .filter_map(|owner| networks.by_id(owner.network_id))
            .collect();
        let namespaces = members.iter().flat_map(|network| &network.namespaces);
        let nodes: BTreeSet<&str> = namespaces
            .filter_map(|namespace| nodes_by_namespace.get(namespace.as_str()))
            .flatten()
            .copied()
            .collect();
        for network in members {
            let active = limited.entry(network.name.clone()).or_default();
            active.extend(nodes.iter().map(|node| (*node).to_owned()));
        }
    }
    Activity { limited }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use patchbay_model::{ConnectSubnetMap, Network, NetworkId, Role, Topology, Transport};
    use patchbay_resources::cnc::ClusterNetworkConnect;

    fn network(name: &str, id: i64) -> Network {
        Network {
            name: name.to_owned(),
            id: NetworkId::try_new(id).unwrap(),
            topology: Topology::Layer3,
            role: Role::Primary,
            transport: Transport::Overlay,
            pod_subnets: Vec::new(),
            join_subnets: Vec::new(),
            transit_subnets: Vec::new(),
            namespaces: [format!("{name}-ns")].into(),
            nads: BTreeSet::default(),
        }
    }

    fn connect(owners: &[&str]) -> ConnectInput {
        let entries = owners
            .iter()
            .map(|owner| ((*owner).to_owned(), json!({"ipv4": "192.168.0.0/24"})));
        let entries: serde_json::Map<_, _> = entries.collect();
        let object: ClusterNetworkConnect = serde_json::from_value(json!({
            "metadata": {"name": "c", "annotations": {ConnectSubnetMap::ANNOTATION: json!(entries).to_string()}},
            "spec": {"networkSelectors": [], "connectSubnets": [], "connectivity": ["PodNetwork"]},
        }))
        .unwrap();
        patchbay_resources::conversion::connect_input(&object)
    }

    #[test]
    fn a_network_is_rendered_on_its_own_nodes_and_on_those_of_its_peers() {
        let networks: Networks = [network("red", 1), network("blue", 2), network("green", 3)]
            .into_iter()
            .collect();
        let connects = [
            ("a".to_owned(), Arc::new(connect(&["layer3_1", "layer3_2"]))),
            ("b".to_owned(), Arc::new(connect(&["layer3_2", "layer3_3"]))),
        ]
        .into_iter()
        .collect();
        let pod = |namespace: &str, name: &str, node: Option<&str>| {
            let key = ObjectKey::namespaced(namespace, name);
            (key, node.map(str::to_owned))
        };
        let pods = [
            pod("red-ns", "p", Some("n1")),
            pod("green-ns", "p", Some("n2")),
            pod("green-ns", "q", None),
            pod("other", "p", Some("n3")),
        ];
        let egress = [("red-ns".to_owned(), ["n4".to_owned()].into())].into();
        let activity = network_activity(&networks, &connects, &pods.into_iter().collect(), &egress);
        let nodes = |network: &str| {
            let nodes = activity.limited[network].iter();
            nodes.map(String::as_str).collect::<Vec<_>>()
        };
        // A network gets the nodes of its direct peers only: green is no peer of red.
        assert_eq!(nodes("red"), ["n1", "n4"]);
        assert_eq!(nodes("blue"), ["n1", "n2", "n4"]);
        assert_eq!(nodes("green"), ["n2"]);
    }
}
