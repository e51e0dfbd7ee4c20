//! Findings in the Static Analysis Results Interchange Format (SARIF) 2.1.0, of OASIS.

use std::fmt::Write as _;

use serde::Serialize;

use crate::finding::{Finding, Findings, Severity};
use crate::rows::ROW_RULES;
use crate::rules::RULES;

/// Schema of the format.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Version of the format.
const VERSION: &str = "2.1.0";

/// A log of SARIF with one run.
#[derive(Debug, Serialize)]
pub struct Sarif<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Debug, Serialize)]
struct Run<'a> {
    tool: Tool,
    results: Vec<SarifResult<'a>>,
}

#[derive(Debug, Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Debug, Serialize)]
struct Driver {
    name: &'static str,
    version: &'static str,
    rules: Vec<Descriptor>,
}

/// `reportingDescriptor`: a rule.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    id: &'static str,
    short_description: Text<'static>,
    default_configuration: Configuration,
}

#[derive(Debug, Serialize)]
struct Configuration {
    level: Severity,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'a> {
    rule_id: &'static str,
    /// Index of the rule in the rules of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: Severity,
    message: Text<'a>,
    locations: [Location<'a>; 1],
}

/// `message`, or `multiformatMessageString`.
#[derive(Debug, Serialize)]
struct Text<'a> {
    text: std::borrow::Cow<'a, str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<PhysicalLocation>,
    logical_locations: [LogicalLocation<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Artifact,
    region: Region,
}

#[derive(Debug, Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation<'a> {
    name: &'a str,
    fully_qualified_name: String,
}

impl<'a> Sarif<'a> {
    /// Log of these findings.
    pub fn new(findings: &'a Findings) -> Self {
        let rules = described_rules().map(|(id, severity, condition)| Descriptor {
            id,
            short_description: Text { text: condition.into() },
            default_configuration: Configuration { level: severity },
        });
        let tool = Tool {
            driver: Driver {
                name: "patchbay",
                version: env!("CARGO_PKG_VERSION"),
                rules: rules.collect(),
            },
        };
        let results = findings.findings.iter().map(Into::into).collect();
        Self { schema: SCHEMA, version: VERSION, runs: [Run { tool, results }] }
    }
}

impl<'a> From<&'a Finding> for SarifResult<'a> {
    fn from(finding: &'a Finding) -> Self {
        let physical_location = finding.location.as_ref().map(|location| PhysicalLocation {
            artifact_location: Artifact { uri: uri(&location.file) },
            region: Region { start_line: location.line },
        });
        let logical = LogicalLocation {
            name: &finding.object,
            fully_qualified_name: match &finding.field {
                Some(field) => format!("{} {field}", finding.object),
                None => finding.object.clone(),
            },
        };
        Self {
            rule_id: finding.rule,
            rule_index: described_rules().position(|(id, ..)| id == finding.rule),
            level: finding.severity,
            message: Text { text: format!("{} {}", finding.message, finding.repair).into() },
            locations: [Location { physical_location, logical_locations: [logical] }],
        }
    }
}

/// Ids, severities and conditions of all rules.
fn described_rules() -> impl Iterator<Item = (&'static str, Severity, &'static str)> {
    let manifests = RULES.iter().map(|rule| (rule.id, rule.severity, rule.condition));
    manifests.chain(ROW_RULES.iter().map(|rule| (rule.id, rule.severity, rule.condition)))
}

/// Path of a file as a relative or absolute reference of RFC 3986.
///
/// ```
/// assert_eq!(patchbay_lint::uri("a b/c:d.yaml"), "a%20b/c%3Ad.yaml");
/// ```
pub fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("a b/c:d.yaml"), "a%20b/c%3Ad.yaml");
        assert_eq!(uri("standard input"), "standard%20input");
    }
}
