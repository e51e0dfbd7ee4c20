//! On which nodes networks are rendered, where OVN-Kubernetes renders them only on nodes that need them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use super::store::Objects;
use patchbay_connects::Activity;
use patchbay_model::ConnectInput;
use patchbay_model::Networks;

/// A network is rendered on the nodes that run pods, or have egress IPs, of the namespaces whose primary network it is, and on
/// those where a network is that it is connected with.
///
/// `pods` are the nodes of pods that are on networks, `egress` those that have egress IPs, by namespace.
pub(super) fn activity(
    networks: &Networks,
    connects: &OrdMap<String, Arc<ConnectInput>>,
    pods: &Objects<Option<String>>,
    egress: &BTreeMap<String, BTreeSet<String>>,
) -> Activity {
    let mut of_namespaces = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (key, node) in pods {
        if let (Some(namespace), Some(node)) = (&key.namespace, node) {
            of_namespaces.entry(namespace).or_default().insert(node);
        }
    }
    for (namespace, nodes) in egress {
        let of_namespace = of_namespaces.entry(namespace).or_default();
        of_namespace.extend(nodes.iter().map(String::as_str));
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
            .filter_map(|namespace| of_namespaces.get(namespace.as_str()))
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
    use patchbay_resources::manifests::ObjectKey;

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
    fn a_network_is_where_it_or_one_of_its_peers_is_needed() {
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
        let activity = activity(&networks, &connects, &pods.into_iter().collect(), &egress);
        let nodes = |network: &str| {
            let nodes = activity.limited[network].iter();
            nodes.map(String::as_str).collect::<Vec<_>>()
        };
        // Connected networks are connected where either of them is; that is not handed on to a third one.
        assert_eq!(nodes("red"), ["n1", "n4"]);
        assert_eq!(nodes("blue"), ["n1", "n2", "n4"]);
        assert_eq!(nodes("green"), ["n2"]);
    }
}
