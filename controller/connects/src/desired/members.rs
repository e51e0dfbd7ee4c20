//! Networks that a connect joins, with their routers and switches in this zone.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    Connect, ConnectSubnets, ConnectedVpc, IpFamily, Network, NetworkId, OwnerKey, Topology, names,
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
    /// The VPC, with the selected subnets. `None`: another network.
    pub(crate) vpc: Option<Arc<ConnectedVpc>>,
    /// `true` if the router gets routes to other members where it has none.
    pub(crate) adds_ways: bool,
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
            vpc: None,
            adds_ways: false,
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

    /// Ports of the network's router through which pods in this zone send. Those of a VPC have the
    /// name of their subnet.
    pub(super) fn inports(&self, zone: &str) -> Vec<(String, Option<&str>)> {
        match &self.vpc {
            Some(vpc) => {
                let names = vpc.subnets.iter().map(|subnet| subnet.name.as_str());
                names.map(|subnet| (vpc.inport(subnet), Some(subnet))).collect()
            }
            None => vec![(names::network_inport(&self.name, self.topology, zone), None)],
        }
    }

    /// Route tables in which packets of the selected subnets are looked up.
    pub(super) fn route_tables(&self) -> BTreeSet<&str> {
        match &self.vpc {
            Some(vpc) => vpc.subnets.iter().map(|subnet| subnet.route_table.as_str()).collect(),
            None => [""].into(),
        }
    }

    /// Term of a match, with `&&` before it, for packets of other ports that are looked up in a
    /// table. `None`: there are no such ports.
    pub(super) fn other_inports(&self, table: &str) -> Option<String> {
        let Some(vpc) = &self.vpc else {
            return Some(String::new());
        };
        if table.is_empty() {
            // Ports to other VPCs and to external subnets are looked up there, too.
            let elsewhere = vpc.subnets.iter().chain(&vpc.others);
            let elsewhere = elsewhere.filter(|subnet| !subnet.route_table.is_empty());
            let terms =
                elsewhere.map(|subnet| format!(" && inport != \"{}\"", vpc.inport(&subnet.name)));
            return Some(terms.collect());
        }
        let others = vpc.others.iter().filter(|subnet| subnet.route_table == table);
        let terms: Vec<String> =
            others.map(|subnet| format!("inport == \"{}\"", vpc.inport(&subnet.name))).collect();
        (!terms.is_empty()).then(|| format!(" && ({})", terms.join(" || ")))
    }

    /// `true` if the network's router gets a route to a range in a table, because it has none.
    pub(super) fn needs_way(&self, table: &str, range: &IpNet) -> bool {
        let has_route = self.vpc.as_ref().is_some_and(|vpc| vpc.has_route(table, range));
        self.adds_ways && !has_route
    }
}
