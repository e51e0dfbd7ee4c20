//! Output of `apply` and `demo`: the rows of each zone, and the objects that a cluster would write.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_connects::ConnectReport;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Northbound;
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};

use super::args::Format;
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
}

impl ApplyReport {
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
        self,
        cluster: &Cluster,
        format: Format,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let connects = cluster.connects().map(text::connect_status).collect();
        if format != Format::Text {
            let document = Document {
                connects,
                networks: text::network_statuses(cluster),
                zones: self.documents,
            };
            return console.document(&document, format);
        }
        for text in self.texts {
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
}
