//! Page about the Northbound databases of a cluster, in one file that loads nothing: the topology,
//! which networks and pods reach each other with path and row, connects, findings, and what differs
//! from an earlier state.
//!
//! ```text
//! snapshots of zones -> Topology   picture
//!                    -> Zones      -> Pairs    verdict, path and decisions of each pair
//!                    -> lint_rows  -> findings
//! manifests, rows    -> connects with state, reason and capacity
//!                    -> Report -> page()       HTML with the data as JSON, which its script shows
//! ```
//!
//! Names of databases get into the page as data only: the script sets them as text, and the JSON has
//! no character that ends an element.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use patchbay_engine::db::Database;
//! use patchbay_reach::{Course, Northbound, Protocol, RowRef, Zones};
//! use patchbay_report::{Report, Words};
//! use patchbay_schemas::nb;
//!
//! struct Plain;
//!
//! impl Words for Plain {
//!     fn outcome(&self, course: &Course) -> String {
//!         course.last().at.clone()
//!     }
//!
//!     fn owner(&self, _: (&str, RowRef)) -> Option<String> {
//!         None
//!     }
//! }
//!
//! let rows = Database::new(nb::schema()).snapshot();
//! let zones = Zones::new("node-1", Northbound::new(&rows, None));
//! let rows = BTreeMap::from([("node-1".to_owned(), rows)]);
//! let report = Report::new("nb.db", (&zones, &rows), Vec::new(), Protocol::Icmp, &Plain);
//! assert!(report.page()?.starts_with("<!DOCTYPE html>"));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod connects;
mod page;
mod pairs;

pub use connects::Connect;
pub use pairs::{MAX_ASKED, MAX_DETAILED, Pairs};

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_graph::Topology;
use patchbay_lint::{Finding, Findings, Severity};
use patchbay_reach::{Change, Changed, Difference, Protocol, RowRef, Zones};
use patchbay_schemas::nb::{Acl, LoadBalancer, LogicalRouter, LogicalSwitch, LogicalSwitchPort};
use serde::Serialize;

/// Number of places above which each network is one place of the picture.
const MAX_PLACES: usize = 80;
/// Number of machines up to which all of their pairs are asked.
const MAX_MACHINES: usize = 60;
/// Number of findings that the page has. Further ones are counted.
const MAX_FINDINGS: usize = 2_000;
/// Number of differences that the page has, likewise.
const MAX_CHANGES: usize = 2_000;
/// Number of names of a difference.
const MAX_NAMES: usize = 20;

/// Words of the caller for what the databases have.
pub trait Words {
    /// The outcome of a packet in a line.
    fn outcome(&self, course: &patchbay_reach::Course) -> String;

    /// The object for which a row of a zone exists. `None`: it names none.
    fn owner(&self, row: (&str, RowRef)) -> Option<String>;
}

/// Source of the contents.
#[derive(Clone, Debug, Serialize)]
pub struct ReportSource {
    /// Remote, file or archive.
    pub name: String,
    /// Time of the content, as in RFC 3339. `None`: it is not known.
    pub time: Option<String>,
}

/// Contents of a page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    title: String,
    sources: Vec<ReportSource>,
    /// Numbers of what there is, each with its noun.
    facts: Vec<(usize, String)>,
    connects: Vec<Connect>,
    pairs: Vec<Pairs>,
    findings: Vec<ShownFinding>,
    findings_left_out: usize,
    differences: Option<Differences>,
    #[serde(skip)]
    topology: Topology,
}

/// Finding of a rule about rows.
#[derive(Debug, Serialize)]
struct ShownFinding {
    rule: &'static str,
    severity: Severity,
    object: String,
    message: String,
    repair: String,
}

/// Ways that differ from those of an earlier state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Differences {
    before: String,
    come: Vec<String>,
    go: Vec<String>,
    changes: Vec<ShownChange>,
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct ShownChange {
    change: &'static str,
    from: String,
    to: String,
    protocols: String,
    /// Packet of the first pair before, and after.
    before: String,
    after: String,
    by: Option<String>,
}

impl Report {
    /// Reads databases: their index, and the rows of each zone. `title`: the sources in a line.
    /// `connects`: those of manifests, or empty for those of the rows.
    ///
    /// Asks one question for each pair of at most 500 networks, and of machines if there are at most 60.
    pub fn new(
        title: impl Into<String>,
        (zones, snapshots): (&Zones, &BTreeMap<String, Snapshot>),
        connects: Vec<Connect>,
        protocol: Protocol,
        words: &impl Words,
    ) -> Self {
        let named = snapshots.iter().map(|(zone, snapshot)| (zone.as_str(), snapshot));
        let devices = Topology::new(named);
        let is_large = devices.places.len() > MAX_PLACES;
        let topology = if is_large { devices.networks() } else { devices };
        let connects =
            if connects.is_empty() { connects::of_rows(&topology, snapshots) } else { connects };
        let networks = zones.network_pairs();
        let machines = zones.machine_pairs();
        let facts = facts(snapshots, networks.names().len(), machines.names().len());
        let mut pairs = vec![Pairs::new("networks", &networks, protocol, &topology, words)];
        if (2..=MAX_MACHINES).contains(&machines.names().len()) {
            pairs.push(Pairs::new("machines", &machines, protocol, &topology, words));
        }
        let findings = findings(snapshots);
        let left_out = findings.findings.len().saturating_sub(MAX_FINDINGS)
            + findings.omitted.values().map(|(_, count)| count).sum::<usize>();
        Self {
            title: title.into(),
            sources: Vec::new(),
            facts,
            connects,
            pairs,
            findings: findings.findings.into_iter().take(MAX_FINDINGS).map(shown).collect(),
            findings_left_out: left_out,
            differences: None,
            topology,
        }
    }

