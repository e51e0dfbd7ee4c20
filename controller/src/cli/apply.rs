//! `apply`: once.

use std::collections::BTreeMap;

use super::args::{self, Manifests};
use super::resolve::load;
use super::run::{Console, Failure, Served, new_row_uuids, open, prepare};
use super::state::{folder, lock};
use super::watch::watch;
use crate::northbound::OneOf;
use crate::source::Inventory;
use crate::state::StateFolder;
use crate::zone::ZoneController;

/// Brings databases to what the manifests say, and prints what is there then.
pub(super) async fn apply(
    arguments: &args::Apply,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let manifests = &arguments.manifests;
    if arguments.watch {
        return watch(manifests, console).await;
    }
    let state = folder(manifests.state.as_ref(), &manifests.paths)?;
    let _lock = lock(state.as_ref(), console).await?;
    let inventory = load(&manifests.paths, console.input, state.as_ref())?;
    let mut databases = Databases::default();
    databases
        .apply(manifests, inventory, state.as_ref(), console)
        .await?;
    Ok(())
}

/// The databases of the zones, each with its controller.
#[derive(Default)]
pub(super) struct Databases(BTreeMap<String, (OneOf, ZoneController)>);

impl Databases {
    /// Brings the databases to what the objects say. Returns the objects, complete.
    pub(super) async fn apply(
        &mut self,
        manifests: &Manifests,
        inventory: Inventory,
        state: Option<&StateFolder>,
        console: &mut Console<'_>,
    ) -> Result<Inventory, Failure> {
        let (mut resolved, zones) = prepare(manifests, inventory, console)?;
        self.0.retain(|zone, _| zones.contains(zone));
        for (place, zone) in zones.iter().enumerate() {
            if !self.0.contains_key(zone) {
                let database = open(&manifests.nb, &manifests.keys, place).await?;
                let controller = ZoneController::new(new_row_uuids(&manifests.nb, place));
                self.0.insert(zone.clone(), (database, controller));
            }
        }
        // What was handed out must be kept before it is used.
        if let Some(folder) = state {
            folder.save(&resolved.inventory)?;
        }
        let mut served = Served::default();
        for zone in &zones {
            let Some((database, controller)) = self.0.get_mut(zone) else {
                continue;
            };
            served
                .bring(database, controller, zone, &resolved, console)
                .await?;
        }
        served.report(&mut resolved);
        // Whether or not it can be printed.
        if let Some(folder) = state {
            folder.save(&resolved.inventory)?;
        }
        served.print(&resolved, manifests.output, console)?;
        Ok(resolved.inventory)
    }
}
