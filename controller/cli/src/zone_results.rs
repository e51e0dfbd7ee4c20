//! Results of reconciling zones, printed as text or as a document.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_app::Cluster;
use patchbay_app::northbound::Northbound;
use patchbay_app::zone::{ZoneControllers, ZoneOutcome, bring};
use patchbay_connects::{ConnectReport, HeldReason};

use super::args::Format;
use super::console::Console;
use super::document::{Document, Zone};
use super::failure::Failure;
use super::text;

/// What became of the zones so far.
#[derive(Default)]
pub(super) struct ZoneResults {
    reports: BTreeMap<String, BTreeMap<String, Arc<ConnectReport>>>,
    texts: Vec<String>,
    documents: Vec<Zone>,
}

impl ZoneResults {
    /// Brings the database of one zone to what the objects say.
    pub(super) async fn bring(
        &mut self,
        northbound: &mut impl Northbound,
        controllers: &mut ZoneControllers,
        zone: &str,
        resolved: &Cluster,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let (inputs, networks) = (resolved.inputs(zone), resolved.zone_networks(zone));
        let outcome = bring(northbound, controllers, &inputs, &networks).await;
        let outcome = outcome.map_err(|source| Failure::Zone {
            zone: zone.to_owned(),
            source,
        })?;
        let skipped_networks = networks.skipped();
        for skipped in &skipped_networks {
            console.warn(&format!(
                "zone {zone}: network {}: {}",
                skipped.network, skipped.reason
            ))?;
        }
        for warning in messages(&outcome) {
            console.warn(&format!("zone {zone}: {warning}"))?;
        }
        let unprintable = |message: String| Failure::Print {
            zone: zone.to_owned(),
            message,
        };
        let snapshot = northbound.snapshot();
        let text = text::zone(zone, &outcome, &snapshot);
        self.texts
            .push(text.map_err(|error| unprintable(error.to_string()))?);
        let document = Zone::new(zone, &outcome, &skipped_networks, &snapshot);
        self.documents
            .push(document.map_err(|error| unprintable(error.to_string()))?);
        self.reports.insert(zone.to_owned(), outcome.reports);
        Ok(())
    }

    /// Puts what the zones report into the connects' status.
    pub(super) fn report(&self, resolved: &mut Cluster) {
        resolved.report(&self.reports);
    }

    /// Prints zones and connects.
    pub(super) fn print(
        self,
        resolved: &Cluster,
        format: Format,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let connects = resolved.connects().map(text::connect).collect();
        if format != Format::Text {
            let document = Document {
                connects,
                networks: text::networks(resolved),
                zones: self.documents,
            };
            return console.document(&document, format);
        }
        for text in self.texts {
            writeln!(console.output, "{text}")?;
        }
        for (place, connect) in connects.iter().enumerate() {
            if place > 0 {
                writeln!(console.output, "---")?;
            }
            console.yaml(connect)?;
        }
        Ok(())
    }
}

/// What a zone has to say, connect by connect.
fn messages(outcome: &ZoneOutcome) -> impl Iterator<Item = String> {
    let reports = outcome.reports.iter();
    // Why a connect has got no key has been told, once for all zones.
    let reports =
        reports.filter(|(_, report)| !matches!(report.held, Some(HeldReason::NoTunnelKey)));
    let reports = reports.flat_map(|(connect, report)| {
        let messages = report.messages().into_iter();
        messages.map(move |message| format!("ClusterNetworkConnect {connect}: {message}"))
    });
    outcome.warnings.iter().cloned().chain(reports)
}
