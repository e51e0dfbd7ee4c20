//! Desired rows of a connect in one zone, as pure functions.
//!
//! ```text
//! members     networks of the subnet annotation, with their routers and switches in this zone
//! links       ports between the connect router and the networks' routers, with address pairs
//! routing     policies on the networks' routers, routes on the connect router
//! isolation   ACLs and address sets that drop traffic between pods (service-only connectivity)
//! ```

mod isolation;
mod links;
mod members;
mod routing;

use patchbay_model::external_ids::OwnedRow;
use patchbay_model::{Connect, DatapathKey, Topology, names};
use patchbay_schemas::datum::Map;
use patchbay_schemas::nb::Copp;
use patchbay_schemas::typed::Ref;

use super::tables::RouterRow;
pub(super) use isolation::{IsolationRows, isolation};
pub(super) use links::{Link, LinkRows};
pub(super) use members::Member;
pub(super) use routing::{policies, routes, ways};

/// Name of the `Copp` row (control plane protection) that OVN-Kubernetes creates for all routers.
pub(super) const COPP: &str = "ovnkube-default";

/// Option of a router or port with its tunnel key.
const TUNNEL_KEY_OPTION: &str = "requested-tnl-key";

/// Connect router.
pub(super) fn router(connect: &Connect, key: DatapathKey, copp: Ref<Copp>) -> RouterRow {
    let external_ids = OwnedRow::Router.external_ids(&connect.name).into_iter();
    RouterRow {
        name: names::connect_router(&connect.name).into(),
        external_ids: external_ids.map(|(key, id)| (key.into(), id.into())).collect(),
        options: Map::from_iter([(TUNNEL_KEY_OPTION.into(), key.to_string().into())]),
        copp: Some(copp),
        enabled: None,
    }
}

/// `true` if networks of this topology are attached only in zones whose node exists.
const fn needs_local_node(topology: Topology) -> bool {
    matches!(topology, Topology::Layer3)
}
