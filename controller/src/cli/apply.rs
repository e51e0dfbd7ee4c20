//! `apply`: once, or whenever files change.

use std::collections::BTreeMap;

use super::args::{self, Manifests};
use super::files::Changes;
use super::resolve::load;
use super::run::{Console, Failure, Served, new_row_uuids, open, prepare};
use crate::northbound::OneOf;
use crate::source::{Inventory, read_manifests};
use crate::state::{StateFolder, restore};
use crate::zone::ZoneController;

/// Brings databases to what the manifests say, and prints what is there then.
pub(super) async fn apply(
    arguments: &args::Apply,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let manifests = &arguments.manifests;
    let mut databases = Databases::default();
    if arguments.watch {
        return watch(manifests, &mut databases, console).await;
    }
    let state = manifests.state.as_ref().map(StateFolder::new);
    let _lock = state.as_ref().map(StateFolder::lock).transpose()?;
    let inventory = load(&manifests.paths, console.input, state.as_ref())?;
    databases
        .apply(manifests, inventory, state.as_ref(), console)
        .await?;
    Ok(())
}

/// Applies the manifests whenever they change, until the process is told to stop.
async fn watch(
    manifests: &Manifests,
    databases: &mut Databases,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    if manifests.paths.iter().any(|path| path.as_os_str() == "-") {
        let message = "--watch is for files and folders: standard input does not change";
        return Err(Failure::Arguments(message.to_owned()));
    }
    let mut changes = Changes::of(&manifests.paths)?;
    let mut last = Last::default();
    loop {
        let wait_for_database = match last.apply(manifests, databases, console).await {
            Ok(()) => false,
            Err(failure) => {
                console.fail(&failure);
                writeln!(
                    console.errors,
                    "what was applied stays; waiting for the files to change"
                )?;
                matches!(failure, Failure::Open(_) | Failure::Zone { .. })
            }
        };
        console.output.flush()?;
        if !changes.next(wait_for_database).await? {
            return Ok(());
        }
    }
}

/// What was applied last.
#[derive(Default)]
struct Last {
    /// The manifests, as they were read.
    read: Option<Inventory>,
    /// The objects, completed: state of the next run.
    complete: Inventory,
}

impl Last {
    /// Reads the manifests, and applies them if they are not what was applied last.
    async fn apply(
        &mut self,
        manifests: &Manifests,
        databases: &mut Databases,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let read = read_manifests(&manifests.paths, console.input)?;
        if self.read.as_ref() == Some(&read) {
            return Ok(());
        }
        let mut inventory = read.clone();
        let state = manifests.state.as_ref().map(StateFolder::new);
        let _lock = state.as_ref().map(StateFolder::lock).transpose()?;
        match &state {
            Some(folder) => restore(&mut inventory, &folder.load()?)?,
            None => restore(&mut inventory, &self.complete)?,
        }
        self.complete = databases
            .apply(manifests, inventory, state.as_ref(), console)
            .await?;
        self.read = Some(read);
        Ok(())
    }
}

/// The databases of the zones, each with its controller.
#[derive(Default)]
struct Databases(BTreeMap<String, (OneOf, ZoneController)>);

impl Databases {
    /// Brings the databases to what the objects say. Returns the objects, complete.
    async fn apply(
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
