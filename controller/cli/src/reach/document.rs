//! Documents of checks for other programs: `JUnit`, SARIF, and cells of Markdown.

use std::fmt::Write as _;
use std::io::{self, Write};

use patchbay_lint::uri;
use serde_json::json;

use super::text::line;

/// Schema of SARIF.
const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Version of SARIF.
const SARIF_VERSION: &str = "2.1.0";

/// Result of a check.
pub(crate) struct Case {
    /// Kind of the check, in lower case with hyphens.
    pub(crate) rule: &'static str,
    pub(crate) name: String,
    /// Why the check fails. `None`: it passes.
    pub(crate) failure: Option<String>,
    /// Why the check was not made. `None`: it was.
    pub(crate) skipped: Option<String>,
    pub(crate) location: Option<Location>,
}

/// Line of a file.
pub(crate) struct Location {
    pub(crate) file: String,
    /// Number of the line, from 1.
    pub(crate) line: usize,
}

/// Writes a test suite of `JUnit`.
pub(crate) fn write_junit(output: &mut dyn Write, suite: &str, cases: &[Case]) -> io::Result<()> {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    writeln!(output, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let (suite, count) = (attribute(suite), cases.len());
    let skipped = cases.iter().filter(|case| case.skipped.is_some()).count();
    write!(output, "<testsuite name=\"{suite}\" tests=\"{count}\" failures=\"{failures}\"")?;
    if skipped > 0 {
        write!(output, " skipped=\"{skipped}\"")?;
    }
    writeln!(output, ">")?;
    for case in cases {
        let name = attribute(&case.name);
        write!(output, "  <testcase classname=\"{}\" name=\"{name}\"", case.rule)?;
        let failed = case.failure.as_ref().map(|message| ("failure", message));
        let skipped = case.skipped.as_ref().map(|message| ("skipped", message));
        match failed.or(skipped) {
            None => writeln!(output, "/>")?,
            Some((element, message)) => {
                let message = attribute(message);
                writeln!(output, "><{element} message=\"{message}\"/></testcase>")?;
            }
        }
    }
    writeln!(output, "</testsuite>")
}

/// A text in an attribute of XML, without characters that XML does not have.
fn attribute(text: &str) -> String {
    let text = line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes a log of SARIF with a result for each failure.
pub(super) fn write_sarif(output: &mut dyn Write, cases: &[Case]) -> io::Result<()> {
    let mut rules: Vec<&str> = cases.iter().map(|case| case.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let results = cases.iter().filter_map(|case| {
        let message = format!("{}: {}", case.name, case.failure.as_ref()?);
        let mut result = json!({
            "ruleId": case.rule,
            "level": if case.rule.starts_with("machine-") { "note" } else { "error" },
            "message": {"text": message},
            "locations": [{"logicalLocations": [{"fullyQualifiedName": case.name}]}],
        });
        if let Some(location) = &case.location {
            result["locations"][0]["physicalLocation"] = json!({
                "artifactLocation": {"uri": uri(&location.file)},
                "region": {"startLine": location.line},
            });
        }
        Some(result)
    });
    let log = json!({
        "$schema": SARIF_SCHEMA,
        "version": SARIF_VERSION,
        "runs": [{
            "tool": {"driver": {
                "name": "patchbay",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|id| json!({"id": id})).collect::<Vec<_>>(),
            }},
            "results": results.collect::<Vec<_>>(),
        }],
    });
    serde_json::to_writer_pretty(&mut *output, &log)?;
    writeln!(output)
}

/// A text in a cell of a Markdown table: without marks of Markdown and HTML.
pub(crate) fn cell(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in line(text).chars() {
        if r"|<>`*_[]\&@#".contains(character) {
            let _ = write!(escaped, "&#{};", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}
