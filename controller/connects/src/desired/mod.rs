//! Desired rows of a connect in one zone, as pure functions of the inputs and of rows to attach to.
//!
//! Each function makes the rows of one part. The module `connect` selects the parts.
//!
//! ```text
//! members     networks of the subnet annotation, with their routers and switches in this zone
//! links       ports between the connect router and the networks' routers, with address pairs
//! routing     policies on the networks' routers, routes on the connect router
//! services    load balancer group
//! isolation   ACLs and address sets that drop traffic between pods (service-only connectivity)
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

/// Name of the `Copp` row (control plane protection) that OVN-Kubernetes creates for all routers.
pub(super) const COPP: &str = "ovnkube-default";

/// Option of a router or port with its tunnel key.
const TUNNEL_KEY_OPTION: &str = "requested-tnl-key";

/// Inputs of row computation besides the connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanContext<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) index: &'a Index,
    pub(super) nodes: &'a NodeIds,
    /// Number of load balancers that the services of each namespace need.
    pub(super) load_balancers: &'a BTreeMap<String, usize>,
}

impl PlanContext<'_> {
    pub(super) fn has_local_node(&self) -> bool {
        self.inputs.nodes.contains_key(&self.inputs.zone)
    }

    /// Version of the Northbound schema if packets between nodes are lost, because OVN has no remote
    /// router ports. `None`: OVN has them, or there is only one node.
    pub(super) fn version_without_remote_ports(&self) -> Option<&str> {
        let version = self.index.version_without_remote_ports()?;
        self.nodes.ids().nth(1).map(|_| version)
    }

    /// True if the zone's node exists and has no id.
    pub(super) fn lacks_local_id(&self) -> bool {
        let local = self.inputs.nodes.get(&self.inputs.zone);
        local.is_some_and(|node| node.id.is_none())
    }

    /// True if the id of the zone's node cannot be read.
    pub(super) fn has_unreadable_local_id(&self) -> bool {
        let local = self.inputs.nodes.get(&self.inputs.zone);
        local.is_some_and(|node| node.has_unknown_id())
    }
}

/// Connect router without references to ports, policies and routes.
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

/// True if networks of this topology are attached only in zones whose node exists.
const fn needs_local_node(topology: Topology) -> bool {
    matches!(topology, Topology::Layer3)
}
