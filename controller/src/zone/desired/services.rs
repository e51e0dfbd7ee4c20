//! The load balancers of all connected networks, for the switches of all connected networks.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_schemas::nb::LoadBalancerGroup;

use crate::model::{Connect, names};
use crate::zone::inputs::Inputs;
use crate::zone::report::{ConnectReport, Notice};

use super::members::Member;
use super::{ServiceRows, Surroundings};

/// The load balancer group and its switches; none unless services are let through.
///
/// The group has the load balancers that are there. If services should have more, that is told and keeps nothing
/// from being connected: load balancers come and go with another controller.
pub(super) fn services(
    connect: &Connect,
    members: &[Member<'_>],
    inputs: &Inputs,
    around: &Surroundings<'_>,
    report: &mut ConnectReport,
) -> Option<ServiceRows> {
    if !connect.connectivity.service_network {
        return None;
    }
    let mut group = LoadBalancerGroup {
        name: names::load_balancer_group(&connect.name),
        ..LoadBalancerGroup::default()
    };
    let expected = expected_load_balancers(members, inputs);
    let mut switches = Vec::new();
    for member in members.iter().filter(|member| member.is_connected) {
        let name = &*member.network.name;
        let found = around.load_balancers.get(name);
        group.load_balancer.extend(found.into_iter().flatten());
        if !member.is_active_here {
            continue;
        }
        let found = found.map_or(0, BTreeSet::len);
        let expected = expected.get(name).copied().unwrap_or_default();
        if found != expected {
            report.notices.push(Notice::LoadBalancers {
                network: name.to_owned(),
                found,
                expected,
            });
        }
        if member.has_switch {
            switches.push(member.switch.clone());
        } else {
            report.notices.push(Notice::NoSwitch {
                network: name.to_owned(),
                switch: member.switch.clone(),
            });
        }
    }
    Some(ServiceRows { group, switches })
}

/// How many load balancers the services of each member should have, by network.
fn expected_load_balancers<'a>(
    members: &'a [Member<'_>],
    inputs: &Inputs,
) -> BTreeMap<&'a str, usize> {
    let mut by_namespace = BTreeMap::<&str, usize>::new();
    for service in &inputs.services {
        *by_namespace.entry(&service.namespace).or_default() += service.protocols.len();
    }
    members
        .iter()
        .map(|member| {
            let namespaces = member.network.namespaces.iter();
            let counts = namespaces.filter_map(|namespace| by_namespace.get(&**namespace));
            (&*member.network.name, counts.sum())
        })
        .collect()
}
