//! Load balancer group of a connect: load balancers of all connected networks, used by the switches
//! of all connected networks.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_schemas::nb::LoadBalancerGroup;

use crate::report::Notice;
use patchbay_model::ClusterIpService;
use patchbay_model::{Connect, names};

use super::{Member, PlanContext};

/// Load balancer group and its switches.
#[derive(Debug)]
pub(crate) struct ServiceRows {
    /// Load balancer group.
    pub(crate) group: LoadBalancerGroup,
    /// Names of the switches that use the group.
    pub(crate) switches: BTreeSet<String>,
}

/// Load balancer group and its switches. `None`: the connect does not connect services.
///
/// The group has the existing load balancers. A missing one is reported as a notice and prevents no
/// connection, because OVN-Kubernetes creates and deletes load balancers.
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
        let load_balancers = context.index.load_balancers(&member.name);
        let group = &mut rows.group;
        group
            .load_balancer
            .extend(load_balancers.into_iter().flatten());
        if !member.is_active_here {
            continue;
        }
        let found = load_balancers.map_or(0, BTreeSet::len);
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

/// Number of load balancers that the services of a network need.
fn expected_load_balancers(member: &Member, context: &PlanContext<'_>) -> usize {
    let network = context.inputs.networks.by_id(member.id);
    let namespaces = network.into_iter().flat_map(|network| &network.namespaces);
    namespaces
        .filter_map(|namespace| context.load_balancers.get(namespace))
        .sum()
}

/// Number of load balancers that the services of each namespace need.
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
