//! `patchbay plan`: what `apply` would do.

use std::collections::BTreeMap;
use std::io::{self, Write};

use patchbay_changes::{Changes, Counts, Object, Snapshots, differing_rows};
use patchbay_model::printable::printable;
use patchbay_reconcile::load;
use patchbay_reconcile::northbound::{DryRun, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::settings::ClusterFamily;
use patchbay_schemas::nb;
use serde::Serialize;

use super::applied::{AppliedObjects, record_folder};
use super::args::{self, Database, Format};
use super::changes::{
    API_VERSION, ObjectDocument, connect_description, counts_text, documents, network_descriptions,
    write_changes, zone_count,
};
use super::colours::Colours;
use super::console::Console;
use super::failure::Failure;
use super::kept::{KeptObject, merge, with_objects};
use super::lines::wrapped;
use super::state::{folder, lock_to_read};
use super::zone_changes::ZoneChanges;
use super::zones::{
    check_length, complete_cluster, leave_to_exit, open_zone, reconcile_zone, row_uuids,
};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 2_000;
/// Maximum number of objects with kept rows that are named.
const MAX_KEPT: usize = 10;
/// Maximum number of zones whose rows are left to the exit of the command. The memory of further
/// ones is freed, because it is much.
const MAX_LEFT_ZONES: usize = 10;

/// What would happen to rows that come, change and go.
const PLANNED: [&str; 3] = ["to insert", "to change", "to delete"];

/// What `apply` would do.
struct Planned {
    is_unchanged: bool,
    changes: Changes,
    known: BTreeMap<Object, String>,
    /// Rows that stay although nothing wants them.
    kept: BTreeMap<String, KeptObject>,
    /// Rows by zone, for a document and a text of rows.
    zones: Vec<ZoneChanges>,
}

/// The document of `plan -o json` and `plan -o yaml`. Zones have the names that `apply` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanDocument<'a> {
    api_version: &'static str,
    kind: &'static str,
    counts: Counts,
    families: Vec<Family<'a>>,
    objects: Vec<ObjectDocument<'a>>,
    zones: &'a [ZoneChanges],
}

/// IP family of the cluster.
#[derive(Serialize)]
struct Family<'a> {
    family: String,
    reason: &'a str,
}

