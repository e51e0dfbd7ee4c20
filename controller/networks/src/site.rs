//! A network in the zone of a node, with the addresses that follow from ids.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{
    ClusterSettings, Databases, GatewayMode, IpFamily, MasqueradePlace, Network, NodeId, Role,
    Transport, Uplink, nth_of_family,
};
use patchbay_zone::{NetworkDetails, NodeSwitch, ZoneNode, ZoneObjects};

use super::node::identity;

/// Place in the join subnet of the cluster router of a layer3 network.
const CLUSTER_ROUTER: u128 = 1;

/// A network in the zone of a node.
pub(super) struct Site<'a> {
    pub(super) network: &'a Network,
    pub(super) details: &'a NetworkDetails,
    pub(super) node: &'a ZoneNode,
    pub(super) settings: &'a ClusterSettings,
    pub(super) objects: &'a ZoneObjects,
    /// `true` if routers outside of the cluster know the way to the pods of the zone.
    pub(super) is_advertised: bool,
    pub(super) switch: NodeSwitch,
    /// `true` if another node has the network in the older layer2 layout.
    pub(super) has_older_nodes: bool,
    /// `true` if rows of a layer3 network lead to another node. Asked for only if
    /// [`follows_remotes`](super::layer3::follows_remotes).
    pub(super) has_remote_nodes: bool,
}

/// The zone's node, with what its gateway router follows from.
pub(super) struct GatewayNode<'a> {
    pub(super) id: NodeId,
    pub(super) chassis: &'a str,
    pub(super) uplink: Uplink,
}

impl<'a> Site<'a> {
    pub(super) fn new(
        objects: &'a ZoneObjects,
        network: &'a Network,
        details: &'a NetworkDetails,
        node: &'a ZoneNode,
    ) -> Self {
        Self {
            network,
            details,
            node,
            settings: objects.settings(),
            objects,
            is_advertised: false,
            switch: NodeSwitch::default(),
            has_older_nodes: false,
            has_remote_nodes: false,
        }
    }

    /// The zone's node with its gateway. `None`: its ids are not known yet, or it has no gateway.
    pub(super) fn gateway_node(&self) -> Option<GatewayNode<'a>> {
        let (id, chassis) = identity(self.node).ok()?;
        let uplink = self.uplink()?;
        Some(GatewayNode { id, chassis, uplink })
    }

    /// The node's uplink. `None`: the node has no gateway.
    pub(super) fn uplink(&self) -> Option<Uplink> {
        self.node.gateway(self.settings)
    }

    pub(super) fn is_primary(&self) -> bool {
        self.network.role == Role::Primary
    }

    /// `true` if OVN carries packets between nodes. `false`: the fabric does.
    pub(super) fn has_interconnect(&self) -> bool {
        self.network.transport == Transport::Overlay
    }

    /// `true` if all nodes have one database: switch and router of a layer2 network are there once.
    pub(super) fn is_central(&self) -> bool {
        self.settings.databases == Databases::Central
    }

    pub(super) fn has_local_gateway(&self) -> bool {
        self.settings.gateway_mode == GatewayMode::Local
    }

    /// MTU of the network.
    pub(super) fn mtu(&self) -> u32 {
        self.details.mtu.unwrap_or(self.settings.mtu)
    }

    /// Option of router ports towards pods with the length above which they send ICMP errors, in
    /// bytes.
    pub(super) fn gateway_mtu(&self) -> Option<(String, String)> {
        self.node.has_gateway_mtu.then(|| ("gateway_mtu".to_owned(), self.settings.mtu.to_string()))
    }

    /// Families of the cluster, IPv4 first.
    pub(super) fn cluster_families(&self) -> impl Iterator<Item = IpFamily> {
        let settings = self.settings;
        let families = IpFamily::BOTH.into_iter();
        families.filter(move |family| settings.has_family(*family))
    }

    /// Subnets of the network in the order of its definition.
    pub(super) fn subnets(&self) -> Vec<IpNet> {
        let subnets = self.network.pod_subnets.iter();
        subnets.map(|subnet| subnet.cidr).collect()
    }

    /// Join address of the gateway router of a node.
    pub(super) fn join_address(&self, node: NodeId, family: IpFamily) -> Option<IpNet> {
        self.network.join_address(node, family)
    }

    /// Join addresses of the gateway router of a node, one for each family of the cluster.
    pub(super) fn join_addresses(&self, node: NodeId) -> Vec<IpNet> {
        let families = self.cluster_families();
        families.filter_map(|family| self.join_address(node, family)).collect()
    }

    /// Join addresses of the cluster router.
    pub(super) fn cluster_router_addresses(&self) -> Vec<IpNet> {
        let families = self.cluster_families();
        families
            .filter_map(|family| nth_of_family(&self.network.join_subnets, CLUSTER_ROUTER, family))
            .collect()
    }

    /// Addresses of a node at the transit router, in the order of the transit subnets. A family
    /// that only these have gets addresses, too, as in OVN-Kubernetes.
    pub(super) fn transit_pairs(&self, node: NodeId) -> Vec<(IpNet, IpNet)> {
        let subnets = self.network.transit_subnets.iter();
        let families = subnets.map(|subnet| IpFamily::of_net(*subnet));
        families.filter_map(|family| self.network.transit_pair(node, family)).collect()
    }

    fn masquerade(&self, place: MasqueradePlace, family: IpFamily) -> Option<IpAddr> {
        self.settings.masquerade_address(place, family)
    }

    /// Masquerade address of the network's gateway routers.
    pub(super) fn gateway_masquerade(&self, family: IpFamily) -> Option<IpAddr> {
        self.masquerade(MasqueradePlace::GatewayRouter(self.network.id), family)
    }

    /// Masquerade address of the network's management ports.
    pub(super) fn management_masquerade(&self, family: IpFamily) -> Option<IpAddr> {
        self.masquerade(MasqueradePlace::ManagementPort(self.network.id), family)
    }

    /// Masquerade address of the host.
    pub(super) fn host_masquerade(&self, family: IpFamily) -> Option<IpAddr> {
        self.masquerade(MasqueradePlace::Host, family)
    }

    /// Next hop of replies to masquerade addresses, which does not exist.
    pub(super) fn dummy_next_hop(&self, family: IpFamily) -> Option<IpAddr> {
        self.masquerade(MasqueradePlace::DummyNextHop, family)
    }

    /// Source of packets that a load balancer sends back to their source.
    pub(super) fn hairpin_masquerade(&self, family: IpFamily) -> Option<IpAddr> {
        self.masquerade(MasqueradePlace::Hairpin, family)
    }
}
