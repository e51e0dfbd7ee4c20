//! Results of checks as text and as documents.

use std::io;

use patchbay_kubernetes::{Check, CheckGroup, Verdict};
use patchbay_model::printable::printable;
use serde::Serialize;

use super::count;
use crate::args::Format;
use crate::colours::Colour;
use crate::console::Console;
use crate::failure::Failure;
use crate::lines::wrapped_behind;
use crate::reach::document::{Case, write_junit as write_cases};

/// Page with a section for each group.
const PAGE: &str = "docs/operate.md";
/// Version of the document.
const API_VERSION: &str = "patchbay.io/v1alpha1";
/// Maximum length of a finding, in bytes.
const MAX_FINDING_BYTES: usize = 2_000;
/// Columns before a finding.
const INDENT: &str = "                ";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    server: &'a str,
    ok: usize,
    warnings: usize,
    failed: usize,
    skipped: usize,
    checks: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    number: String,
    group: &'a str,
    name: &'a str,
    verdict: &'static str,
    finding: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    see: Option<String>,
}

/// The section about a group.
fn section(group: &CheckGroup) -> String {
    format!("{PAGE}#check-{}", group.name)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::Failed => "failed",
        Verdict::Skipped => "skipped",
    }
}

/// All checks with their numbers.
fn numbered(groups: &[CheckGroup]) -> impl Iterator<Item = (String, &CheckGroup, &Check)> {
    groups.iter().zip(1..).flat_map(|(group, place)| {
        let checks = group.checks.iter().zip(1..);
        checks.map(move |(check, number): (_, usize)| {
            let place: usize = place;
            (format!("{place}.{number}"), group, check)
        })
    })
}

/// Writes lines of at most 80 columns.
pub(super) fn write_text(groups: &[CheckGroup], console: &mut Console<'_>) -> io::Result<()> {
    let colours = console.output_colours;
    let summary = format!(
        "{} ok, {} warnings, {} failed, {} skipped",
        count(groups, Verdict::Ok),
        count(groups, Verdict::Warning),
        count(groups, Verdict::Failed),
        count(groups, Verdict::Skipped),
    );
    console.write_long(|output| {
        let mut last = "";
        for (number, group, check) in numbered(groups) {
            if last != group.name {
                writeln!(output, "{}", group.name)?;
                last = group.name;
            }
            let word = word(check.verdict);
            let margin = format!("  {number:<4} {word:<8} ");
            let finding = printable(&check.finding, MAX_FINDING_BYTES);
            let text = wrapped_behind(&margin, &finding, INDENT);
            let colour = match check.verdict {
                Verdict::Ok => Some(Colour::Green),
                Verdict::Warning => Some(Colour::Yellow),
                Verdict::Failed => Some(Colour::Red),
                Verdict::Skipped => None,
            };
            let text = match colour {
                Some(colour) => text.replacen(word, &colours.paint(colour, word), 1),
                None => text,
            };
            writeln!(output, "{text}")?;
            if let Some(remedy) = &check.remedy {
                let margin = format!("{INDENT}-> ");
                let further = format!("{INDENT}   ");
                let remedy = printable(remedy, MAX_FINDING_BYTES);
                writeln!(output, "{}", wrapped_behind(&margin, &remedy, &further))?;
                writeln!(output, "{margin}{}", section(group))?;
            }
        }
        writeln!(output, "{summary}")
    })
}

/// Writes a JSON document.
pub(super) fn write_json(
    groups: &[CheckGroup],
    server: &str,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let checks = numbered(groups).map(|(number, group, check)| Line {
        number,
        group: group.name,
        name: &check.name,
        verdict: word(check.verdict),
        finding: &check.finding,
        remedy: check.remedy.as_deref(),
        see: check.remedy.as_ref().map(|_| section(group)),
    });
    let document = Document {
        api_version: API_VERSION,
        kind: "Checks",
        server,
        ok: count(groups, Verdict::Ok),
        warnings: count(groups, Verdict::Warning),
        failed: count(groups, Verdict::Failed),
        skipped: count(groups, Verdict::Skipped),
        checks: checks.collect(),
    };
    console.document(&document, Format::Json)
}

/// Writes a test suite with a case for each check.
pub(super) fn write_junit(groups: &[CheckGroup], console: &mut Console<'_>) -> io::Result<()> {
    let cases: Vec<Case> = numbered(groups)
        .map(|(_, group, check)| {
            let is_failed = check.verdict == Verdict::Failed;
            let remedy = check.remedy.as_deref().unwrap_or_default();
            let failure = is_failed.then(|| format!("{} -> {remedy}", check.finding));
            let is_skipped = check.verdict == Verdict::Skipped;
            Case {
                rule: group.name,
                name: check.name.clone(),
                failure,
                skipped: is_skipped.then(|| check.finding.clone()),
                location: None,
            }
        })
        .collect();
    console.write_long(|output| write_cases(output, "patchbay check", &cases))
}
