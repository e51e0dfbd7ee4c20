//! Collection of findings about rows.

use std::collections::BTreeMap;

use patchbay_reach::RowRef;

use super::RowRule;
use super::index::Index;
use crate::finding::{Finding, Findings, FoundRow};

/// Maximum number of findings of a rule that are kept; the rest is a count.
const MAX_FINDINGS: usize = 10_000;

/// Findings so far.
pub(super) struct RowReport<'a> {
    index: &'a Index<'a>,
    zone: Option<&'a str>,
    rule: Option<&'static RowRule>,
    /// Number of findings of the rule.
    count: usize,
    findings: Findings,
}

impl<'a> RowReport<'a> {
    pub(super) fn new(index: &'a Index<'a>, zone: Option<&'a str>) -> Self {
        Self { index, zone, rule: None, count: 0, findings: Findings::default() }
    }

    /// Starts with the findings of a rule.
    pub(super) fn begin(&mut self, rule: &'static RowRule) {
        self.rule = Some(rule);
        self.count = 0;
    }

    /// Adds a finding about a row: other rows, the effect and the correction.
    pub(super) fn found(
        &mut self,
        row: RowRef,
        others: &[RowRef],
        message: impl Into<String>,
        repair: impl Into<String>,
    ) {
        let Some(rule) = self.rule else { return };
        self.count += 1;
        if self.count > MAX_FINDINGS {
            let omitted = &mut self.findings.omitted;
            omitted.entry(rule.id).or_insert((rule.severity, 0)).1 += 1;
            return;
        }
        self.findings.findings.push(Finding {
            rule: rule.id,
            severity: rule.severity,
            object: self.index.describe(row),
            others: others.iter().map(|other| self.index.describe(*other)).collect(),
            field: None,
            location: None,
            message: message.into(),
            repair: repair.into(),
            row: Some(FoundRow {
                zone: self.zone.map(str::to_owned),
                table: row.table,
                uuid: row.uuid.to_string(),
            }),
        });
    }

    /// Returns the findings, by rule and name of the row.
    pub(super) fn finish(self) -> Findings {
        let mut findings = self.findings;
        let places: BTreeMap<&str, usize> =
            super::ROW_RULES.iter().enumerate().map(|(place, rule)| (rule.id, place)).collect();
        findings.findings.sort_by(|a, b| {
            let key = |one: &Finding| (one.severity, places.get(one.rule).copied());
            key(a).cmp(&key(b)).then_with(|| (&a.object, &a.message).cmp(&(&b.object, &b.message)))
        });
        findings
    }
}