    /// Names the sources with their times. The page shows their age at the time of reading.
    pub fn set_sources(&mut self, sources: Vec<ReportSource>) {
        self.sources = sources;
    }

    /// Adds what differs from an earlier state, which is named. `words`: those of both states, the
    /// earlier one first, because their databases may give different rows one UUID.
    pub fn set_difference<W: Words>(
        &mut self,
        before: &str,
        difference: &Difference,
        words: [&W; 2],
    ) {
        let changes = difference.changes.iter().take(MAX_CHANGES);
        self.differences = Some(Differences {
            before: before.to_owned(),
            come: difference.added.clone(),
            go: difference.removed.clone(),
            changes: changes.map(|change| ShownChange::new(change, words)).collect(),
            left_out: difference.changes.len().saturating_sub(MAX_CHANGES),
        });
    }

    /// Numbers of what the page has, in a line.
    pub fn summary(&self) -> String {
        let facts = self.facts.iter().take(3).map(|(count, noun)| format!("{count} {noun}"));
        let findings = self.findings.len() + self.findings_left_out;
        let plural = if findings == 1 { "" } else { "s" };
        let parts = facts.chain([format!("{findings} finding{plural}")]);
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The page. Equal contents give equal bytes.
    ///
    /// # Errors
    /// The contents have no form in JSON.
    pub fn page(&self) -> serde_json::Result<String> {
        page::write(self, None)
    }

    /// The page of a server. It listens to the server-sent events of `events` beside it, and loads
    /// itself again when they name another version.
    ///
    /// # Errors
    /// As [`Report::page`].
    pub fn live_page(&self, version: u64) -> serde_json::Result<String> {
        page::write(self, Some(version))
    }
}

impl ShownChange {
    fn new<W: Words>(change: &Change, [before, after]: [&W; 2]) -> Self {
        let outcome = |course: Option<&patchbay_reach::Course>, words: &W| {
            course.map_or_else(|| "cannot be sent".to_owned(), |course| words.outcome(course))
        };
        let closed = match change.change {
            Changed::Opens => before,
            Changed::Closes => after,
        };
        let protocols = change.protocols.iter().take(MAX_NAMES).map(ToString::to_string);
        let by = change.stopping_row();
        Self {
            change: change.change.as_str(),
            from: listed(&change.from),
            to: listed(&change.to),
            protocols: protocols.collect::<Vec<_>>().join(", "),
            before: outcome(change.before.as_ref(), before),
            after: outcome(change.after.as_ref(), after),
            by: by.map(|row| closed.owner(row).unwrap_or_else(|| row.1.to_string())),
        }
    }
}

/// The first names of a list, and the number of all others.
fn listed(names: &[String]) -> String {
    let first = names[..names.len().min(MAX_NAMES)].join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Findings about the rows of all zones, errors first.
fn findings(snapshots: &BTreeMap<String, Snapshot>) -> Findings {
    let mut all = Findings::default();
    for (zone, snapshot) in snapshots {
        let zone = (snapshots.len() > 1).then_some(zone.as_str());
        all.append(patchbay_lint::lint_rows(snapshot, zone, None));
    }
    all.findings.sort_by_key(|finding| finding.severity);
    all
}

fn shown(finding: Finding) -> ShownFinding {
    let zone = finding.row.and_then(|row| row.zone);
    let zone = zone.map(|zone| format!(" (zone {zone})")).unwrap_or_default();
    ShownFinding {
        rule: finding.rule,
        severity: finding.severity,
        object: format!("{}{zone}", finding.object),
        message: finding.message,
        repair: finding.repair,
    }
}

fn facts(
    snapshots: &BTreeMap<String, Snapshot>,
    networks: usize,
    machines: usize,
) -> Vec<(usize, String)> {
    let count = |count: fn(&Snapshot) -> usize| snapshots.values().map(count).sum();
    let facts = [
        (snapshots.len(), "zone", "zones"),
        (networks, "network", "networks"),
        (machines, "machine", "machines"),
        (count(|rows| rows.typed::<LogicalSwitch>().len()), "switch", "switches"),
        (count(|rows| rows.typed::<LogicalRouter>().len()), "router", "routers"),
        (count(|rows| rows.typed::<LogicalSwitchPort>().len()), "switch port", "switch ports"),
        (count(|rows| rows.typed::<Acl>().len()), "ACL", "ACLs"),
        (count(|rows| rows.typed::<LoadBalancer>().len()), "load balancer", "load balancers"),
        (count(Snapshot::row_count), "row", "rows"),
    ];
    let nouns = facts
        .map(|(count, one, several)| (count, if count == 1 { one } else { several }.to_owned()));
    nouns.into()
}
