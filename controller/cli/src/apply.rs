//! `apply`: once.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

use super::args::{self, Manifests};
use super::console::Console;
use super::databases::{new_row_uuids, open};
use super::failure::Failure;
use super::plan::prepare;
use super::state::{folder, lock};
use super::watch::watch;
use super::zone_results::ZoneResults;
use patchbay_app::northbound::OneOf;
use patchbay_app::zone::{ZoneControllers, is_done};
use patchbay_app::{Cluster, load};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::state::StateFolder;

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
    let mut applied = Applied::default();
    applied
        .apply(manifests, inventory, state.as_ref(), console)
        .await
}

/// The databases of the zones, and what they were brought to last.
#[derive(Default)]
pub(super) struct Applied {
    databases: BTreeMap<String, (OneOf, ZoneControllers)>,
    /// The objects, complete, since they were used first: whatever came of it.
    resolved: Option<Cluster>,
}

impl Applied {
    /// The objects, complete: state of the next run.
    pub(super) fn inventory(&self) -> Option<&Inventory> {
        self.resolved.as_ref().map(|resolved| &resolved.inventory)
    }

    /// Brings the databases to what the objects say, and prints what is there then.
    pub(super) async fn apply(
        &mut self,
        manifests: &Manifests,
        inventory: Inventory,
        state: Option<&StateFolder>,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let (resolved, zones) = prepare(manifests, inventory, console)?;
        self.databases.retain(|zone, _| zones.contains(zone));
        for (place, zone) in zones.iter().enumerate() {
            if !self.databases.contains_key(zone) {
                let database = open(&manifests.nb, &manifests.keys, place).await?;
                let controllers = ZoneControllers::new(new_row_uuids(&manifests.nb, place));
                self.databases.insert(zone.clone(), (database, controllers));
            }
        }
        // What was handed out must be kept before it is used.
        if let Some(folder) = state {
            folder.save(&resolved.inventory)?;
        }
        let resolved = self.resolved.insert(resolved);
        let mut served = ZoneResults::default();
        for zone in &zones {
            let Some((database, controllers)) = self.databases.get_mut(zone) else {
                continue;
            };
            live(zone, database).await?;
            served
                .bring(database, controllers, zone, resolved, console)
                .await?;
        }
        served.report(resolved);
        // Whether or not it can be printed.
        if let Some(folder) = state {
            folder.save(&resolved.inventory)?;
        }
        served.print(resolved, manifests.output, console)
    }

    /// Whether the databases are still what they were brought to.
    pub(super) async fn is_there(&mut self) -> Result<bool, Failure> {
        let Some(resolved) = &self.resolved else {
            return Ok(false);
        };
        for (zone, (database, controllers)) in &mut self.databases {
            live(zone, database).await?;
            let (inputs, networks) = (resolved.inputs(zone), resolved.zone_networks(zone));
            if !is_done(database, controllers, &inputs, &networks) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until a database is there again after a time in which nobody knows what has happened to it.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn resynced(&mut self) {
        let mut databases: Vec<_> = self
            .databases
            .values_mut()
            .map(|(database, _)| Box::pin(database.resynced()))
            .collect();
        // Of any of them.
        poll_fn(|context| {
            let mut polls = databases.iter_mut();
            if polls.any(|database| database.as_mut().poll(context).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Waits until the database shows what is in it: plans for what once was there may find nothing to do.
async fn live(zone: &str, database: &OneOf) -> Result<(), Failure> {
    let live = database.live().await;
    live.map_err(|obstacle| Failure::Unreachable {
        zone: zone.to_owned(),
        obstacle,
    })
}
