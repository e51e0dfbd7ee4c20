//! Findings: results of rules.

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
}

/// Findings of all rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Findings {
    /// Findings in the order of the manifests.
    pub findings: Vec<Finding>,
    /// Number of findings that annotations of their objects leave out.
    pub silenced: usize,
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

    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings.filter(|one| one.severity == severity).count()
    }
}
