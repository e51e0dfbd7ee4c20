//! `patchbay report`: a page about databases or manifests, in one file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use patchbay_explain::explain as explain_connect;
use patchbay_reach::{Course, Protocol, RowRef};
use patchbay_reconcile::Cluster;
use patchbay_report::{Connect, Report, Words};
use patchbay_resources::object::Object as _;

use super::console::Console;
use super::failure::Failure;
use super::reach::args::{ProtocolName, SourceFlags, protocol_of};
use super::reach::source::Source;
use super::reach::text::describe;

/// Name of a file that is standard output.
const STANDARD_OUTPUT: &str = "-";

/// Flags of `patchbay report`.
#[derive(Debug, Args)]
#[command(
    override_usage = "patchbay report -o <FILE> <--nb|--file|--must-gather|-f> [OPTIONS]",
    group = ArgGroup::new("database").args(["nb", "file", "must_gather", "paths"]).required(true).multiple(true)
)]
pub(super) struct ReportFlags {
    /// File of the page, or - for standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// An earlier state, from which the differences are shown: a source as in `reach --diff`.
    #[arg(long, value_name = "SOURCE")]
    before: Option<String>,
    #[command(flatten)]
    packets: PacketFlags,
    #[command(flatten)]
    source: SourceFlags,
}

/// Flags for the packets between networks and machines of a page.
#[derive(Debug, Args)]
pub(super) struct PacketFlags {
    /// Protocol of the packets between networks and machines. Default: tcp with --port, otherwise icmp.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    proto: Option<ProtocolName>,
    /// Destination port of these packets.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

impl PacketFlags {
    /// The protocol of the packets.
    pub(super) fn protocol(&self) -> Result<Protocol, Failure> {
        let protocol = protocol_of((self.proto, self.port), false).map_err(Failure::Arguments)?;
        Ok(protocol.unwrap_or_default())
    }
}

/// Words for what a source has.
struct SourceWords<'a>(&'a Source);

impl Words for SourceWords<'_> {
    fn outcome(&self, course: &Course) -> String {
        describe(course)
    }

    fn owner(&self, row: (&str, RowRef)) -> Option<String> {
        self.0.owner(row)
    }
}

/// Writes the page.
pub(super) async fn report(
    arguments: &ReportFlags,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let protocol = arguments.packets.protocol()?;
    let source = Source::open(&arguments.source, console).await?;
    let mut report = page_of(&source, &arguments.source.title(), protocol);
    report.set_sources(console.source_times());
    if let Some(word) = &arguments.before {
        let before = Source::open(&arguments.source.of_word(word)?, console).await?;
        let difference = before.scene().difference(&source.scene(), None);
        let words = [&before, &source].map(SourceWords);
        report.set_difference(word, &difference, words.each_ref());
    }
    let page = report.page().map_err(|error| no_page(&error))?;
    if arguments.output == Path::new(STANDARD_OUTPUT) {
        return Ok(console.output.write_all(page.as_bytes())?);
    }
    let failure =
        |error| Failure::Arguments(format!("cannot write {}: {error}", arguments.output.display()));
    fs::write(&arguments.output, &page).map_err(failure)?;
    let kibibytes = page.len().div_ceil(1024);
    let file = arguments.output.display();
    Ok(writeln!(console.output, "{file}: {} in {kibibytes} KiB", report.summary())?)
}

/// The failure of a page whose contents have no form in JSON.
pub(super) fn no_page(error: &serde_json::Error) -> Failure {
    Failure::Arguments(format!("cannot make the page: {error}"))
}

/// Contents of the page about a source whose zones are open.
pub(super) fn page_of(source: &Source, title: &str, protocol: Protocol) -> Report {
    let connects = source.cluster().map(connects).unwrap_or_default();
    let words = SourceWords(source);
    Report::new(title, (source.zones(), source.rows()), connects, protocol, &words)
}

/// The connects of manifests.
fn connects(cluster: &Cluster) -> Vec<Connect> {
    let networks = cluster.networks();
    let vpcs = cluster.vpc_members();
    let views = BTreeMap::new();
    let explained = cluster.connects().filter_map(|connect| {
        let name = connect.name_any();
        explain_connect(&name, &cluster.inventory, &networks, &views, vpcs.as_ref())
    });
    let shown = explained.map(|connect| {
        let accepted = connect.accepted.iter().filter(|_| !connect.is_accepted).cloned();
        let obstacles = connect.obstacles.iter().map(ToString::to_string);
        let ranges = connect.ranges.iter().map(|range| {
            format!("{}: {} blocks of /{}", range.cidr, range.blocks, range.network_prefix)
        });
        let ids = connect.node_ids.iter();
        let ids = ids.map(|ids| format!("node ids: {} of {} are left", ids.left, ids.total));
        let networks = connect.networks.iter().map(|network| {
            let subnets: Vec<String> = network.subnets.iter().map(ToString::to_string).collect();
            format!("{} {}", network.network, subnets.join(" ")).trim_end().to_owned()
        });
        let is_good =
            connect.is_accepted && connect.obstacles.is_empty() && !connect.networks.is_empty();
        Connect {
            state: if connect.is_accepted { "accepted" } else { "not accepted" }.to_owned(),
            is_good,
            reasons: accepted
                .chain(obstacles)
                .chain(connect.unselected.iter().cloned())
                .chain(connect.notices.iter().cloned())
                .collect(),
            networks: networks.collect(),
            key: connect.tunnel_key.map(|key| key.to_string()).unwrap_or_default(),
            capacity: ranges.chain(ids).collect(),
            name: connect.connect,
        }
    });
    shown.collect()
}
