//! Networks that a connect joins, with their routers and switches in this zone.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    Connect, ConnectSubnets, IpFamily, Network, NetworkId, OwnerKey, Topology, names,
};

use super::LinkRows;
use crate::report::NetworkSkip;

/// Known network of the subnet annotation. All its rows use this one result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Member {
    pub(crate) id: NetworkId,
    pub(crate) name: Arc<str>,
    pub(crate) topology: Topology,
    /// Pod subnets, in the order of the network.
    pub(crate) pod_subnets: Vec<IpNet>,
    /// Connect subnets that the CNC allocated for the network.
    pub(crate) subnets: ConnectSubnets,
    /// Values that the rows of all links share.
    pub(crate) link_rows: LinkRows,
    /// Name of the network's router.
    pub(crate) router: String,
    /// Name of the zone.
    pub(crate) zone: Arc<str>,
    /// Name of the network's switch in this zone.
    pub(crate) switch: String,
    /// Names of the nodes on which the network is active. `None`: all.
    pub(crate) active_nodes: Option<BTreeSet<Arc<str>>>,
    /// `true` if the zone's node exists and the network is active on it.
    pub(crate) is_active_here: bool,
    /// `true` if the switch exists.
    pub(crate) has_switch: bool,
    /// Reason why the network has no rows. It is still a destination for other networks, which have
    /// their own drop rules.
    pub(crate) obstacle: Option<NetworkSkip>,
}

impl Member {
    /// A known network of the annotation, without an obstacle.
    pub(crate) fn new(
        connect: &Connect,
        network: &Network,
        subnets: &ConnectSubnets,
        zone: &str,
    ) -> Self {
        Self {
            id: network.id,
            name: network.name.as_str().into(),
            topology: network.topology,
            pod_subnets: network.pod_subnets.iter().map(|net| net.cidr).collect(),
            subnets: *subnets,
            link_rows: LinkRows::new(connect, network, subnets),
            router: network.router(),
            switch: network.switch(zone),
            zone: zone.into(),
            active_nodes: None,
            is_active_here: false,
            has_switch: false,
            obstacle: None,
        }
    }

    /// `true` if the network waits for the id of the zone's node.
    pub(crate) fn waits_for_local_id(&self) -> bool {
        matches!(self.obstacle, Some(NetworkSkip::NoLocalId(_) | NetworkSkip::UnreadableLocalId(_)))
    }

    /// `true` if the network is active on a node.
    pub(crate) fn is_active_on(&self, node: &str) -> bool {
        let nodes = self.active_nodes.as_ref();
        nodes.is_none_or(|nodes| nodes.contains(node))
    }

    /// `true` if the network has rows.
    pub(crate) fn is_connected(&self) -> bool {
        self.obstacle.is_none()
    }

    pub(crate) fn owner_key(&self) -> OwnerKey {
        OwnerKey { topology: self.topology, network_id: self.id }
    }

    pub(super) fn pod_subnets_of(&self, family: IpFamily) -> impl Iterator<Item = IpNet> {
        let subnets = self.pod_subnets.iter().copied();
        subnets.filter(move |subnet| IpFamily::of_net(*subnet) == family)
    }

    /// Port of the network's router through which pods in this zone send.
    pub(super) fn inport(&self, zone: &str) -> String {
        names::network_inport(&self.name, self.topology, zone)
    }
}
