//! The load balancers of all connected networks, for the switches of all connected networks.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_schemas::nb::LoadBalancerGroup;

use crate::report::Notice;
use patchbay_model::ClusterIpService;
use patchbay_model::{Connect, names};

use super::{Member, PlanContext};

/// Load balancers of all connected networks.
#[derive(Debug)]
pub(crate) struct ServiceRows {
    /// The group.
    pub(crate) group: LoadBalancerGroup,
    /// Names of the switches that use the group.
    pub(crate) switches: BTreeSet<String>,
}

/// The load balancer group and its switches; none unless services are let through.
///
/// The group has the load balancers that are there. If services should have more, that is told and keeps nothing
/// from being connected: load balancers come and go with another controller.
pub(crate) fn services<'m>(
    connect: &Connect,
    members: impl Iterator<Item = &'m Member>,
    context: &PlanContext<'_>,
) -> Option<(ServiceRows, Vec<Notice>)> {
    if !connect.connectivity.service_network {
        return None;
    }
    let mut rows = ServiceRows {
        group: LoadBalancerGroup {
            name: names::load_balancer_group(&connect.name),
            ..LoadBalancerGroup::default()
        },
        switches: BTreeSet::new(),
    };
    let mut notices = Vec::new();
    for member in members.filter(|member| member.is_connected()) {
        let found = context.index.load_balancers(&member.name);
        rows.group.load_balancer.extend(found.into_iter().flatten());
        if !member.is_active_here {
            continue;
        }
        let found = found.map_or(0, BTreeSet::len);
        let expected = expected_load_balancers(member, context);
        if found != expected {
            notices.push(Notice::LoadBalancers {
                network: member.name.clone(),
                found,
                expected,
            });
        }
        if member.has_switch {
            rows.switches.insert(member.switch.clone());
        } else {
            notices.push(Notice::NoSwitch {
                network: member.name.clone(),
                switch: member.switch.clone(),
            });
        }
    }
    Some((rows, notices))
}

/// How many load balancers the services of a network should have.
fn expected_load_balancers(member: &Member, context: &PlanContext<'_>) -> usize {
    let network = context.inputs.networks.by_id(member.id);
    let namespaces = network.into_iter().flat_map(|network| &network.namespaces);
    namespaces
        .filter_map(|namespace| context.load_balancers.get(namespace))
        .sum()
}

/// How many load balancers the services of each namespace should have.
pub(crate) fn load_balancers_by_namespace(
    services: &[ClusterIpService],
) -> BTreeMap<String, usize> {
    let mut by_namespace = BTreeMap::<String, usize>::new();
    for service in services {
        let protocols = service.protocols.len();
        match by_namespace.get_mut(&service.namespace) {
            Some(count) => *count += protocols,
            None => {
                by_namespace.insert(service.namespace.clone(), protocols);
            }
        }
    }
    by_namespace
}
