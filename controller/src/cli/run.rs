//! What `apply` and `plan` have in common, and `plan`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use patchbay_schemas::uuids::UuidSource;
use serde::Serialize;
use thiserror::Error;

use super::args::{Crds, Database, Format, Manifests};
use super::changes::ZoneChanges;
use super::document::{Document, Zone};
use super::keys::Keys;
use super::resolve::{Resolved, load};
use super::state::{folder, lock_to_read};
use super::text;
use super::zones::{ZoneError, ZoneOutcome, bring};
use crate::api::crd::{self, UnknownDefinition};
use crate::listing::listed;
use crate::northbound::{Embedded, Northbound, OneOf, OpenError, Rehearsal, Remote};
use crate::source::{Inventory, LoadError};
use crate::state::StateError;
use crate::zone::{ConnectReport, HeldReason, ZoneController};

/// Where a command reads and writes.
pub(super) struct Console<'a> {
    pub(super) input: &'a mut dyn Read,
    pub(super) output: &'a mut dyn Write,
    pub(super) errors: &'a mut dyn Write,
    /// What those who try again have told, and need not tell again; none if everything is told.
    pub(super) told: Option<BTreeSet<String>>,
    /// How many YAML documents there are already on the output.
    pub(super) documents: u64,
}

impl<'a> Console<'a> {
    pub(super) fn new(
        input: &'a mut dyn Read,
        output: &'a mut dyn Write,
        errors: &'a mut dyn Write,
    ) -> Self {
        Self {
            input,
            output,
            errors,
            told: None,
            documents: 0,
        }
    }
}

impl Console<'_> {
    pub(super) fn warn(&mut self, warning: &str) -> io::Result<()> {
        self.tell(format!("warning: {warning}"))
    }

    /// Says why a command failed: a line for each reason.
    pub(super) fn fail(&mut self, failure: &Failure) {
        for line in failure.to_string().lines() {
            // Nobody is left to tell if this fails.
            self.tell(format!("error: {line}")).unwrap_or_default();
        }
    }

    /// Writes a line to the standard error, unless it has been told.
    pub(super) fn tell(&mut self, line: String) -> io::Result<()> {
        if self.told.as_ref().is_some_and(|told| told.contains(&line)) {
            return Ok(());
        }
        writeln!(self.errors, "{line}")?;
        if let Some(told) = &mut self.told {
            told.insert(line);
        }
        Ok(())
    }

    /// Prints a document for programs.
    pub(super) fn document(
        &mut self,
        document: &impl Serialize,
        format: Format,
    ) -> Result<(), Failure> {
        if format == Format::Json {
            let text = serde_json::to_string_pretty(document).map_err(io::Error::other)?;
            return Ok(writeln!(self.output, "{text}")?);
        }
        if self.documents > 0 {
            writeln!(self.output, "---")?;
        }
        self.documents += 1;
        self.yaml(document)
    }

    /// Prints an object as a part of what people read.
    fn yaml(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let text = serde_saphyr::to_string(object).map_err(io::Error::other)?;
        Ok(self.output.write_all(text.as_bytes())?)
    }
}

/// How many names an error lists.
const NAMED: usize = 10;

