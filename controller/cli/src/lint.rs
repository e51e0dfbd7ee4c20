//! `patchbay lint`: findings about manifests, before anything is applied, and about the rows of
//! databases.

pub(crate) mod args;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use patchbay_lint::{
    ChartValues, Document, Facts, Finding, Findings, Sarif, Severity, lint as judge, lint_rows,
};
use patchbay_model::printable::printable;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_resources::manifests::{FieldLines, Inventory, read_manifests_within};

use super::args::Format;
use super::console::Console;
use super::databases::{ZoneDatabase, require_databases};
use super::failure::Failure;
use super::files::{ArchivePart, archive_of, read_objects};
use super::zones::open_remote;
use args::{Lint, LintFormat};

/// Maximum number of findings of one rule in a text; the rest is a count, so that a reader sees the
/// findings of other rules.
const MAX_FINDINGS_PER_RULE: usize = 20;
/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 2_000;

/// Prints the findings. Returns `true` if none of them is an error.
pub(super) async fn lint(arguments: &Lint, console: &mut Console<'_>) -> Result<bool, Failure> {
    let findings = if arguments.paths.is_empty() {
        lint_databases(arguments, console).await?
    } else {
        lint_manifests(arguments, console).await?
    };
    match arguments.output {
        LintFormat::Text => console.write_long(|output| write_text(&findings, output))?,
        LintFormat::Json => console.document(&Document::new(&findings), Format::Json)?,
        LintFormat::Yaml => console.document(&Document::new(&findings), Format::Yaml)?,
        LintFormat::Sarif => console.document(&Sarif::new(&findings), Format::Json)?,
    }
    let warnings = findings.count(Severity::Warning);
    let is_strict = arguments.strict;
    Ok(findings.count(Severity::Error) == 0 && !(is_strict && warnings > 0))
}

/// Judges the rows of databases, one zone after the other.
async fn lint_databases(arguments: &Lint, console: &mut Console<'_>) -> Result<Findings, Failure> {
    let keys = (&arguments.keys, arguments.limit);
    let (databases, inventory) =
        arguments.databases.read_part(ArchivePart::Both, keys, console).await?;
    let has_vpcs = inventory.kube_ovn_objects().next().is_some();
    if let Some(archive) = &arguments.databases.must_gather {
        require_databases(archive, &databases)
            .or_else(|failure| if has_vpcs { Ok(()) } else { Err(failure) })?;
    }
    let has_zones = databases.len() > 1;
    let mut findings = Findings::default();
    for ZoneDatabase { zone, snapshot } in &databases {
        let zone = has_zones.then_some(zone.as_str());
        findings.append(lint_rows(snapshot, zone, arguments.ovn));
    }
    if has_vpcs {
        warn_of_objects(&inventory, console)?;
        findings.append(judge(&inventory, &facts(arguments)?, None));
    }
    Ok(findings)
}

async fn lint_manifests(arguments: &Lint, console: &mut Console<'_>) -> Result<Findings, Failure> {
    let limit = arguments.manifest_limit.bytes();
    let mut text = String::new();
    let inventory = if let Some(archive) = archive_of(&arguments.paths)? {
        read_objects(archive, console)?
    } else {
        let mut input = Copied::new(&mut *console.input);
        let read = read_manifests_within(&arguments.paths, &mut input, limit)?;
        text = String::from_utf8(input.bytes).unwrap_or_default();
        read
    };
    warn_of_objects(&inventory, console)?;
    let northbound = match &arguments.databases.nb[..] {
        [remote] => {
            let (keys, limit) = (&arguments.keys, arguments.limit);
            Some(open_remote(remote, keys, limit, console).await?.snapshot())
        }
        [] => None,
        _ => {
            let message = "manifests are compared with one database: --nb comes twice";
            return Err(Failure::Arguments(message.to_owned()));
        }
    };
    let mut findings = judge(&inventory, &facts(arguments)?, northbound.as_ref());
    let mut lines = FieldLines::new(text);
    findings.locate(|location, field| lines.line(location, field));
    Ok(findings)
}

/// Prints the warnings about objects.
fn warn_of_objects(inventory: &Inventory, console: &mut Console<'_>) -> io::Result<()> {
    let mut warnings = inventory.warnings.iter();
    warnings.try_for_each(|warning| console.warn("objects", &warning.to_string()))
}

/// Facts of the flags.
fn facts(arguments: &Lint) -> Result<Facts, Failure> {
    Ok(Facts {
        values: arguments.values.as_deref().map(read_values).transpose()?,
        service_ranges: arguments.service_cidr.clone(),
        node_interfaces: arguments.node_interfaces.iter().cloned().collect(),
        is_northd_stock: arguments.stock_northd,
    })
}

/// Reads the file of chart values.
fn read_values(path: &Path) -> Result<ChartValues, Failure> {
    let failure = |reason: String| {
        Failure::Arguments(format!("cannot read chart values {}: {reason}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    ChartValues::from_yaml(&text).map_err(|error| failure(error.to_string()))
}

/// A stream whose bytes are kept.
struct Copied<'a> {
    stream: &'a mut dyn Read,
    bytes: Vec<u8>,
}

impl<'a> Copied<'a> {
    fn new(stream: &'a mut dyn Read) -> Self {
        let bytes = Vec::new();
        Self { stream, bytes }
    }
}

impl Read for Copied<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..length]);
        Ok(length)
    }
}

/// Writes findings, two lines each, and their numbers.
fn write_text(findings: &Findings, output: &mut dyn Write) -> io::Result<()> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in &findings.findings {
        let count = counts.entry(finding.rule).or_default();
        *count += 1;
        if *count <= MAX_FINDINGS_PER_RULE {
            write_finding(finding, output)?;
        }
    }
    for (rule, (_, count)) in &findings.omitted {
        *counts.entry(rule).or_default() += count;
    }
    for (rule, count) in counts {
        if let Some(more @ 1..) = count.checked_sub(MAX_FINDINGS_PER_RULE) {
            writeln!(output, "{more} more findings of rule {rule}")?;
        }
    }
    let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note]
        .map(|severity| numbered(findings.count(severity), &severity.to_string()));
    let silenced = match findings.silenced {
        0 => String::new(),
        silenced => format!(", {silenced} silenced"),
    };
    writeln!(output, "{errors}, {warnings}, {notes}{silenced}")
}

fn write_finding(finding: &Finding, output: &mut dyn Write) -> io::Result<()> {
    let location = finding.location.as_ref();
    let location = location.map(|location| format!("{}:{}: ", location.file, location.line));
    let field = finding.field.as_ref().map(|field| format!(" {field}"));
    let zone = finding.row.as_ref().and_then(|row| row.zone.as_ref());
    let zone = zone.map(|zone| format!("zone {zone}: "));
    let line = format!(
        "{}{} {}: {}{}: {}",
        location.or(zone).unwrap_or_default(),
        finding.severity,
        finding.rule,
        finding.object,
        field.unwrap_or_default(),
        finding.message
    );
    writeln!(output, "{}", printable(&line, MAX_LINE_BYTES))?;
    writeln!(output, "    {}", printable(&finding.repair, MAX_LINE_BYTES))
}

/// Number of things, such as `2 errors`.
fn numbered(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}