/// Prints what `apply` would do, and changes nothing. Returns `true` if that is nothing.
pub(super) async fn plan(
    arguments: &args::Plan,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let manifests = &arguments.manifests;
    let table = arguments.table.as_deref().map(table_name).transpose()?;
    let is_text = manifests.output == Format::Text;
    let has_rows = arguments.rows || table.is_some() || !is_text;
    let state = folder(manifests.state.as_ref(), &manifests.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let inventory = load(
        &manifests.paths,
        console.input,
        state.as_ref(),
        manifests.input.manifest_limit.bytes(),
    )?;
    let families = manifests.input.cluster.families(&inventory)?;
    let (cluster, names) = complete_cluster(manifests, inventory, console)?;
    if has_rows {
        check_length(manifests, &names)?;
    }
    let mut planned = Planned {
        is_unchanged: true,
        changes: Changes::default(),
        known: network_descriptions(&cluster),
        kept: BTreeMap::new(),
        zones: Vec::new(),
    };
    let mut reconciled = Vec::new();
    console.begin("planning", "zone", names.len());
    for (index, name) in names.iter().enumerate() {
        let (keys, limit) = (&manifests.input.keys, manifests.input.limit);
        let zone = open_zone(name, index, &manifests.nb, (keys, limit), console).await?;
        let dry_run = DryRun::new(zone.northbound().snapshot());
        let mut zone = ZoneReconciler::new(name, dry_run, row_uuids(&manifests.nb, index));
        let records = record_folder(state.as_ref(), &manifests.nb);
        let applied = AppliedObjects::default().before(name, records)?;
        zone.set_recorded(Some(applied.clone()));
        let mut outcome = reconcile_zone(&mut zone, &cluster, console).await?;
        if manifests.prune && !outcome.kept.is_empty() {
            zone.set_recorded(Some(with_objects(&applied, &outcome.kept)));
            outcome = reconcile_zone(&mut zone, &cluster, console).await?;
        }
        let after = zone.northbound().snapshot();
        let snapshots = Snapshots { before: zone.northbound().original(), after: &after };
        let changes = differing_rows(snapshots);
        planned.is_unchanged &= changes.is_empty();
        if !(is_text && has_rows) {
            planned.changes.add_zone(name, snapshots, &changes);
            let connects = outcome.reports.iter();
            let described = connects.filter_map(|(name, report)| connect_description(name, report));
            planned.known.extend(described);
        }
        if has_rows {
            planned.zones.push(ZoneChanges::new(
                name,
                snapshots,
                &changes,
                table.as_deref(),
                &outcome.kept,
            ));
        }
        merge(&mut planned.kept, &outcome.kept);
        if names.len() <= MAX_LEFT_ZONES {
            reconciled.push((zone, changes));
        }
        console.step()?;
    }
    console.end()?;
    let refused = cluster.inventory.refused.len();
    leave_to_exit((cluster, reconciled));
    let colours = console.output_colours;
    let line = family_line(&families);
    match manifests.output {
        Format::Text if has_rows => {
            writeln!(console.output, "# {}", printable(&line, MAX_LINE_BYTES))?;
            for changes in &planned.zones {
                console.write_long(|output| changes.write(output, PLANNED))?;
            }
        }
        Format::Text => {
            let is_empty = manifests.nb == Database::Embedded;
            console.write_long(|output| {
                writeln!(output, "{}", wrapped(&printable(&line, MAX_LINE_BYTES), "    "))?;
                planned.write(output, is_empty, colours)
            })?;
        }
        format => {
            let document = PlanDocument {
                api_version: API_VERSION,
                kind: "Plan",
                counts: planned.changes.counts(),
                families: families.iter().map(Family::from).collect(),
                objects: documents(&planned.changes, &planned.known),
                zones: &planned.zones,
            };
            console.document(&document, format)?;
        }
    }
    if refused > 0 {
        return Err(Failure::Refused { count: refused });
    }
    Ok(planned.is_unchanged)
}

impl Planned {
    /// Writes the objects, the rows that stay, and the numbers. `is_empty`: the databases are
    /// embedded ones without rows.
    fn write(&self, output: &mut dyn Write, is_empty: bool, colours: Colours) -> io::Result<()> {
        writeln!(output)?;
        if !self.changes.is_empty() {
            write_changes(output, &self.changes, &self.known, colours)?;
            writeln!(output)?;
        }
        for object in self.kept.values().take(MAX_KEPT) {
            let text = object.to_string();
            writeln!(output, "= kept: {}", printable(&text, MAX_LINE_BYTES))?;
        }
        if let Some(more @ 1..) = self.kept.len().checked_sub(MAX_KEPT) {
            writeln!(output, "= kept: rows of {more} more objects")?;
        }
        if !self.kept.is_empty() {
            writeln!(
                output,
                "The manifests do not name these objects; --prune deletes their rows.\n"
            )?;
        }
        let zones = zone_count(self.changes.zones().len());
        if self.changes.is_empty() {
            return writeln!(output, "Plan: no changes on {zones}");
        }
        let counts = counts_text(self.changes.counts(), ["to add", "to change", "to delete"]);
        writeln!(output, "Plan: {counts} on {zones}")?;
        if is_empty {
            writeln!(output, "Compared with empty databases: --nb names the one of a zone.")?;
        }
        Ok(())
    }
}

/// The name of a table, in whatever case it is given.
pub(super) fn table_name(name: &str) -> Result<String, Failure> {
    let schema = nb::schema();
    let names: Vec<&str> = schema.table_ids().map(|table| &*schema.table(table).name).collect();
    let found = names.iter().find(|known| known.eq_ignore_ascii_case(name));
    found.map(|known| (*known).to_owned()).ok_or_else(|| {
        Failure::Arguments(format!("no table {name}; the tables are {}", names.join(", ")))
    })
}

/// The IP families of the cluster with their reasons. A reason that they share comes once.
fn family_line(families: &[ClusterFamily]) -> String {
    let groups = families.chunk_by(|one, other| one.reason == other.reason).map(|group| {
        let names: Vec<String> = group.iter().map(|one| format!("IP{}", one.family)).collect();
        format!("{} ({})", names.join(", "), group[0].reason)
    });
    format!("IP families: {}", groups.collect::<Vec<_>>().join(", "))
}

impl<'a> From<&'a ClusterFamily> for Family<'a> {
    fn from(ClusterFamily { family, reason }: &'a ClusterFamily) -> Self {
        Self { family: format!("IP{family}"), reason }
    }
}
