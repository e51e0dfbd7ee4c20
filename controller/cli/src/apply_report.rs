//! Output of `apply` and `demo`: the rows of each zone, and the objects that a cluster would write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patchbay_changes::{ChangeKind, Changes, Counts, Object, Snapshots, differing_rows};
use patchbay_connects::ConnectReport;
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Northbound;
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};

use super::args::Format;
use super::changes::{
    connect_description, counts_text, network_descriptions, write_changes, zone_count,
};
use super::console::Console;
use super::document::{Document, Zone};
use super::failure::Failure;
use super::routers::RoutersByName;
use super::text;

/// Rows and reports of the zones that were reconciled.
#[derive(Default)]
pub(super) struct ApplyReport {
    reports: BTreeMap<String, BTreeMap<String, Arc<ConnectReport>>>,
    texts: Vec<String>,
    documents: Vec<Zone>,
    /// Changes by object, of zones that are watched.
    changes: Changes,
    known: BTreeMap<Object, String>,
    /// Numbers of changed rows.
    counts: Counts,
    zone_count: usize,
    is_watched: bool,
}

impl ApplyReport {
    /// The report of a cluster whose zones are watched.
    pub(super) fn watched(cluster: &Cluster) -> Self {
        Self { known: network_descriptions(cluster), is_watched: true, ..Self::default() }
    }

    /// Adds the rows that a pass has changed. `before`: the rows before it.
    pub(super) fn add_changes(
        &mut self,
        zone: &ZoneReconciler<impl Northbound>,
        before: &Snapshot,
        outcome: &ZoneOutcome,
    ) {
        let after = zone.northbound().snapshot();
        let snapshots = Snapshots { before, after: &after };
        let rows = differing_rows(snapshots);
        self.zone_count += 1;
        for row in &rows {
            self.counts.add_row(ChangeKind::of(row));
        }
        if self.is_watched {
            self.changes.add_zone(zone.zone(), snapshots, &rows);
            let connects = outcome.reports.iter();
            self.known
                .extend(connects.filter_map(|(name, report)| connect_description(name, report)));
        }
    }

    /// Adds a zone after a pass: its rows as text and as a document, and its reports.
    ///
    /// # Errors
    /// A row of the database cannot be decoded or printed.
    pub(super) fn add_zone(
        &mut self,
        zone: &ZoneReconciler<impl Northbound>,
        outcome: ZoneOutcome,
    ) -> Result<(), Failure> {
        let name = zone.zone();
        let unprintable = |message: String| Failure::Print { zone: name.to_owned(), message };
        let snapshot = zone.northbound().snapshot();
        let routers = RoutersByName::new(&snapshot);
        let text = text::render_zone(name, &outcome, &routers)
            .map_err(|error| unprintable(error.to_string()))?;
        let document =
            Zone::new(name, &outcome, &routers).map_err(|error| unprintable(error.to_string()))?;
        self.texts.push(text);
        self.documents.push(document);
        self.reports.insert(name.to_owned(), outcome.reports);
        Ok(())
    }

    /// Sets the condition `Connected` of the connects from the reports of the zones.
    pub(super) fn set_connected_conditions(&self, cluster: &mut Cluster) {
        cluster.set_connected_conditions(&self.reports);
    }

    /// Prints the zones and the connects.
    ///
    /// # Errors
    /// The console cannot be written.
    pub(super) fn print(
        &mut self,
        cluster: &Cluster,
        format: Format,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        if self.is_watched && format == Format::Text {
            let colours = console.output_colours;
            return Ok(console.write_long(|output| {
                write_changes(output, &self.changes, &self.known, colours)?;
                if self.changes.is_empty() { Ok(()) } else { writeln!(output) }
            })?);
        }
        let connects = cluster.connects().map(text::connect_status).collect();
        if format != Format::Text {
            let document = Document {
                connects,
                networks: text::network_statuses(cluster),
                zones: std::mem::take(&mut self.documents),
            };
            return console.document(&document, format);
        }
        for text in &self.texts {
            writeln!(console.output, "{text}")?;
        }
        for (index, connect) in connects.iter().enumerate() {
            if index > 0 {
                writeln!(console.output, "---")?;
            }
            console.yaml(connect)?;
        }
        Ok(())
    }
    /// Prints the numbers of changed rows. `is_kept`: databases keep them.
    ///
    /// # Errors
    /// The console cannot be written.
    pub(super) fn print_summary(
        &self,
        taken: Duration,
        is_kept: bool,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let counts = counts_text(self.counts, ["added", "changed", "deleted"]);
        let (zones, taken) = (zone_count(self.zone_count), taken.as_millis());
        if !self.is_watched {
            writeln!(console.output)?;
        }
        writeln!(console.output, "{counts} on {zones}, {taken} ms")?;
        if !is_kept {
            writeln!(console.output, "No database keeps the rows: --nb names the one of a zone.")?;
        }
        Ok(())
    }
}
