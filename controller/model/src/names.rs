//! Names of networks, and of Northbound rows.
//!
//! Kubernetes names have no `_`, so the name of every network leads back to the object that it was made for.
//!
//! Routers, switches and inports are named after the network's prefix, in which dashes and slashes are dots.
//! Ports carry the network's name as it is.

use super::ids::Topology;

/// The network of a `UserDefinedNetwork`.
pub fn udn_network(namespace: &str, name: &str) -> String {
    format!("{namespace}_{name}")
}

/// The network of a `ClusterUserDefinedNetwork`.
pub fn cudn_network(name: &str) -> String {
    format!("cluster_udn_{name}")
}

/// Prefix of the names of a network's rows: `blue-network` gives `blue.network_`.
pub fn network_prefix(network: &str) -> String {
    let mut prefix = network.replace(['-', '/'], ".");
    prefix.push('_');
    prefix
}

/// The router of a connect.
pub fn connect_router(connect: &str) -> String {
    format!("connect_router_{connect}")
}

/// The router of a network to which a connect router is linked.
pub fn network_router(network: &str, topology: Topology) -> String {
    let prefix = network_prefix(network);
    match topology {
        Topology::Layer2 => prefix + "transit_router",
        Topology::Layer3 => prefix + "ovn_cluster_router",
    }
}

/// The switch of a network; `node` matters for layer3 only, where every node has its own.
pub fn network_switch(network: &str, topology: Topology, node: &str) -> String {
    let prefix = network_prefix(network);
    match topology {
        Topology::Layer2 => prefix + "ovn_layer2_switch",
        Topology::Layer3 => prefix + node,
    }
}

/// The switch in a zone that belongs to a network's router. None for other routers.
pub fn switch_beside(router: &str, zone: &str) -> Option<String> {
    let layer2 = router
        .strip_suffix("transit_router")
        .map(|prefix| format!("{prefix}ovn_layer2_switch"));
    let layer3 = || Some(router.strip_suffix("ovn_cluster_router")?.to_owned() + zone);
    layer2.or_else(layer3)
}

/// The port of the network router behind which the pods on `node` are.
pub fn network_inport(network: &str, topology: Topology, node: &str) -> String {
    let switch = network_switch(network, topology, node);
    match topology {
        Topology::Layer2 => format!("trtos-{switch}"),
        Topology::Layer3 => format!("rtos-{switch}"),
    }
}

/// The port on the connect router. `node` names the node of a layer3 attachment.
pub fn connect_port(connect: &str, network: &str, topology: Topology, node: &str) -> String {
    match topology {
        Topology::Layer2 => format!("crtor-{connect}_{network}"),
        Topology::Layer3 => format!("crtor-{connect}_{network}_{node}"),
    }
}

/// The port on the network router. `node` names the node of a layer3 attachment.
pub fn network_port(connect: &str, network: &str, topology: Topology, node: &str) -> String {
    match topology {
        Topology::Layer2 => format!("rtocr-{network}_{connect}"),
        Topology::Layer3 => format!("rtocr-{network}_{node}_{connect}"),
    }
}

/// Prefix of the names of all load balancer groups that belong to connects.
pub const LOAD_BALANCER_GROUP_PREFIX: &str = "cnc_svc_";

/// The load balancer group of a connect.
pub fn load_balancer_group(connect: &str) -> String {
    format!("{LOAD_BALANCER_GROUP_PREFIX}{connect}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_of_a_router_is_that_of_its_network() {
        for topology in [Topology::Layer2, Topology::Layer3] {
            let router = network_router("cluster_udn_blue-network", topology);
            let switch = network_switch("cluster_udn_blue-network", topology, "n1");
            assert_eq!(switch_beside(&router, "n1"), Some(switch));
        }
        assert_eq!(switch_beside("connect_router_a", "n1"), None);
    }

    #[test]
    fn names_of_a_layer3_network() {
        let network = "cluster_udn_blue-network";
        assert_eq!(network_prefix(network), "cluster_udn_blue.network_");
        assert_eq!(
            network_router(network, Topology::Layer3),
            "cluster_udn_blue.network_ovn_cluster_router"
        );
        assert_eq!(
            network_inport(network, Topology::Layer3, "ovn-worker2"),
            "rtos-cluster_udn_blue.network_ovn-worker2"
        );
        assert_eq!(
            connect_port(
                "blue-green-connect",
                network,
                Topology::Layer3,
                "ovn-worker2"
            ),
            "crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker2"
        );
        assert_eq!(
            network_port(
                "blue-green-connect",
                network,
                Topology::Layer3,
                "ovn-worker2"
            ),
            "rtocr-cluster_udn_blue-network_ovn-worker2_blue-green-connect"
        );
    }

    #[test]
    fn names_of_a_layer2_network() {
        let network = "cluster_udn_yellow-network";
        assert_eq!(
            network_router(network, Topology::Layer2),
            "cluster_udn_yellow.network_transit_router"
        );
        assert_eq!(
            network_switch(network, Topology::Layer2, "any"),
            "cluster_udn_yellow.network_ovn_layer2_switch"
        );
        assert_eq!(
            network_inport(network, Topology::Layer2, "any"),
            "trtos-cluster_udn_yellow.network_ovn_layer2_switch"
        );
        assert_eq!(
            connect_port("mix", network, Topology::Layer2, "any"),
            "crtor-mix_cluster_udn_yellow-network"
        );
        assert_eq!(
            network_port("mix", network, Topology::Layer2, "any"),
            "rtocr-cluster_udn_yellow-network_mix"
        );
    }
}
