//! Findings as one JSON or YAML document.

use serde::Serialize;

use crate::finding::{Finding, Findings, Severity};

/// All findings, as JSON or YAML shows them.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    findings: Vec<FindingDocument<'a>>,
    /// Number of findings that annotations leave out.
    silenced: usize,
}

#[derive(Debug, Serialize)]
struct FindingDocument<'a> {
    rule: &'a str,
    severity: Severity,
    object: &'a str,
    others: &'a [String],
    field: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    message: &'a str,
    repair: &'a str,
}

impl<'a> Document<'a> {
    /// Document with these findings.
    pub fn new(findings: &'a Findings) -> Self {
        Self {
            findings: findings.findings.iter().map(Into::into).collect(),
            silenced: findings.silenced,
        }
    }
}

impl<'a> From<&'a Finding> for FindingDocument<'a> {
    fn from(finding: &'a Finding) -> Self {
        let location = finding.location.as_ref();
        Self {
            rule: finding.rule,
            severity: finding.severity,
            object: &finding.object,
            others: &finding.others,
            field: finding.field.as_deref(),
            file: location.map(|location| &*location.file),
            line: location.map(|location| location.line),
            message: &finding.message,
            repair: &finding.repair,
        }
    }
}
