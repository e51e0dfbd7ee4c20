//! Tables of services' rows.
//!
//! A load balancer belongs to the service and network that its external ids name, and goes if the
//! service does not want it. Groups, routers and switches are those of the networks; their members
//! are managed one by one.
//!
//! All changes have one phase: a load balancer reaches no endpoint that its network does not.

use patchbay_model::external_ids::key;
use patchbay_rows::{Holding, Identity, Layout, Owner, RowView, Table};
use patchbay_schemas::nb::{LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalSwitch};

use super::capability::Part;
use super::load_balancers::SERVICE;

/// Router of the default network. A database with it is OVN-Kubernetes'.
pub(super) const DEFAULT_ROUTER: &str = "ovn_cluster_router";

/// Tables, and the columns by which their rows hold load balancers.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) load_balancers: Table<LoadBalancer>,
    pub(super) routers: Table<LogicalRouter>,
    pub(super) of_group: Holding,
    pub(super) of_router: Holding,
    pub(super) of_switch: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let by_name = Identity::NAME;
        let load_balancers = layout.table(by_name).owned_by(load_balancer).declare();
        let groups = layout.table(by_name).shared().declare();
        let routers = layout.table(by_name).shared().declare();
        let switches = layout.table(by_name).shared().declare();
        Self {
            of_group: layout.holding(groups, LoadBalancerGroup::LOAD_BALANCER, load_balancers),
            of_router: layout.holding(routers, LogicalRouter::LOAD_BALANCER, load_balancers),
            of_switch: layout.holding(switches, LogicalSwitch::LOAD_BALANCER, load_balancers),
            load_balancers,
            routers,
        }
    }
}

fn load_balancer(row: &RowView<'_>) -> Owner<Part> {
    let is_of_service = row.external_id(key::KIND) == Some(SERVICE);
    let owner = row.external_id(key::NETWORK).zip(row.external_id(key::OWNER));
    let part =
        owner.filter(|_| is_of_service).and_then(|(network, owner)| Part::new(network, owner));
    part.map_or(Owner::Unowned, Owner::Part)
}
