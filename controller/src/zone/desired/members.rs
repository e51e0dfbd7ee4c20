//! Which networks a connect joins, and where they are in this zone.

use crate::model::{Connect, ConnectSubnets, Network, OwnerKey};
use crate::zone::inputs::Inputs;
use crate::zone::report::{ConnectReport, NetworkSkip, SkippedNetwork};

use super::Surroundings;

/// A network that the annotation names and that is known.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) network: &'a Network,
    /// What the connect allocated for it.
    pub(super) subnets: ConnectSubnets,
    /// Name of its router.
    pub(super) router: String,
    /// Name of its switch in this zone.
    pub(super) switch: String,
    /// Whether the zone's node is there and the network is rendered on it.
    pub(super) is_active_here: bool,
    /// Whether it gets rows. If not, it is still a destination for the others, which have their own drop rules.
    pub(super) is_connected: bool,
    /// Whether its switch exists, active or not.
    pub(super) has_switch: bool,
}

/// The networks of a connect by id. Each network is resolved here, once, so that all rows of a pass agree about it.
pub(super) fn members<'a>(
    connect: &Connect,
    inputs: &'a Inputs,
    around: &Surroundings<'_>,
    report: &mut ConnectReport,
) -> Vec<Member<'a>> {
    let has_local_node = inputs.nodes.iter().any(|node| node.name == inputs.zone);
    let mut members = Vec::with_capacity(connect.subnets.len());
    for (owner, subnets) in connect.subnets.iter() {
        let network = match known(owner, inputs) {
            Ok(network) => network,
            Err((network, reason)) => {
                report.skipped_networks.push(SkippedNetwork {
                    owner,
                    network,
                    reason,
                });
                continue;
            }
        };
        let switch = network.switch(&inputs.zone);
        let mut member = Member {
            network,
            subnets: *subnets,
            router: network.router(),
            has_switch: around.switches.contains(&*switch),
            switch,
            is_active_here: has_local_node
                && inputs.activity.is_active(&network.name, &inputs.zone),
            is_connected: true,
        };
        if let Some(reason) = obstacle(connect, &member, around) {
            member.is_connected = false;
            report.skipped_networks.push(SkippedNetwork {
                owner,
                network: Some(network.name.clone()),
                reason,
            });
        }
        members.push(member);
    }
    members.sort_by_key(|member| member.network.id);
    report
        .skipped_networks
        .sort_by_key(|skipped| skipped.owner.network_id);
    members
}

fn known(owner: OwnerKey, inputs: &Inputs) -> Result<&Network, (Option<String>, NetworkSkip)> {
    let network = inputs
        .networks
        .by_id(owner.network_id)
        .ok_or((None, NetworkSkip::Unknown))?;
    if network.topology == owner.topology {
        Ok(network)
    } else {
        let reason = NetworkSkip::OtherTopology(network.topology);
        Err((Some(network.name.clone()), reason))
    }
}

/// What keeps a network from being connected as a whole.
fn obstacle(
    connect: &Connect,
    member: &Member<'_>,
    around: &Surroundings<'_>,
) -> Option<NetworkSkip> {
    let isolated = connect.connectivity.is_service_only();
    if isolated && !around.has_pass_action {
        Some(NetworkSkip::NoPassAction)
    } else if !member.is_active_here {
        None
    } else if !around.routers.contains(&*member.router) {
        Some(NetworkSkip::NoRouter(member.router.clone()))
    } else if isolated && !member.has_switch {
        Some(NetworkSkip::NoSwitch(member.switch.clone()))
    } else if member.network.pod_subnets.is_empty() {
        Some(NetworkSkip::NoSubnets)
    } else {
        None
    }
}
