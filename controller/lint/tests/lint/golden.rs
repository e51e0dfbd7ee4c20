//! Scenarios of the tenant *alpha*, with the findings that each must have.

use std::collections::BTreeSet;

use patchbay_lint::{Finding, Findings, RULES, Severity};
use serde::Deserialize;

use crate::set::{Set, golden_folder};

/// A scenario.
#[derive(Deserialize)]
struct Scenario {
    manifests: Vec<String>,
    #[serde(default)]
    objects: String,
    #[serde(default)]
    state: State,
    /// Errors and warnings.
    lint: Vec<Expected>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Default, Deserialize)]
struct State {
    api_server_service_range: Option<String>,
}

/// An expected finding.
#[derive(Deserialize)]
struct Expected {
    rule: String,
    object: String,
    field: Option<String>,
}

impl Expected {
    /// `true` if this is the finding. Namespaces may be left out.
    fn is(&self, finding: &Finding) -> bool {
        let mut parts = finding.object.split('/');
        let without_namespace = format!(
            "{}/{}",
            parts.next().unwrap_or_default(),
            parts.next_back().unwrap_or_default()
        );
        finding.rule == self.rule
            && (finding.object == self.object || without_namespace == self.object)
            && self.field.as_ref().is_none_or(|field| finding.field.as_ref() == Some(field))
    }
}

fn lint(name: &str) -> (Scenario, Findings) {
    let text = std::fs::read_to_string(golden_folder().join(format!("{name}.yaml"))).unwrap();
    let scenario: Scenario = serde_saphyr::from_str(&text).unwrap();
    let mut set = Set::default();
    for file in &scenario.manifests {
        set.add_file(file);
    }
    set.change(&scenario.objects);
    let range = scenario.state.api_server_service_range.iter();
    set.facts.service_ranges = range.map(|range| range.parse().unwrap()).collect();
    let findings = set.lint();
    (scenario, findings)
}

#[track_caller]
fn check(name: &str) {
    let (scenario, findings) = lint(name);
    let findings = findings.findings;
    for expected in &scenario.lint {
        let is_known = RULES.iter().any(|rule| rule.id == expected.rule);
        let found = findings.iter().any(|finding| expected.is(finding));
        assert!(found || !is_known, "{name}: no {} {}", expected.rule, expected.object);
    }
    for finding in findings {
        let is_expected = scenario.lint.iter().any(|expected| expected.is(&finding));
        assert!(finding.severity != Severity::Error || is_expected, "{name}: {finding:?}");
    }
}

#[test]
fn the_tenant_as_written_has_notes_only() {
    let (scenario, findings) = lint("01-egress");
    let rules: BTreeSet<&str> = findings.findings.iter().map(|finding| finding.rule).collect();
    let is_known = |id: &&str| RULES.iter().any(|rule| rule.id == *id);
    let notes = scenario.notes.iter().map(String::as_str).filter(is_known);
    assert_eq!(rules, notes.collect(), "{:?}", findings.findings);
    let rules = |set: Set| set.lint().findings.into_iter().map(|finding| finding.rule);
    assert_eq!(
        rules(Set::tenant()).collect::<BTreeSet<_>>(),
        scenario.notes.iter().map(String::as_str).filter(is_known).collect()
    );
}

#[test]
fn a_tenant_without_a_wall() {
    check("06-pivot");
}

#[test]
fn no_gateway_node() {
    check("10-no-gateway-node");
}

#[test]
fn a_double_tag() {
    check("11-double-tag");
}

#[test]
fn every_documented_trap_at_once() {
    check("12-platform-lint");
}
