//! The state of the cluster manager after a pass, as metrics.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::CONNECTED;
use patchbay_model::{
    ConnectSubnetMap, DatapathKey, FIRST_NODE_ID, IpFamily, NETWORK_ID, NetworkId, NodeId,
    ROUTER_TUNNEL_KEY, TUNNEL_KEYS,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Object as _;

use crate::events::condition_events::condition;
use crate::manager::manager_connects::node_id;
use crate::metrics::names;
use crate::metrics::process_state::set;

/// Connects with series of their own. Each has about ten.
const MAX_NAMED_CONNECTS: usize = 100;
/// Combinations of type, status and reason of conditions. There are about ten, unless another program
/// writes conditions.
const MAX_CONDITIONS: usize = 50;
/// States of a connect.
const CONNECT_STATES: [&str; 4] = ["connected", "not_connected", "refused", "unknown"];

/// The cluster manager after a pass.
#[derive(Debug)]
pub(crate) struct ManagerState {
    /// The objects with what is allocated, which share their memory with those of the pass.
    pub(crate) inventory: Inventory,
    /// Number of zones that are behind, by connect.
    pub(crate) zones_behind: BTreeMap<String, usize>,
    /// Number of zones by their state.
    pub(crate) zones: [(&'static str, usize); 3],
}

impl ManagerState {
    /// Records the metrics.
    pub(super) fn record(&self) {
        for (state, count) in self.zones {
            set(names::ZONES, &[("state", state)], count as f64);
        }
        let behind = self.zones_behind.values().max().copied();
        set(names::ZONES_BEHIND, &[], behind.unwrap_or_default() as f64);
        self.record_allocations();
        self.record_conditions();
        let mut connects: Vec<_> = self.inventory.cluster_network_connects.iter().collect();
        let omitted = connects.len().saturating_sub(MAX_NAMED_CONNECTS);
        set(names::CONNECTS_OMITTED, &[], omitted as f64);
        connects.sort_by_key(|(key, one)| (state_of(&one.object) == "connected", *key));
        for (key, connect) in connects.into_iter().take(MAX_NAMED_CONNECTS) {
            self.record_connect(&key.name, &connect.object);
        }
    }

    fn record_connect(&self, name: &str, connect: &ClusterNetworkConnect) {
        let present = state_of(connect);
        for state in CONNECT_STATES {
            let labels = [("connect", name), ("state", state)];
            set(names::CONNECT_STATE, &labels, f64::from(u8::from(state == present)));
        }
        if let Some(behind) = self.zones_behind.get(name) {
            set(names::CONNECT_ZONES_BEHIND, &[("connect", name)], *behind as f64);
        }
        for (family, used, left) in blocks_of(connect) {
            let labels = [("connect", name), ("family", family)];
            set(names::CONNECT_SUBNETS_USED, &labels, used);
            set(names::CONNECT_SUBNETS_LEFT, &labels, left);
        }
    }

    fn record_conditions(&self) {
        let mut counts = BTreeMap::new();
        for (_, connect) in self.inventory.cluster_network_connects.iter() {
            for type_ in [ACCEPTED, CONNECTED] {
                let Some(one) = condition(&connect.object, type_) else {
                    continue;
                };
                let labels = (type_, one.status.as_str(), one.reason.as_str());
                if counts.len() < MAX_CONDITIONS || counts.contains_key(&labels) {
                    *counts.entry(labels).or_insert(0_u32) += 1;
                }
            }
        }
        for ((type_, status, reason), count) in counts {
            let labels = [("condition", type_), ("status", status), ("reason", reason)];
            set(names::CONNECT_CONDITIONS, &labels, count.into());
        }
    }

    fn record_allocations(&self) {
        let nads = || self.inventory.network_attachment_definitions.iter();
        let network_ids: BTreeSet<NetworkId> = nads()
            .filter_map(|(_, nad)| nad.object.annotations().get(NETWORK_ID)?.parse().ok())
            .filter(|id| *id != NetworkId::DEFAULT)
            .collect();
        let node_ids: BTreeSet<NodeId> = self
            .inventory
            .nodes
            .iter()
            .filter_map(|(_, node)| node_id(&node.object))
            .filter(|id| id.get() >= FIRST_NODE_ID)
            .collect();
        let of_connects = self.inventory.cluster_network_connects.iter().filter_map(|(_, one)| {
            one.object.annotations().get(ROUTER_TUNNEL_KEY)?.parse::<DatapathKey>().ok()
        });
        let of_networks = nads()
            .filter_map(|(_, nad)| nad.object.annotations().get(TUNNEL_KEYS))
            .filter_map(|keys| serde_json::from_str::<Vec<i64>>(keys).ok())
            .flatten()
            .filter_map(|key| DatapathKey::try_new(key).ok());
        let keys: BTreeSet<DatapathKey> = of_connects
            .chain(of_networks)
            .filter(|key| DatapathKey::ALLOCATABLE.contains(key))
            .collect();
        let (first_key, last_key) = DatapathKey::ALLOCATABLE.into_inner();
        for (resource, used, all) in [
            ("network_ids", network_ids.len(), u32::from(NetworkId::MAX.get())),
            ("node_ids", node_ids.len(), u32::from(NodeId::MAX.get() - FIRST_NODE_ID) + 1),
            ("router_tunnel_keys", keys.len(), last_key.get() - first_key.get() + 1),
        ] {
            let labels = [("resource", resource)];
            set(names::USED, &labels, used as f64);
            set(names::LEFT, &labels, f64::from(all) - used as f64);
        }
    }
}

/// State of a connect, one of [`CONNECT_STATES`].
fn state_of(connect: &ClusterNetworkConnect) -> &'static str {
    let status = |type_| condition(connect, type_).map(|one| one.status.as_str());
    match (status(ACCEPTED), status(CONNECTED)) {
        (Some("False"), _) => "refused",
        (_, Some("True")) => "connected",
        (_, Some("False")) => "not_connected",
        _ => "unknown",
    }
}

/// Used and free blocks of the ranges of a connect, by IP family.
fn blocks_of(connect: &ClusterNetworkConnect) -> Vec<(&'static str, f64, f64)> {
    let text = connect.annotations().get(ConnectSubnetMap::ANNOTATION);
    let subnets = text.and_then(|text| ConnectSubnetMap::parse(text).ok());
    let subnets = subnets.map(|(subnets, _)| subnets).unwrap_or_default();
    let ranges = connect.spec.connect_subnets.iter().filter_map(|range| {
        let cidr: IpNet = range.cidr.parse().ok()?;
        let block = u8::try_from(range.network_prefix).ok()?;
        let bits = block.checked_sub(cidr.prefix_len())?;
        let family = if cidr.addr().is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
        let used: BTreeSet<IpNet> = subnets
            .iter()
            .filter_map(|(_, subnets)| subnets.of(family))
            .filter_map(|subnet| IpNet::new(subnet.addr(), block).ok())
            .map(|subnet| subnet.trunc())
            .filter(|block| cidr.contains(block))
            .collect();
        let name = if family == IpFamily::V4 { "ipv4" } else { "ipv6" };
        let used = used.len() as f64;
        Some((name, used, f64::from(bits).exp2() - used))
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use patchbay_resources::manifests::{Origin, Sourced};
    use serde_json::json;

    use super::*;
    use crate::metrics::process_state::{ProcessState, PublishedState};

    fn connect(name: &str, connected: &str) -> Sourced<ClusterNetworkConnect> {
        let time = "2026-01-01T00:00:00Z";
        let object = json!({
            "metadata": {"name": name, "annotations": {
                "k8s.ovn.org/connect-router-tunnel-key": "16715779",
                "k8s.ovn.org/network-connect-subnet":
                    r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"layer2_2":{"ipv4":"192.168.1.0/31"},"layer2_3":{"ipv4":"192.168.1.2/31"}}"#,
            }},
            "spec": {"networkSelectors": [], "connectivity": ["PodNetwork"],
                "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}]},
            "status": {"conditions": [
                {"type": "Accepted", "status": "True", "reason": "ResourceAllocationSucceeded", "message": "", "lastTransitionTime": time},
                {"type": "Connected", "status": connected, "reason": "R", "message": "", "lastTransitionTime": time},
            ]},
        });
        let object = serde_json::from_value(object).unwrap();
        Sourced { object, origin: Origin::Cluster, position: 0 }
    }

    fn rendered(connects: Vec<Sourced<ClusterNetworkConnect>>) -> String {
        let mut inventory = Inventory::default();
        for connect in connects {
            inventory.cluster_network_connects.insert(connect);
        }
        let published = PublishedState::default();
        published.set_manager(Some(ManagerState {
            inventory,
            zones_behind: [("a".to_owned(), 3)].into(),
            zones: [("running", 5), ("unobserved", 0), ("not_running", 1)],
        }));
        ProcessState { published, ..ProcessState::default() }.render()
    }

    #[test]
    fn a_connect_has_its_state_and_its_blocks() {
        let text = rendered(vec![connect("a", "False")]);
        for line in [
            r#"patchbay_connect_state{connect="a",state="not_connected"} 1"#,
            r#"patchbay_connect_state{connect="a",state="connected"} 0"#,
            r#"patchbay_connect_subnets_used{connect="a",family="ipv4"} 2"#,
            r#"patchbay_connect_subnets_left{connect="a",family="ipv4"} 254"#,
            r#"patchbay_connect_conditions{condition="Connected",status="False",reason="R"} 1"#,
            r#"patchbay_connect_zones_behind{connect="a"} 3"#,
            "patchbay_zones_behind 3",
            r#"patchbay_zones{state="running"} 5"#,
            r#"patchbay_allocations_used{resource="router_tunnel_keys"} 1"#,
            r#"patchbay_allocations_left{resource="network_ids"} 4095"#,
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn only_some_connects_have_series_and_those_with_problems_come_first() {
        let connects = (0..MAX_NAMED_CONNECTS + 20).map(|number| {
            let connected = if number < MAX_NAMED_CONNECTS { "True" } else { "False" };
            connect(&format!("c{number:03}"), connected)
        });
        let text = rendered(connects.collect());
        let series = text.lines().filter(|line| line.starts_with("patchbay_connect_state{"));
        assert_eq!(series.count(), MAX_NAMED_CONNECTS * CONNECT_STATES.len());
        assert!(text.contains(r#"{connect="c119",state="not_connected"} 1"#));
        assert!(!text.contains(r#"connect="c099""#));
        assert!(text.lines().any(|line| line == "patchbay_connects_omitted 20"));
    }

    #[test]
    fn names_from_outside_cannot_add_lines() {
        let text = rendered(vec![connect("a\"} 1\npatchbay_zones 9\\", "True")]);
        assert!(!text.lines().any(|line| line.starts_with("patchbay_zones 9")), "{text}");
    }
}
