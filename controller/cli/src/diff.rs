//! `patchbay diff`: what differs between two sources, by object and by row.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use patchbay_changes::{Changes, Counts, Object, Snapshots, paired_rows};
use patchbay_engine::db::Snapshot;
use patchbay_model::printable::printable;
use patchbay_schemas::nb;
use serde::Serialize;

use super::args::Format;
use super::changes::{
    API_VERSION, ObjectDocument, counts_text, documents, network_descriptions, summaries,
    write_changes, zone_count,
};
use super::console::Console;
use super::databases::ZoneDatabase;
use super::failure::Failure;
use super::input_flags::InputFlags;
use super::lines::wrapped;
use super::plan::table_name;
use super::reach::document::cell;
use super::source_word::SourceWord;
use super::views::source::{of_cluster, read_cluster};
use super::zone_changes::ZoneChanges;

/// Maximum length of the name of a source, in bytes.
const MAX_NAME_BYTES: usize = 400;
/// What has happened to rows that come, change and go.
const VERBS: [&str; 3] = ["added", "changed", "deleted"];

/// Flags of `patchbay diff`.
#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The earlier source: a folder or file of manifests, a database file, an archive of a
    /// collector, or a remote. FILE@MOMENT is a moment in the history of a database file.
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The later source.
    #[arg(value_name = "AFTER")]
    after: String,
    /// Print each row with its columns, by zone.
    #[arg(long)]
    rows: bool,
    /// Print the rows of one table, such as ACL or `Logical_Router`.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Output format. Documents have the objects and the rows of each zone.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = DiffFormat::Text)]
    output: DiffFormat,
    #[command(flatten)]
    input: InputFlags,
}

/// Output format of differences.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum DiffFormat {
    /// Text for people.
    Text,
    /// A JSON document.
    Json,
    /// A YAML document.
    Yaml,
    /// Markdown, for a comment on a change.
    Markdown,
}

/// Rows of a source, by zone, and what is known of its objects.
struct Side {
    zones: Vec<ZoneDatabase>,
    known: BTreeMap<Object, String>,
}

/// The document of a difference.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DiffDocument<'a> {
    api_version: &'static str,
    kind: &'static str,
    before: &'a str,
    after: &'a str,
    counts: Counts,
    objects: Vec<ObjectDocument<'a>>,
    zones: &'a [ZoneChanges],
}

/// Prints what differs. Returns `true` if nothing does.
pub(super) async fn diff(arguments: &Diff, console: &mut Console<'_>) -> Result<bool, Failure> {
    let table = arguments.table.as_deref().map(table_name).transpose()?;
    let has_rows = arguments.rows || table.is_some();
    let before = read(&arguments.before, &arguments.input, console).await?;
    let after = read(&arguments.after, &arguments.input, console).await?;
    let mut known = before.known.clone();
    known.extend(after.known.clone());
    let mut changes = Changes::default();
    let mut zones = Vec::new();
    let is_document = matches!(arguments.output, DiffFormat::Json | DiffFormat::Yaml);
    let empty = Snapshot::empty(nb::schema());
    for (name, earlier, later) in pairs(&before.zones, &after.zones) {
        let snapshots =
            Snapshots { before: earlier.unwrap_or(&empty), after: later.unwrap_or(&empty) };
        let rows = paired_rows(snapshots);
        changes.add_zone(name, snapshots, &rows);
        if has_rows || is_document {
            zones.push(ZoneChanges::new(name, snapshots, &rows, table.as_deref(), &[]));
        }
    }
    let difference = Difference { arguments, changes: &changes, known: &known };
    let document = || DiffDocument {
        api_version: API_VERSION,
        kind: "Difference",
        before: &arguments.before,
        after: &arguments.after,
        counts: changes.counts(),
        objects: documents(&changes, &known),
        zones: &zones,
    };
    let colours = console.output_colours;
    match arguments.output {
        DiffFormat::Text if has_rows => {
            for zone in &zones {
                console.write_long(|output| zone.write(output, VERBS))?;
            }
        }
        DiffFormat::Text => console.write_long(|output| {
            writeln!(output, "{}\n", difference.sources())?;
            if !changes.is_empty() {
                write_changes(output, &changes, &known, colours)?;
                writeln!(output)?;
            }
            writeln!(output, "Difference: {}", difference.summary())
        })?,
        DiffFormat::Markdown => console.write_long(|output| difference.write_markdown(output))?,
        DiffFormat::Json => console.document(&document(), Format::Json)?,
        DiffFormat::Yaml => console.document(&document(), Format::Yaml)?,
    }
    Ok(changes.is_empty())
}

/// What differs, by object.
struct Difference<'a> {
    arguments: &'a Diff,
    changes: &'a Changes,
    known: &'a BTreeMap<Object, String>,
}

impl Difference<'_> {
    /// Both sources, in lines.
    fn sources(&self) -> String {
        let Diff { before, after, .. } = self.arguments;
        let text = format!("{before} -> {after}");
        wrapped(&printable(&text, MAX_NAME_BYTES), "    ")
    }

    /// Numbers of rows in a sentence.
    fn summary(&self) -> String {
        let zones = zone_count(self.changes.zones().len());
        if self.changes.is_empty() {
            return format!("none on {zones}");
        }
        format!("{} on {zones}", counts_text(self.changes.counts(), VERBS))
    }

    fn write_markdown(&self, output: &mut dyn Write) -> io::Result<()> {
        let Diff { before, after, .. } = self.arguments;
        writeln!(output, "**Difference: {}**\n", self.summary())?;
        writeln!(output, "From `{}` to `{}`.", cell(before), cell(after))?;
        if self.changes.is_empty() {
            return Ok(());
        }
        writeln!(output, "\n| | object | rows |\n|---|---|---|")?;
        for line in summaries(self.changes, self.known) {
            let sign = line.change.sign();
            writeln!(output, "| `{sign}` | {} | {} |", cell(&line.object), cell(&line.rows))?;
        }
        Ok(())
    }
}

/// The databases of each zone, before and after. Two sources of one database each have one zone,
/// whatever its names are.
fn pairs<'a>(
    before: &'a [ZoneDatabase],
    after: &'a [ZoneDatabase],
) -> Vec<(&'a str, Option<&'a Snapshot>, Option<&'a Snapshot>)> {
    if let ([earlier], [later]) = (before, after) {
        return vec![(&later.zone, Some(&earlier.snapshot), Some(&later.snapshot))];
    }
    let names = after.iter().chain(before).map(|database| database.zone.as_str());
    let mut seen = BTreeSet::new();
    let of = |databases: &'a [ZoneDatabase], name: &str| {
        let mut databases = databases.iter();
        databases.find(|database| database.zone == name).map(|database| &database.snapshot)
    };
    let names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
    names.into_iter().map(|name| (name, of(before, name), of(after, name))).collect()
}

/// Reads the source of a word.
async fn read(word: &str, input: &InputFlags, console: &mut Console<'_>) -> Result<Side, Failure> {
    match SourceWord::of(word)? {
        SourceWord::Databases(databases) => {
            let zones = databases.read((&input.keys, input.limit), console).await?;
            Ok(Side { zones, known: BTreeMap::new() })
        }
        SourceWord::Manifests(path) => {
            let cluster = read_cluster(&[path], input, console)?;
            let zones = of_cluster(&cluster, input, console).await?;
            Ok(Side { zones, known: network_descriptions(&cluster) })
        }
    }
}
