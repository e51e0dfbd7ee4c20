//! Findings: results of rules.

use std::collections::BTreeMap;
use std::fmt;

use patchbay_resources::manifests::SourceLocation;
use serde::Serialize;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something may not work as intended.
    Warning,
    /// A fact that may be unknown to the reader.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// Result of a rule about an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// Id of the rule, such as `V1`.
    pub rule: &'static str,
    /// Severity of the rule.
    pub severity: Severity,
    /// `Kind/name`, `Kind/namespace/name`, or `values` for chart values.
    pub object: String,
    /// Further objects, written as `object`.
    pub others: Vec<String>,
    /// Path of the field, such as `spec.id`. `None`: the whole object.
    pub field: Option<String>,
    /// Location of the object, or of its field. `None`: not from a manifest.
    pub location: Option<SourceLocation>,
    /// Sentence: the effect.
    pub message: String,
    /// Sentence: the correction.
    pub repair: String,
    /// Row of a Northbound database. `None`: the finding is about an object of manifests.
    pub row: Option<FoundRow>,
}

/// Row of a finding.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FoundRow {
    /// Zone of the database. `None`: the database is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Name of the table.
    pub table: &'static str,
    /// UUID of the row.
    pub uuid: String,
}

/// Findings of all rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Findings {
    /// Findings in the order of the manifests.
    pub findings: Vec<Finding>,
    /// Number of findings that annotations of their objects leave out.
    pub silenced: usize,
    /// Number of findings that are left out because there were too many of their rules, with the
    /// severities of the rules.
    pub omitted: BTreeMap<&'static str, (Severity, usize)>,
}

impl Findings {
    /// Sets the lines of fields: those that a function returns for the location of an object and the
    /// path of a field in it.
    pub fn locate(&mut self, mut line_of: impl FnMut(&SourceLocation, &str) -> u32) {
        for finding in &mut self.findings {
            if let (Some(location), Some(field)) = (&mut finding.location, &finding.field) {
                location.line = line_of(location, field);
            }
        }
    }

    /// Number of findings of a severity, with those that are left out because there were too many.
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        let omitted = self.omitted.values().filter(|(own, _)| *own == severity);
        findings.filter(|one| one.severity == severity).count()
            + omitted.map(|(_, count)| count).sum::<usize>()
    }

    /// Adds the findings of another database.
    pub fn append(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.silenced += other.silenced;
        for (rule, (severity, count)) in other.omitted {
            self.omitted.entry(rule).or_insert((severity, 0)).1 += count;
        }
    }
}