/// Why a command failed.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("there is no node {zone}: the nodes are {}", listed(nodes, NAMED))]
    NoSuchZone { zone: String, nodes: Vec<String> },
    #[error("there is no ClusterNetworkConnect {name}{}", known_names(known))]
    NoSuchConnect { name: String, known: Vec<String> },
    #[error("there is no node, so there is no zone: manifests of kind Node are missing")]
    NoNode,
    #[error("--zone is required: a database belongs to one of the nodes {}", listed(.0, NAMED))]
    ZoneRequired(Vec<String>),
    #[error(transparent)]
    UnknownDefinition(#[from] UnknownDefinition),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("zone {zone}: {source}")]
    Zone { zone: String, source: ZoneError },
    #[error("zone {zone}: {obstacle}")]
    Gone { zone: String, obstacle: String },
    #[error("zone {zone}: cannot be rehearsed: {message}")]
    Rehearsal { zone: String, message: String },
    #[error("zone {zone}: cannot be printed: {message}")]
    Print { zone: String, message: String },
    #[error("cannot start an embedded database: {0}")]
    Embedded(String),
    #[error("cannot listen on {0}")]
    Listen(#[from] ovsdb_sim::RemoteError),
    #[error("cannot use the cluster: {0}")]
    Cluster(String),
    #[error("cannot use the cluster: {0}; outside of a pod, --kubeconfig FILE is required")]
    NotAPod(String),
    #[error("{0}")]
    Ended(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn known_names(names: &[String]) -> String {
    match names {
        [] => ", nor any other".to_owned(),
        [name] => format!(": there is {name}"),
        names => format!(": there are {}", listed(names, NAMED)),
    }
}

/// Prints definitions and admission policies.
pub(super) fn crds(arguments: &Crds, console: &mut Console<'_>) -> Result<(), Failure> {
    let policies = arguments
        .policies
        .then(|| crd::policies(&arguments.manager));
    let text = crd::manifests(&arguments.names, policies.as_ref().map_or(&[], |all| all))?;
    Ok(console.output.write_all(text.as_bytes())?)
}

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
        let rehearsal = Rehearsal::of(original).map_err(|error| Failure::Rehearsal {
            zone: zone.clone(),
            message: error.to_string(),
        });
        let mut rehearsal = rehearsal?;
        let uuids = new_row_uuids(&arguments.nb, place);
        let mut controller = ZoneController::new(uuids);
        Served::default()
            .bring(&mut rehearsal, &mut controller, zone, &resolved, console)
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
) -> Result<(Resolved, Vec<String>), Failure> {
    let settings = arguments.ranges.settings()?;
    let resolved = Resolved::new(inventory, settings, now())?;
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

/// The time of conditions that change in this run.
pub(super) fn now() -> Time {
    Time(Timestamp::now())
}

/// The database of the zone at this place among the zones: a server's, or an empty one.
pub(super) async fn open(database: &Database, keys: &Keys, place: usize) -> Result<OneOf, Failure> {
    Ok(match database {
        Database::Embedded => OneOf::Embedded(embedded(place)?),
        Database::Remote(remote) => OneOf::Remote(Remote::open(remote, keys.tls()).await?),
    })
}

/// UUIDs of new rows. In an embedded database runs on the same manifests give rows the same ones.
pub(super) fn new_row_uuids(database: &Database, place: usize) -> UuidSource {
    match database {
        Database::Embedded => embedded_uuids(place),
        Database::Remote(_) => UuidSource::random(),
    }
}

pub(super) fn embedded(place: usize) -> Result<Embedded, Failure> {
    Embedded::new(place as u64).map_err(|error| Failure::Embedded(error.to_string()))
}

pub(super) fn embedded_uuids(place: usize) -> UuidSource {
    UuidSource::seeded(place as u64)
}

/// What became of the zones so far.
#[derive(Default)]
pub(super) struct Served {
    reports: BTreeMap<String, BTreeMap<String, Arc<ConnectReport>>>,
    texts: Vec<String>,
    documents: Vec<Zone>,
}

impl Served {
    /// Brings the database of one zone to what the objects say.
    pub(super) async fn bring(
        &mut self,
        northbound: &mut impl Northbound,
        controller: &mut ZoneController,
        zone: &str,
        resolved: &Resolved,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let (inputs, rows) = (resolved.inputs(zone), resolved.network_rows(zone));
        let outcome = bring(northbound, controller, &inputs, &rows).await;
        let outcome = outcome.map_err(|source| Failure::Zone {
            zone: zone.to_owned(),
            source,
        })?;
        for skipped in &rows.skipped {
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
        let document = Zone::new(zone, &outcome, &rows, &snapshot);
        self.documents
            .push(document.map_err(|error| unprintable(error.to_string()))?);
        self.reports.insert(zone.to_owned(), outcome.reports);
        Ok(())
    }

    /// Puts what the zones report into the connects' status.
    pub(super) fn report(&self, resolved: &mut Resolved) {
        resolved.report(&self.reports);
    }

    /// Prints zones and connects.
    pub(super) fn print(
        self,
        resolved: &Resolved,
        format: Format,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let connects = resolved.connects().map(text::connect).collect();
        if format != Format::Text {
            let document = Document {
                connects,
                networks: resolved.network_statuses(),
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
