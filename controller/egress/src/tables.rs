//! Tables of egress rows.
//!
//! Rows belong to the network, and to the pod, that their external ids show. All changes have one
//! phase: no policy lets a packet pass that would not pass without it. Packets whose policy is gone
//! leave through the gateway router of their own node.

use patchbay_model::PodKey;
use patchbay_model::external_ids::key;
use patchbay_rows::{Holding, Identity, Layout, Owner, RowView, Table, table_row};
use patchbay_schemas::datum::Map;
use patchbay_schemas::nb::{AddressSet, LogicalRouter, LogicalRouterPolicy, LogicalSwitch, QoS};
use patchbay_schemas::typed::Field;
use smol_str::SmolStr;

use super::capability::Part;
use super::rows::{NETWORK, is_egress_row};

/// Router of the default network. A database with it is OVN-Kubernetes'.
pub(super) const DEFAULT_ROUTER: &str = "ovn_cluster_router";

table_row! {
    /// Router that another capability writes.
    pub(super) struct RouterName of LogicalRouter {
        name: SmolStr,
    }
}

table_row! {
    /// Policy, whose external ids show whether it is one of EgressIPs.
    pub(super) struct PolicyOwner of LogicalRouterPolicy {
        external_ids: Map,
    }
}

table_row! {
    /// Switch that another capability writes.
    pub(super) struct SwitchName of LogicalSwitch {
        name: SmolStr,
    }
}

table_row! {
    /// Address set whose addresses another program writes.
    pub(super) struct SetName of AddressSet {
        name: String,
        external_ids: std::collections::BTreeMap<String, String>,
    }
}

/// Tables, and the columns by which their rows hold each other.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) routers: Table<RouterName>,
    pub(super) switches: Table<SwitchName>,
    /// Policies that keep packets in the cluster.
    pub(super) stays: Table<LogicalRouterPolicy>,
    /// Policies of served pods.
    pub(super) policies: Table<LogicalRouterPolicy>,
    pub(super) rules: Table<QoS>,
    /// Addresses of served pods, which contribute them.
    pub(super) served: Table<AddressSet>,
    pub(super) service_pods: Table<SetName>,
    pub(super) stays_of_router: Holding,
    pub(super) policies_of_router: Holding,
    pub(super) rules_of_switch: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let by_id = Identity::ExternalId(key::ID);
        let routers = layout.table(Identity::NAME).shared().declare();
        let switches = layout.table(Identity::NAME).shared().declare();
        // Policies for several subnets of a network have the same external ids.
        let stays = layout
            .table(Identity::InHolder(&["priority", "match"]))
            .owned_by(owned_by_network)
            .declare();
        let policies = layout.table(by_id).owned_by(owned_by_pod).declare();
        let rules = layout.table(by_id).owned_by(owned_row).declare();
        let router_policies = Field::<RouterName, ()>::new(LogicalRouter::POLICIES.name());
        Self {
            stays_of_router: layout.holding(routers, router_policies, stays),
            policies_of_router: layout.holding(routers, router_policies, policies),
            rules_of_switch: layout.holding(
                switches,
                Field::<SwitchName, ()>::new(LogicalSwitch::QOS_RULES.name()),
                rules,
            ),
            served: layout
                .table(Identity::NAME)
                .owned_by(owned_row)
                .members(AddressSet::ADDRESSES)
                .declare(),
            service_pods: layout.table(Identity::NAME).shared().declare(),
            routers,
            switches,
            stays,
            policies,
            rules,
        }
    }
}

fn owned_by_network(row: &RowView<'_>) -> Owner<Part> {
    match owned_row(row) {
        owner @ Owner::Part(Part::Network(_)) => owner,
        _ => Owner::Other,
    }
}

fn owned_by_pod(row: &RowView<'_>) -> Owner<Part> {
    match owned_row(row) {
        owner @ Owner::Part(Part::Pod(..)) => owner,
        _ => Owner::Other,
    }
}

/// Rows of a pod are named `<EgressIP>_<namespace>/<pod>`; names of EgressIPs have no `_`.
fn owned_row(row: &RowView<'_>) -> Owner<Part> {
    let id = |key| row.external_id(key);
    let is_owned = row.external_ids().is_some_and(is_egress_row);
    let (Some(network), Some(name)) = (id(NETWORK).filter(|_| is_owned), id(key::NAME)) else {
        return Owner::Unowned;
    };
    let pod = name.split_once('_').and_then(|(_, pod)| pod.split_once('/'));
    Owner::Part(match pod {
        Some((namespace, name)) => Part::Pod(network.into(), PodKey::new(namespace, name)),
        None => Part::Network(network.into()),
    })
}
