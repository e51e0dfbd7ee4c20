//! Connects of a scenario of networks, and the rows that they want.

use std::sync::Arc;

use patchbay_connects::{Activity, Inputs, ZoneController};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_model::{NetworkActivity, Networks};
use patchbay_resources::conversion;
use patchbay_resources::object::Object as _;

use super::world::World;

impl World {
    /// Inputs of the connects' controller. `activity`: nodes on which networks are rendered; `None`:
    /// all.
    pub(super) fn connect_inputs(
        &self,
        networks: Networks,
        activity: Option<&NetworkActivity>,
    ) -> Result<Inputs, String> {
        let nodes = self.objects.node_objects()?;
        let nodes = nodes.iter().map(|node| conversion::node(node).0);
        let limited = activity.into_iter().flat_map(NetworkActivity::users);
        let limited = limited.map(|(network, nodes)| {
            let nodes = nodes.map(ToString::to_string);
            (network.to_string(), nodes.collect())
        });
        let services = self.objects.services()?;
        let connects = self.objects.connects()?;
        Ok(Inputs {
            zone: self.node.clone(),
            families: self.settings.families.clone(),
            service_cidrs: self.settings.service_cidrs.clone(),
            nodes: nodes
                .map(|node| (node.name.clone(), Arc::new(node)))
                .collect(),
            networks: Arc::new(networks),
            activity: Arc::new(Activity {
                limited: limited.collect(),
            }),
            services: services.iter().filter_map(conversion::service).collect(),
            connects: connects
                .iter()
                .map(|object| {
                    let input = conversion::connect_input(object);
                    (object.name_any(), Arc::new(input))
                })
                .collect(),
        })
    }
}

/// The first transaction that a connect wants.
pub(super) fn plan(
    controller: &mut ZoneController,
    inputs: &Inputs,
    snapshot: &Snapshot,
) -> Result<Option<Transaction>, String> {
    for connect in controller.plan(inputs, snapshot).connects {
        let change = connect.change.map_err(|error| error.to_string())?;
        if change.transaction.is_some() {
            return Ok(change.transaction);
        }
    }
    Ok(None)
}
