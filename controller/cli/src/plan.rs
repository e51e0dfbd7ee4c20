//! `patchbay plan`: the changes that `apply` would make.

use patchbay_app::northbound::{Northbound as _, Rehearsal};
use patchbay_app::zone::ZoneControllers;
use patchbay_app::{Cluster, load};
use patchbay_resources::manifests::Inventory;
use serde::Serialize;

use super::args::{Database, Format, Manifests};
use super::changes::ZoneChanges;
use super::console::Console;
use super::databases::{new_row_uuids, now, open};
use super::failure::Failure;
use super::state::{folder, lock_to_read};
use super::zone_results::ZoneResults;

/// Prints what `apply` would change, and changes nothing. Returns whether there is nothing to do.
pub(super) async fn plan(
    arguments: &Manifests,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let inventory = load(&arguments.paths, console.input, state.as_ref())?;
    let (resolved, zones) = prepare(arguments, inventory, console)?;
    let mut all = Vec::with_capacity(zones.len());
    for (place, zone) in zones.iter().enumerate() {
        let original = open(&arguments.nb, &arguments.keys, place)
            .await?
            .snapshot();
        let rehearsal = Rehearsal::of(original).map_err(|error| Failure::DryRun {
            zone: zone.clone(),
            message: error.to_string(),
        });
        let mut rehearsal = rehearsal?;
        let uuids = new_row_uuids(&arguments.nb, place);
        let mut controllers = ZoneControllers::new(uuids);
        ZoneResults::default()
            .bring(&mut rehearsal, &mut controllers, zone, &resolved, console)
            .await?;
        all.push(ZoneChanges::of(zone, &rehearsal));
    }
    match arguments.output {
        Format::Text => {
            for changes in &all {
                write!(console.output, "{changes}")?;
            }
        }
        format => console.document(&Plan { zones: &all }, format)?,
    }
    Ok(all.iter().all(ZoneChanges::is_empty))
}

/// What `plan` prints as a document; zones are named as `apply` names them.
#[derive(Serialize)]
struct Plan<'a> {
    zones: &'a [ZoneChanges],
}

/// Completes the objects, prints warnings, and finds the zones.
pub(super) fn prepare(
    arguments: &Manifests,
    inventory: Inventory,
    console: &mut Console<'_>,
) -> Result<(Cluster, Vec<String>), Failure> {
    let settings = arguments.ranges.settings()?;
    let resolved = Cluster::new(inventory, settings, now())?;
    for warning in &resolved.warnings {
        console.warn(warning)?;
    }
    let zones = zones(arguments, resolved.zones())?;
    Ok((resolved, zones))
}

/// The zones of which there is a database.
fn zones(arguments: &Manifests, nodes: Vec<String>) -> Result<Vec<String>, Failure> {
    match &arguments.zone {
        Some(zone) if nodes.contains(zone) => Ok(vec![zone.clone()]),
        Some(zone) => Err(Failure::NoSuchZone {
            zone: zone.clone(),
            nodes,
        }),
        None if nodes.is_empty() => Err(Failure::NoNode),
        None if nodes.len() > 1 && arguments.nb != Database::Embedded => {
            Err(Failure::ZoneRequired(nodes))
        }
        None => Ok(nodes),
    }
}
