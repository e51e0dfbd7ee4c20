//! Allocations of attachment definitions that this cluster cannot have.

use std::collections::BTreeSet;

use patchbay_model::{DatapathKey, NETWORK_ID, NETWORK_NAME, NetworkId, TUNNEL_KEYS};
use patchbay_resources::manifests::{Inventory, ObjectKey};

use super::defined::DefinedNetwork;
use crate::networks::annotations::annotation;

/// Names, ids and tunnel keys in the annotations of refused definitions, such as those with an
/// error of their author. No other network gets them, because rows of the former network are still
/// there.
#[derive(Debug, Default)]
pub(super) struct RefusedNetworks {
    /// Names of networks that no other definition defines.
    pub(super) names: BTreeSet<String>,
    pub(super) ids: BTreeSet<NetworkId>,
    pub(super) keys: BTreeSet<DatapathKey>,
}

impl RefusedNetworks {
    /// Reads the annotations of refused definitions. `defined`: the networks of all others.
    pub(super) fn read(
        inventory: &Inventory,
        refused: &[ObjectKey],
        defined: &[DefinedNetwork],
    ) -> Self {
        let mut this = Self::default();
        let nads = &inventory.network_attachment_definitions;
        for nad in refused.iter().filter_map(|key| nads.get(key)) {
            let meta = &nad.object.metadata;
            let name = annotation(meta, NETWORK_NAME);
            if name.is_some_and(|name| defined.iter().any(|network| network.name == *name)) {
                continue;
            }
            this.names.extend(name.map(str::to_owned));
            let id = annotation(meta, NETWORK_ID).map(str::parse::<NetworkId>);
            this.ids.extend(id.and_then(Result::ok));
            let keys = annotation(meta, TUNNEL_KEYS)
                .and_then(|text| serde_json::from_str::<Vec<i64>>(text).ok())
                .into_iter()
                .flatten()
                .map(DatapathKey::try_new);
            this.keys.extend(keys.filter_map(Result::ok));
        }
        this
    }
}
