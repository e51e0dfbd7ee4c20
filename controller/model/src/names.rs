//! Names of networks and of Northbound rows.
//!
//! Kubernetes names have no `_`, so the name of a network identifies its custom resource. Names of
//! routers, switches and inports start with the network's prefix, in which dashes and slashes are
//! dots. Names of ports contain the unchanged name of the network.

use super::ids::Topology;

/// Prefix of the names of the load balancer groups of all connects.
pub const LOAD_BALANCER_GROUP_PREFIX: &str = "cnc_svc_";

/// End of the name of a layer2 network's switch.
const LAYER2_SWITCH: &str = "ovn_layer2_switch";

/// Name of the network of a `UserDefinedNetwork`.
pub fn udn_network(namespace: &str, name: &str) -> String {
    format!("{namespace}_{name}")
}

/// Name of the network of a `ClusterUserDefinedNetwork`.
pub fn cudn_network(name: &str) -> String {
    format!("cluster_udn_{name}")
}

/// Prefix of the names of a network's rows: `blue.network_` for `blue-network`.
pub fn network_prefix(network: &str) -> String {
    let mut prefix = network.replace(['-', '/'], ".");
    prefix.push('_');
    prefix
}

/// Name of a network as its rows show it: `blue.network` for `blue-network`. It is the
/// [prefix](network_prefix) without the last `_`.
pub fn network_in_rows(network: &str) -> String {
    let mut prefix = network_prefix(network);
    prefix.pop();
    prefix
}

/// Prefix of the network at the start of the name of a switch. `None`: the name does not start with
/// one. Names of nodes have no `_`, and layer2 switches of the default network do not exist.
///
/// ```
/// use patchbay_model::names::prefix_of_switch;
///
/// assert_eq!(prefix_of_switch("cluster_udn_red_n1"), Some("cluster_udn_red_"));
/// assert_eq!(prefix_of_switch("own_ovn_layer2_switch"), Some("own_"));
/// assert_eq!(prefix_of_switch("n1"), None);
/// ```
pub fn prefix_of_switch(name: &str) -> Option<&str> {
    let of_node = || name.rfind('_').map(|at| &name[..=at]);
    name.strip_suffix(LAYER2_SWITCH).or_else(of_node)
}

/// Name of the connect router of a connect.
pub fn connect_router(connect: &str) -> String {
    format!("connect_router_{connect}")
}

/// Name of the network's router, to which connect routers are linked.
pub fn network_router(network: &str, topology: Topology) -> String {
    let prefix = network_prefix(network);
    match topology {
        Topology::Layer2 => prefix + "transit_router",
        Topology::Layer3 => prefix + "ovn_cluster_router",
        Topology::Vpc => network.to_owned(),
    }
}

/// Name of the network's switch. Each node has its own in layer3; layer2 ignores `node`.
pub fn network_switch(network: &str, topology: Topology, node: &str) -> String {
    let prefix = network_prefix(network);
    match topology {
        Topology::Layer2 => prefix + LAYER2_SWITCH,
        Topology::Layer3 => prefix + node,
        // Its subnets have switches of their own names.
        Topology::Vpc => String::new(),
    }
}

/// Name of the network's gateway router on a node.
pub fn gateway_router(network: &str, node: &str) -> String {
    format!("GR_{}{node}", network_prefix(network))
}

/// Name of the network's group of load balancers of all its switches and gateway routers.
pub fn cluster_load_balancer_group(network: &str) -> String {
    network_prefix(network) + "clusterLBGroup"
}

/// Name of the switch of a network router in a zone. `None`: the router is not a network router.
///
/// ```
/// use patchbay_model::names::switch_of_router;
///
/// let switch = switch_of_router("blue_ovn_cluster_router", "n1");
/// assert_eq!(switch.as_deref(), Some("blue_n1"));
/// ```
pub fn switch_of_router(router: &str, zone: &str) -> Option<String> {
    let layer2 =
        router.strip_suffix("transit_router").map(|prefix| format!("{prefix}ovn_layer2_switch"));
    let layer3 = || Some(router.strip_suffix("ovn_cluster_router")?.to_owned() + zone);
    layer2.or_else(layer3)
}

/// Name of the network router's port through which packets of the pods on `node` arrive.
pub fn network_inport(network: &str, topology: Topology, node: &str) -> String {
    let switch = network_switch(network, topology, node);
    match topology {
        Topology::Layer2 => format!("trtos-{switch}"),
        Topology::Layer3 => format!("rtos-{switch}"),
        // Each of its subnets has a port.
        Topology::Vpc => String::new(),
    }
}

/// Name of a port on the connect router. Layer3 has one for each node; layer2 ignores `node`.
pub fn connect_port(connect: &str, network: &str, topology: Topology, node: &str) -> String {
    match topology {
        Topology::Layer2 | Topology::Vpc => format!("crtor-{connect}_{network}"),
        Topology::Layer3 => format!("crtor-{connect}_{network}_{node}"),
    }
}

/// Name of a port on the network router. Layer3 has one for each node; layer2 ignores `node`.
pub fn network_port(connect: &str, network: &str, topology: Topology, node: &str) -> String {
    match topology {
        Topology::Layer2 | Topology::Vpc => format!("rtocr-{network}_{connect}"),
        Topology::Layer3 => format!("rtocr-{network}_{node}_{connect}"),
    }
}

/// Name of the load balancer group of a connect.
pub fn load_balancer_group(connect: &str) -> String {
    format!("{LOAD_BALANCER_GROUP_PREFIX}{connect}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_of_a_router_belongs_to_the_same_network() {
        for topology in [Topology::Layer2, Topology::Layer3] {
            let router = network_router("cluster_udn_blue-network", topology);
            let switch = network_switch("cluster_udn_blue-network", topology, "n1");
            assert_eq!(switch_of_router(&router, "n1"), Some(switch));
        }
        assert_eq!(switch_of_router("connect_router_a", "n1"), None);
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
            connect_port("blue-green-connect", network, Topology::Layer3, "ovn-worker2"),
            "crtor-blue-green-connect_cluster_udn_blue-network_ovn-worker2"
        );
        assert_eq!(
            network_port("blue-green-connect", network, Topology::Layer3, "ovn-worker2"),
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
