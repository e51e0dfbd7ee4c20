//! Load balancer group of a connect: load balancers of all connected networks, used by the switches
//! of all connected networks.

use std::collections::BTreeSet;

use patchbay_model::external_ids::key;
use patchbay_model::names;
use patchbay_rows::RowView;
use patchbay_schemas::nb::{LoadBalancer, LoadBalancerGroup};
use patchbay_schemas::typed::Ref;
use patchbay_zone::Cell;
use smol_str::SmolStr;

use crate::capability::{Connects, PartReport, Rows};
use crate::report::Notice;
use crate::shared::ConnectReader;

/// External id and value that mark the load balancers of services.
const SERVICE_KIND: (&str, &str) = (key::KIND, "Service");
/// Name suffix of load balancers that are the same on all nodes.
const CLUSTER_SUFFIX: &str = "_cluster";

impl Connects {
    /// The group has the existing load balancers. A missing one is reported as a notice and
    /// prevents no connection, because OVN-Kubernetes creates and deletes load balancers.
    pub(crate) fn services(&self, name: &SmolStr, reader: &ConnectReader<'_>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::Connect(name.clone()));
        let connect = inputs.connect(name);
        if !connect.is_some_and(|connect| connect.connectivity.service_network) {
            return;
        }
        let networks = Self::networks(name, reader);
        let mut group = LoadBalancerGroup {
            name: names::load_balancer_group(name),
            ..LoadBalancerGroup::default()
        };
        let mut switches = BTreeSet::new();
        let mut notices = Vec::new();
        let members = networks.values().filter_map(|network| network.member.as_ref());
        for member in members.filter(|member| member.is_connected() && member.vpc.is_none()) {
            let load_balancers = self.load_balancers(&member.name, reader);
            let found = load_balancers.len();
            group.load_balancer.extend(load_balancers);
            if !member.is_active_here {
                continue;
            }
            let inputs = reader.read(&Cell::ConnectableNetwork(member.id));
            let network = inputs.connectable_network(member.id).into_iter();
            let counts = network.flat_map(|of| &of.namespaces).map(|namespace| {
                reader.read(&Cell::LoadBalancers(namespace.as_str().into()));
                inputs.load_balancers_in(namespace)
            });
            let expected: usize = counts.sum();
            if found != expected {
                notices.push(Notice::LoadBalancers {
                    network: member.name.to_string(),
                    found,
                    expected,
                });
            }
            if member.has_switch {
                switches.insert(member.switch.clone());
            } else {
                notices.push(Notice::NoSwitch {
                    network: member.name.to_string(),
                    switch: member.switch.clone(),
                });
            }
        }
        let retained = Self::retained_rows(name, &networks, reader);
        for row in reader.owned() {
            let there = reader.typed::<LoadBalancerGroup>(row.view());
            if let (true, Ok(there)) = (retained.is_linked, there) {
                group.load_balancer.extend(there.load_balancer);
            }
            let holders = reader
                .holders(self.tables.switch_groups, row)
                .map(|switch| switch.name().to_owned());
            switches.extend(holders.filter(|name| retained.switches.contains(name)));
        }
        let mut added = rows.put(self.tables.groups, &group);
        for switch in &switches {
            added.held_by(self.tables.switch_groups, switch.as_str());
        }
        if !notices.is_empty() {
            rows.report(PartReport::Services(notices.into()));
        }
    }

    /// Load balancers of a network's services, that are the same on all nodes.
    fn load_balancers(
        &self,
        network: &str,
        reader: &ConnectReader<'_>,
    ) -> BTreeSet<Ref<LoadBalancer>> {
        let is_of_services = |row: &RowView<'_>| {
            row.external_id(SERVICE_KIND.0) == Some(SERVICE_KIND.1)
                && row.name().ends_with(CLUSTER_SUFFIX)
        };
        let rows = reader.rows(self.tables.load_balancers, network);
        rows.filter(is_of_services).map(|row| Ref::new(row.uuid())).collect()
    }
}
