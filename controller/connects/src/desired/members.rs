//! Networks that a connect joins, with their routers and switches in this zone.

use ipnet::IpNet;

use crate::report::NetworkSkip;
use patchbay_model::{
    Connect, ConnectSubnets, IpFamily, Network, NetworkId, OwnerKey, Topology, names,
};

use super::{LinkRows, PlanContext};

/// Known network of the subnet annotation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Member {
    pub(crate) id: NetworkId,
    pub(crate) name: String,
    pub(crate) topology: Topology,
    /// Pod subnets, in the order of the network.
    pub(crate) pod_subnets: Vec<IpNet>,
    /// Connect subnets that the CNC allocated for the network.
    pub(crate) subnets: ConnectSubnets,
    /// Values that the rows of all links share.
    pub(crate) link_rows: LinkRows,
    /// Name of the network's router.
    pub(crate) router: String,
    /// Name of the network's switch in this zone.
    pub(crate) switch: String,
    /// `true` if the zone's node exists and the network is active on it.
    pub(crate) is_active_here: bool,
    /// `true` if the switch exists.
    pub(crate) has_switch: bool,
    /// Reason why the network has no rows. It is still a destination for other networks, which have
    /// their own drop rules.
    pub(crate) obstacle: Option<NetworkSkip>,
}

impl Member {
    /// Resolves an entry of the annotation. All rows use this one result.
    ///
    /// # Errors
    /// Name of the network, if known, and the reason why it cannot be connected.
    pub(crate) fn resolve(
        connect: &Connect,
        owner: OwnerKey,
        subnets: &ConnectSubnets,
        context: &PlanContext<'_>,
    ) -> Result<Self, (Option<String>, NetworkSkip)> {
        let inputs = context.inputs;
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
            is_active_here: context.has_local_node()
                && inputs.activity.is_active(&network.name, &inputs.zone),
            has_switch: context.index.switch(&switch).is_some(),
            switch,
            obstacle: None,
        };
        member.obstacle = member.find_obstacle(connect, network, context);
        Ok(member)
    }

    fn find_obstacle(
        &self,
        connect: &Connect,
        network: &Network,
        context: &PlanContext<'_>,
    ) -> Option<NetworkSkip> {
        let isolated = connect.connectivity.is_service_only();
        if isolated && !context.index.has_pass_action() {
            Some(NetworkSkip::NoPassAction)
        } else if !self.is_active_here {
            None
        } else if context.index.router(&self.router).is_none() {
            Some(NetworkSkip::NoRouter(self.router.clone()))
        } else if isolated && !self.has_switch {
            Some(NetworkSkip::NoSwitch(self.switch.clone()))
        } else if network.pod_subnets.is_empty() {
            Some(NetworkSkip::NoSubnets)
        } else if self.topology == Topology::Layer3 && context.lacks_local_id() {
            let node = context.inputs.zone.clone();
            Some(if context.has_unreadable_local_id() {
                NetworkSkip::UnreadableLocalId(node)
            } else {
                NetworkSkip::NoLocalId(node)
            })
        } else {
            None
        }
    }

    /// True if the network has rows.
    pub(crate) fn is_connected(&self) -> bool {
        self.obstacle.is_none()
    }

    pub(crate) fn owner_key(&self) -> OwnerKey {
        OwnerKey {
            topology: self.topology,
            network_id: self.id,
        }
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
