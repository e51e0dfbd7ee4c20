//! Connects of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_graph::{PlaceKind, Topology};
use patchbay_schemas::nb::LogicalRouter;
use serde::Serialize;

/// Prefix of the names of connect routers.
const ROUTER_PREFIX: &str = "connect_router_";
/// Option of a router with its tunnel key.
const TUNNEL_KEY: &str = "requested-tnl-key";

/// Connect, with what is known of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connect {
    /// Name.
    pub name: String,
    /// State in a few words.
    pub state: String,
    /// `true`: it works as it is specified.
    pub is_good: bool,
    /// Reasons why it does not, and notices.
    pub reasons: Vec<String>,
    /// Networks that it joins.
    pub networks: Vec<String>,
    /// Tunnel key of the connect router. Empty: none yet.
    pub key: String,
    /// What is used and left of its ranges, keys and ids, a line each.
    pub capacity: Vec<String>,
}

/// Connects whose routers are in the databases of zones.
pub(super) fn of_rows(topology: &Topology, snapshots: &BTreeMap<String, Snapshot>) -> Vec<Connect> {
    let mut connects: BTreeMap<String, Connect> = BTreeMap::new();
    for snapshot in snapshots.values() {
        for (_, router) in snapshot.typed::<LogicalRouter>().iter().flatten() {
            let Some(name) = router.name.strip_prefix(ROUTER_PREFIX) else {
                continue;
            };
            let connect = connects.entry(name.to_owned()).or_default();
            name.clone_into(&mut connect.name);
            connect.key = router.options.get(TUNNEL_KEY).cloned().unwrap_or_default();
            let networks: BTreeSet<String> =
                connect.networks.drain(..).chain(joined(topology, name)).collect();
            connect.networks = networks.into_iter().collect();
        }
    }
    let in_rows = |connect: Connect| Connect {
        state: "in the database".to_owned(),
        is_good: connect.networks.len() > 1,
        reasons: match connect.networks.len() {
            0 => vec!["no network is linked to its router".to_owned()],
            1 => vec!["only one network is linked to its router".to_owned()],
            _ => Vec::new(),
        },
        ..connect
    };
    connects.into_values().map(in_rows).collect()
}

/// Networks whose routers are linked to the router of a connect.
fn joined(topology: &Topology, connect: &str) -> BTreeSet<String> {
    let name = format!("connect {connect}");
    let places = &topology.places;
    let is_router =
        |place: usize| places[place].kind == PlaceKind::Connect && places[place].name == name;
    let others = topology.links.iter().filter_map(|(one, other)| {
        match (is_router(*one), is_router(*other)) {
            (true, false) => Some(*other),
            (false, true) => Some(*one),
            _ => None,
        }
    });
    others.map(|place| topology.network_name(place).to_owned()).collect()
}
