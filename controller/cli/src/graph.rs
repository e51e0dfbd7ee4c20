//! `patchbay graph`: pictures of the topology of databases or manifests.

use clap::{ArgGroup, Args, ValueEnum};
use patchbay_graph::Topology;
use patchbay_reach::Question;

use super::console::Console;
use super::failure::Failure;
use super::reach::args::{ProtocolName, SourceFlags, named_sender, parse_destination, protocol_of};
use super::reach::source::read_databases;

/// Number of places above which each network is one place.
const MAX_PLACES: usize = 80;

/// Flags of `patchbay graph`.
#[derive(Debug, Args)]
#[command(
    override_usage = "patchbay graph <--nb|--file|--must-gather|--filename> [OPTIONS]",
    group = ArgGroup::new("database").args(["nb", "file", "must_gather", "paths"]).required(true).multiple(true)
)]
pub(super) struct Graph {
    /// Format of the picture.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Svg)]
    output: Format,
    /// What is a place of the picture. Default: devices, or networks if there are more than 80
    /// places.
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<Level>,
    /// Light the way of a packet, and the object that stops it: a pod (NAMESPACE/NAME) or switch
    /// port, and a destination as in `reach --to`.
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    path: Vec<String>,
    /// Protocol of the packet. Default: tcp with --port, otherwise icmp.
    #[arg(long, value_enum, value_name = "PROTOCOL", requires = "path")]
    proto: Option<ProtocolName>,
    /// Destination port of the packet.
    #[arg(long, value_name = "PORT", requires = "path", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    #[command(flatten)]
    source: SourceFlags,
}

/// Format of a picture.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// A page that zooms and searches, and loads nothing.
    Html,
    /// A flowchart of Mermaid, for Markdown.
    Mermaid,
    /// A graph of Graphviz.
    Dot,
}

/// What is a place of a picture.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Level {
    /// Switches, routers and machines.
    Devices,
    /// Networks, connects, and networks outside.
    Networks,
}

/// Prints a picture.
pub(super) async fn graph(arguments: &Graph, console: &mut Console<'_>) -> Result<(), Failure> {
    let way = match &arguments.path[..] {
        [from, to] => Some((from, to)),
        _ => None,
    };
    let senders: Vec<&str> = way.iter().map(|(from, _)| from.as_str()).collect();
    let mut source = Box::pin(read_databases(&arguments.source, &senders, console)).await?;
    source.open_all(console).await?;
    let mut topology = Topology::new(source.snapshots());
    let mut title = arguments.source.title();
    if let Some((from, to)) = way {
        let is_service = to.starts_with("service/") || to.starts_with("svc/");
        let protocol = protocol_of((arguments.proto, arguments.port), is_service);
        let protocol = protocol.map_err(Failure::Arguments)?.unwrap_or_default();
        let destination = parse_destination(to);
        let question = Question { sender: named_sender(from), destination, protocol };
        let asked = source.ask(&question, console).await?;
        let course = asked.map_err(|error| Failure::Arguments(error.to_string()))?;
        let stopped_by = course.stopping_row().map(|row| {
            let owner = source.owner(row);
            owner.unwrap_or_else(|| course.last().at.clone())
        });
        let stopped = (!course.outcome.is_arrival()).then(|| course.last().at.clone());
        let behind = course.behind().map(|zone| &zone.answer);
        let answers = [&course.answer].into_iter().chain(behind);
        let hops = answers.flat_map(|answer| &answer.hops).map(|hop| hop.name.as_str());
        let end = course.last().out.as_deref().filter(|_| stopped.is_none());
        topology.light([from.as_str()].into_iter().chain(hops).chain(end), stopped_by.or(stopped));
        title = format!("{title}: {from} to {to}, {protocol}");
    }
    let is_large = topology.places.len() > MAX_PLACES;
    let level = if is_large { Level::Networks } else { Level::Devices };
    let shown = match arguments.level.unwrap_or(level) {
        Level::Devices => topology,
        Level::Networks => topology.networks(),
    };
    let format = match arguments.output {
        Format::Svg => patchbay_graph::Format::Svg,
        Format::Html => patchbay_graph::Format::Html,
        Format::Mermaid => patchbay_graph::Format::Mermaid,
        Format::Dot => patchbay_graph::Format::Dot,
    };
    Ok(console.output.write_all(shown.picture(format, &title).as_bytes())?)
}
