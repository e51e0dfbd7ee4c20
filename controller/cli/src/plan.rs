//! `patchbay plan`: the rows that `apply` would change.

use patchbay_model::printable::printable;
use patchbay_reconcile::load;
use patchbay_reconcile::northbound::{DryRun, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::settings::ClusterFamily;
use serde::Serialize;

use super::applied::{AppliedObjects, record_folder};
use super::args::{Format, Manifests};
use super::console::Console;
use super::failure::Failure;
use super::kept::with_objects;
use super::state::{folder, lock_to_read};
use super::zone_changes::ZoneChanges;
use super::zones::{complete_cluster, leave_to_exit, open_zone, reconcile_zone, row_uuids};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 2_000;

/// Prints the rows that `apply` would change, and changes nothing. Returns `true` if there are
/// none.
pub(super) async fn plan(
    arguments: &Manifests,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let inventory = load(
        &arguments.paths,
        console.input,
        state.as_ref(),
        arguments.input.manifest_limit.bytes(),
    )?;
    let families = arguments.input.cluster.families(&inventory)?;
    let (cluster, names) = complete_cluster(arguments, inventory, console)?;
    let mut zones = Vec::with_capacity(names.len());
    let mut reconciled = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let (keys, limit) = (&arguments.input.keys, arguments.input.limit);
        let zone = open_zone(name, index, &arguments.nb, (keys, limit), console).await?;
        let dry_run = DryRun::new(zone.northbound().snapshot());
        let mut zone = ZoneReconciler::new(name, dry_run, row_uuids(&arguments.nb, index));
        let records = record_folder(state.as_ref(), &arguments.nb);
        let applied = AppliedObjects::default().before(name, records)?;
        zone.set_recorded(Some(applied.clone()));
        let mut outcome = reconcile_zone(&mut zone, &cluster, console).await?;
        if arguments.prune && !outcome.kept.is_empty() {
            zone.set_recorded(Some(with_objects(&applied, &outcome.kept)));
            outcome = reconcile_zone(&mut zone, &cluster, console).await?;
        }
        zones.push(ZoneChanges::new(name, zone.northbound(), &outcome.kept));
        reconciled.push(zone);
    }
    let refused = cluster.inventory.refused.len();
    leave_to_exit((cluster, reconciled));
    match arguments.output {
        Format::Text => {
            let line = family_line(&families);
            writeln!(console.output, "{}", printable(&line, MAX_LINE_BYTES))?;
            for changes in &zones {
                console.write_long(|output| write!(output, "{changes}"))?;
            }
        }
        format => {
            let families = families.iter().map(Family::from).collect();
            let zones = &zones;
            console.document(&PlanDocument { families, zones }, format)?;
        }
    }
    if refused > 0 {
        return Err(Failure::Refused { count: refused });
    }
    Ok(zones.iter().all(ZoneChanges::is_empty))
}

/// The IP families of the cluster with their reasons. A reason that they share comes once.
fn family_line(families: &[ClusterFamily]) -> String {
    let groups = families.chunk_by(|one, other| one.reason == other.reason).map(|group| {
        let names: Vec<String> = group.iter().map(|one| format!("IP{}", one.family)).collect();
        format!("{} ({})", names.join(", "), group[0].reason)
    });
    format!("# IP families: {}", groups.collect::<Vec<_>>().join(", "))
}

/// The document of `plan -o json` and `plan -o yaml`. Zones have the names that `apply` prints.
#[derive(Serialize)]
struct PlanDocument<'a> {
    families: Vec<Family<'a>>,
    zones: &'a [ZoneChanges],
}

/// IP family of the cluster.
#[derive(Serialize)]
struct Family<'a> {
    family: String,
    reason: &'a str,
}

impl<'a> From<&'a ClusterFamily> for Family<'a> {
    fn from(ClusterFamily { family, reason }: &'a ClusterFamily) -> Self {
        Self { family: format!("IP{family}"), reason }
    }
}
