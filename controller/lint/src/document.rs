//! Findings as one JSON or YAML document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::{Finding, Findings, FoundRow, Severity};

/// All findings, as JSON or YAML shows them.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    findings: Vec<FindingDocument<'a>>,
    /// Number of findings that annotations leave out.
    silenced: usize,
    /// Number of findings of each rule that are left out because there were too many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    omitted: BTreeMap<&'a str, usize>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<&'a FoundRow>,
}

impl<'a> Document<'a> {
    /// Document with these findings.
    pub fn new(findings: &'a Findings) -> Self {
        Self {
            findings: findings.findings.iter().map(Into::into).collect(),
            silenced: findings.silenced,
            omitted: findings.omitted.iter().map(|(rule, (_, count))| (*rule, *count)).collect(),
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
            row: finding.row.as_ref(),
        }
    }
}
