use patchbay_model::{
    NODE_CHASSIS_ID, NODE_ID, NODE_SUBNETS, NetworkId, PodSubnet, Role, Transport,
};
use patchbay_resources::manifests::{ObjectKey, Origin, Sourced};
use serde_json::{Value, json};

use super::*;

fn put(nodes: &mut Objects<Node>, name: &str, annotations: &Value) {
    let object = json!({"metadata": {"name": name, "annotations": annotations}});
    nodes.insert(Sourced {
        object: serde_json::from_value(object).unwrap(),
        origin: Origin::Cluster,
        position: 0,
    });
}

fn annotations(id: u16, chassis: &str, subnet: &str) -> Value {
    let subnets = json!({"red": [subnet], "blue": ["10.9.0.0/24"]}).to_string();
    json!({NODE_ID: id.to_string(), NODE_CHASSIS_ID: chassis, NODE_SUBNETS: subnets})
}

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
        namespaces: BTreeSet::new(),
        nads: BTreeSet::new(),
    }
}

fn digests_of(nodes: &Objects<Node>) -> NodeDigests {
    let mut digests = NodeDigests::default();
    digests.set_connected(&["red".to_owned()].into());
    digests.update(nodes);
    digests
}

#[test]
fn the_digest_follows_everything_that_rows_follow_from() {
    let networks: Networks = [network("red", 1), network("blue", 2)].into_iter().collect();
    let owners = ["layer3_1".parse().unwrap()];
    let mut nodes = Objects::default();
    put(&mut nodes, "n1", &annotations(1, "c1", "10.1.1.0/24"));
    let mut kept = digests_of(&nodes);
    let mut all = vec![kept.digest_of(owners, &networks)];
    for (name, annotations) in [
        ("n2", annotations(2, "c2", "10.1.2.0/24")),
        ("n2", annotations(3, "c2", "10.1.2.0/24")),
        ("n2", annotations(3, "c3", "10.1.2.0/24")),
        ("n2", annotations(3, "c3", "10.1.3.0/24")),
        ("n2", json!({NODE_ID: "x", NODE_CHASSIS_ID: "c3"})),
    ] {
        put(&mut nodes, name, &annotations);
        kept.update(&nodes);
        let digest = kept.digest_of(owners, &networks);
        // A process that has seen other versions before computes the same digest.
        assert_eq!(digest, digests_of(&nodes).digest_of(owners, &networks));
        assert!(!all.contains(&digest));
        all.push(digest);
    }
    nodes.remove(&ObjectKey::cluster("n2"));
    kept.update(&nodes);
    assert_eq!(kept.digest_of(owners, &networks), all[0]);
    let mut changed = network("red", 1);
    changed
        .pod_subnets
        .push(PodSubnet { cidr: "10.1.0.0/16".parse().unwrap(), host_prefix: Some(24) });
    for networks in [[changed].into_iter().collect(), Networks::default()] {
        let digest = kept.digest_of(owners, &networks);
        assert!(!all.contains(&digest));
        all.push(digest);
    }
}

#[test]
fn the_digest_ignores_fields_without_influence_on_rows() {
    let mut nodes = Objects::default();
    put(&mut nodes, "n1", &annotations(1, "c1", "10.1.1.0/24"));
    let mut digests = digests_of(&nodes);
    let networks: Networks = [network("red", 1)].into_iter().collect();
    let owners = ["layer3_1".parse().unwrap()];
    let before = digests.digest_of(owners, &networks);
    let mut other = annotations(1, "c1", "10.1.1.0/24");
    other[NODE_SUBNETS] = r#"{"red":["10.1.1.0/24"],"blue":["10.9.9.0/24"]}"#.into();
    put(&mut nodes, "n1", &other);
    put(&mut nodes, "win-1", &json!({"kubernetes.io/os": "windows"}));
    digests.update(&nodes);
    assert_eq!(digests.digest_of(owners, &networks), before);
    let mut renamed = network("red", 1);
    renamed.namespaces = ["a".to_owned()].into();
    let networks: Networks = [renamed].into_iter().collect();
    assert_eq!(digests.digest_of(owners, &networks), before);
}

#[test]
fn a_newly_connected_network_is_added() {
    let networks: Networks = [network("red", 1), network("blue", 2)].into_iter().collect();
    let owners = ["layer3_1".parse().unwrap(), "layer3_2".parse().unwrap()];
    let mut nodes = Objects::default();
    put(&mut nodes, "n1", &annotations(1, "c1", "10.1.1.0/24"));
    let both: BTreeSet<String> = ["red".to_owned(), "blue".to_owned()].into();
    let mut early = NodeDigests::default();
    early.set_connected(&both);
    early.update(&nodes);
    let mut late = digests_of(&nodes);
    assert_ne!(late.digest_of(owners, &networks), early.digest_of(owners, &networks));
    late.set_connected(&both);
    late.update(&nodes);
    assert_eq!(late.digest_of(owners, &networks), early.digest_of(owners, &networks));
}
