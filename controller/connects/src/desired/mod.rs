//! The rows that a connect should have in one zone: pure functions of what the cluster knows and of which rows of
//! others there are to attach to. Each makes the rows of one part; which parts have to be made is decided elsewhere.
//!
//! ```text
//! members     which networks the annotation names, and where they are in this zone
//! links       the ports between the connect router and the networks' routers, a pair of addresses each
//! routing     policies on the networks' routers, routes on the connect router
//! services    the load balancer group
//! isolation   ACLs and address sets that keep pods apart when only services are let through
//! ```

mod isolation;
mod links;
mod members;
mod routing;
mod rows;
mod services;

use std::collections::BTreeMap;

use patchbay_schemas::datum::Map;
use patchbay_schemas::nb::Copp;
use patchbay_schemas::typed::Ref;

use super::index::Index;
use super::inputs::Inputs;
use super::nodes::NodeIds;
pub(super) use isolation::{IsolationRows, isolation};
pub(super) use links::{Link, LinkRows};
pub(super) use members::Member;
use patchbay_model::external_ids::OwnedRow;
use patchbay_model::{Connect, DatapathKey, Topology, names};
pub(super) use routing::{policies, routes};
pub(super) use rows::{PortRow, RouteRow, RouterRow};
pub(super) use services::{ServiceRows, load_balancers_by_namespace, services};

/// Name of the control plane protection that all routers share.
pub(super) const COPP: &str = "ovnkube-default";

/// Key of the option that gives a router or a port its tunnel key.
const TUNNEL_KEY_OPTION: &str = "requested-tnl-key";

/// What rows follow from besides their connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanContext<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) index: &'a Index,
    pub(super) nodes: &'a NodeIds,
    /// How many load balancers the services of each namespace should have.
    pub(super) load_balancers: &'a BTreeMap<String, usize>,
}

impl PlanContext<'_> {
    pub(super) fn has_local_node(&self) -> bool {
        self.inputs.nodes.contains_key(&self.inputs.zone)
    }

    /// Whether the zone's node is there without an id.
    pub(super) fn lacks_local_id(&self) -> bool {
        let local = self.inputs.nodes.get(&self.inputs.zone);
        local.is_some_and(|node| node.id.is_none())
    }

    /// Whether the zone's node has an id that cannot be read.
    pub(super) fn has_unreadable_local_id(&self) -> bool {
        let local = self.inputs.nodes.get(&self.inputs.zone);
        local.is_some_and(|node| node.has_unknown_id())
    }
}

/// The connect router, without its ports and routes.
pub(super) fn router(connect: &Connect, key: DatapathKey, copp: Ref<Copp>) -> RouterRow {
    let external_ids = OwnedRow::Router.external_ids(&connect.name).into_iter();
    RouterRow {
        name: names::connect_router(&connect.name).into(),
        external_ids: external_ids
            .map(|(key, id)| (key.into(), id.into()))
            .collect(),
        options: Map::from_iter([(TUNNEL_KEY_OPTION.into(), key.to_string().into())]),
        copp: Some(copp),
        ..RouterRow::default()
    }
}

/// Whether a network of this topology has a place in a zone whose node is not there.
const fn needs_local_node(topology: Topology) -> bool {
    matches!(topology, Topology::Layer3)
}
