//! Which networks a connect joins, and where they are in this zone.

use ipnet::IpNet;

use crate::model::{
    Connect, ConnectSubnets, IpFamily, Network, NetworkId, OwnerKey, Topology, names,
};
use crate::zone::report::NetworkSkip;

use super::{Around, LinkRows};

/// A network that the annotation names and that is known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::zone) struct Member {
    pub(in crate::zone) id: NetworkId,
    pub(in crate::zone) name: String,
    pub(in crate::zone) topology: Topology,
    /// The subnets of its pods, in the network's own order.
    pub(in crate::zone) pod_subnets: Vec<IpNet>,
    /// What the connect allocated for it.
    pub(in crate::zone) subnets: ConnectSubnets,
    /// What the rows of its links have in common.
    pub(in crate::zone) link_rows: LinkRows,
    /// Name of its router.
    pub(in crate::zone) router: String,
    /// Name of its switch in this zone.
    pub(in crate::zone) switch: String,
    /// Whether the zone's node is there and the network is rendered on it.
    pub(in crate::zone) is_active_here: bool,
    /// Whether its switch exists, active or not.
    pub(in crate::zone) has_switch: bool,
    /// Why it gets no rows. It is still a destination for the others, which have their own drop rules.
    pub(in crate::zone) obstacle: Option<NetworkSkip>,
}

impl Member {
    /// Resolves an entry of the annotation. This is done once, so that all rows agree about the network.
    ///
    /// # Errors
    /// The name of the network, as far as it is known, and why it is none that can be connected.
    pub(in crate::zone) fn resolve(
        connect: &Connect,
        owner: OwnerKey,
        subnets: &ConnectSubnets,
        around: &Around<'_>,
    ) -> Result<Self, (Option<String>, NetworkSkip)> {
        let inputs = around.inputs;
        let network = inputs
            .networks
            .by_id(owner.network_id)
            .ok_or((None, NetworkSkip::Unknown))?;
        if network.topology != owner.topology {
            let reason = NetworkSkip::OtherTopology(network.topology);
            return Err((Some(network.name.clone()), reason));
        }
        let switch = network.switch(&inputs.zone);
        let mut member = Self {
            id: network.id,
            name: network.name.clone(),
            topology: network.topology,
            pod_subnets: network.pod_subnets.iter().map(|net| net.cidr).collect(),
            subnets: *subnets,
            link_rows: LinkRows::new(connect, network, subnets),
            router: network.router(),
            is_active_here: around.has_local_node()
                && inputs.activity.is_active(&network.name, &inputs.zone),
            has_switch: around.index.switch(&switch).is_some(),
            switch,
            obstacle: None,
        };
        member.obstacle = member.find_obstacle(connect, network, around);
        Ok(member)
    }

    fn find_obstacle(
        &self,
        connect: &Connect,
        network: &Network,
        around: &Around<'_>,
    ) -> Option<NetworkSkip> {
        let isolated = connect.connectivity.is_service_only();
        if isolated && !around.index.has_pass_action() {
            Some(NetworkSkip::NoPassAction)
        } else if !self.is_active_here {
            None
        } else if around.index.router(&self.router).is_none() {
            Some(NetworkSkip::NoRouter(self.router.clone()))
        } else if isolated && !self.has_switch {
            Some(NetworkSkip::NoSwitch(self.switch.clone()))
        } else if network.pod_subnets.is_empty() {
            Some(NetworkSkip::NoSubnets)
        } else if self.topology == Topology::Layer3 && around.lacks_local_id() {
            let node = around.inputs.zone.clone();
            Some(if around.has_unreadable_local_id() {
                NetworkSkip::UnreadableLocalId(node)
            } else {
                NetworkSkip::NoLocalId(node)
            })
        } else {
            None
        }
    }

    /// Whether it gets rows.
    pub(in crate::zone) fn is_connected(&self) -> bool {
        self.obstacle.is_none()
    }

    pub(in crate::zone) fn owner_key(&self) -> OwnerKey {
        OwnerKey {
            topology: self.topology,
            network_id: self.id,
        }
    }

    pub(super) fn pod_subnets_of(&self, family: IpFamily) -> impl Iterator<Item = IpNet> {
        let subnets = self.pod_subnets.iter().copied();
        subnets.filter(move |subnet| IpFamily::of_net(*subnet) == family)
    }

    /// The port of its router through which its pods in this zone send.
    pub(super) fn inport(&self, zone: &str) -> String {
        names::network_inport(&self.name, self.topology, zone)
    }
}
