//! `patchbay reach --expect`: expectations about ways, as a gate.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use patchbay_reach::{Checked, Expectation, Violation};
use serde::Serialize;

use super::End;
use super::args::ReachFormat;
use super::difference::packet;
use super::document::{Case, Location, cell, write_junit, write_sarif};
use super::source::Source;
use super::text::line;
use crate::args::Format;
use crate::console::Console;
use crate::failure::Failure;

/// Maximum number of violations of an expectation that a text names.
const MAX_VIOLATIONS: usize = 3;
/// Version of the documents.
const API_VERSION: &str = "patchbay.io/v1alpha1";

/// Document of checked expectations.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: &'static str,
    kind: &'static str,
    held: usize,
    violated: usize,
    expectations: Vec<CheckedLine>,
}

/// Expectation of a line.
#[derive(Serialize)]
struct CheckedLine {
    line: usize,
    expectation: String,
    #[serde(flatten)]
    checked: Checked,
    /// Objects that stop the packets of the violations, or their rows.
    #[serde(skip)]
    deciding: Vec<Option<String>>,
}

/// Checks all expectations of a file, and prints those that do not hold.
///
/// # Errors
/// A line cannot be read, or names what the databases do not have. All such lines are named.
pub(super) fn check(
    source: &Source,
    file: &Path,
    format: ReachFormat,
    console: &mut Console<'_>,
) -> Result<End, Failure> {
    let text = read(file, console)?;
    let scene = source.scene();
    let (mut expectations, mut refused) = (Vec::new(), Vec::new());
    for (text, number) in text.lines().zip(1..) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let expectation = text.parse::<Expectation>();
        let checked = expectation.and_then(|one| Ok((one.to_string(), scene.check(&one)?)));
        match checked {
            Ok((expectation, checked)) => {
                let decided_by = |one: &Violation| {
                    let stop = one.course.as_ref()?.stopping_row()?;
                    Some(source.owner(stop).unwrap_or_else(|| stop.1.to_string()))
                };
                let deciding = checked.violations.iter().map(decided_by).collect();
                expectations.push(CheckedLine { line: number, expectation, checked, deciding });
            }
            Err(error) => refused.push(format!("{}:{number}: {error}", file.display())),
        }
    }
    if !refused.is_empty() {
        return Err(Failure::Arguments(refused.join("\n")));
    }
    if expectations.is_empty() {
        let message = format!("{}: no expectation in it", file.display());
        return Err(Failure::Arguments(message));
    }
    let violated = expectations.iter().filter(|one| !one.checked.violations.is_empty()).count();
    let held = expectations.len() - violated;
    let name = file.display().to_string();
    match format {
        ReachFormat::Text => console.write_long(|output| write_text(output, &expectations))?,
        ReachFormat::Markdown => {
            console.write_long(|output| write_markdown(output, &expectations))?;
        }
        ReachFormat::Junit => {
            let cases = cases(&expectations, &name);
            console.write_long(|output| write_junit(output, "patchbay reach --expect", &cases))?;
        }
        ReachFormat::Sarif => {
            let mut cases = cases(&expectations, &name);
            cases.retain(|case| case.failure.is_some());
            console.write_long(|output| write_sarif(output, &cases))?;
        }
        ReachFormat::Json | ReachFormat::Yaml => {
            let format = if format == ReachFormat::Json { Format::Json } else { Format::Yaml };
            let kind = "ReachExpectations";
            let document =
                Document { api_version: API_VERSION, kind, held, violated, expectations };
            console.document(&document, format)?;
        }
    }
    Ok(if violated == 0 { End::Good } else { End::Bad })
}

fn read(file: &Path, console: &mut Console<'_>) -> Result<String, Failure> {
    if file == Path::new("-") {
        let mut text = String::new();
        console.input.read_to_string(&mut text)?;
        return Ok(text);
    }
    let read = fs::read_to_string(file);
    read.map_err(|error| Failure::Arguments(format!("{}: {error}", file.display())))
}

fn cases(expectations: &[CheckedLine], file: &str) -> Vec<Case> {
    let cases = expectations.iter().map(|one| Case {
        rule: "expectation",
        name: one.expectation.clone(),
        failure: one.checked.violations.first().map(|violation| one.reason(violation, 0)),
        skipped: None,
        location: Some(Location { file: file.to_owned(), line: one.line }),
    });
    cases.collect()
}

impl CheckedLine {
    /// What a packet does instead of what is expected, with the object that decides.
    fn reason(&self, violation: &Violation, place: usize) -> String {
        let Violation { from, to, protocol, course } = violation;
        let course = packet(course.as_ref());
        let by = self.deciding.get(place).and_then(Option::as_ref);
        let by = by.map(|by| format!("; by {by}")).unwrap_or_default();
        format!("{from} -> {to}: {protocol}: {course}{by}")
    }
}

fn write_text(output: &mut dyn Write, expectations: &[CheckedLine]) -> io::Result<()> {
    let mut violated = 0;
    for one in expectations {
        let violations = &one.checked.violations;
        let verdict = if violations.is_empty() { "ok" } else { "FAILED" };
        writeln!(output, "{verdict:<6} {}", line(&one.expectation))?;
        violated += usize::from(!violations.is_empty());
        for (violation, place) in violations.iter().take(MAX_VIOLATIONS).zip(0..) {
            writeln!(output, "       {}", line(&one.reason(violation, place)))?;
        }
        if let Some(more @ 1..) = violations.len().checked_sub(MAX_VIOLATIONS) {
            writeln!(output, "       and {more} more")?;
        }
    }
    writeln!(output, "{} of {} hold", expectations.len() - violated, expectations.len())
}

fn write_markdown(output: &mut dyn Write, expectations: &[CheckedLine]) -> io::Result<()> {
    writeln!(output, "| | expectation | instead |\n|---|---|---|")?;
    for one in expectations {
        let first = one.checked.violations.first();
        let reason = first.map(|violation| one.reason(violation, 0)).unwrap_or_default();
        let verdict = if first.is_none() { "ok" } else { "**failed**" };
        let (expectation, reason) = (cell(&one.expectation), cell(&reason));
        writeln!(output, "| {verdict} | {expectation} | {reason} |")?;
    }
    Ok(())
}
