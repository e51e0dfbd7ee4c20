//! The table of rules: manifests after which each rule finds something, and similar ones after
//! which it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ipnet::IpNet;
use patchbay_lint::{Finding, RULES};
use serde::Deserialize;

use crate::set::Set;

/// Files with the cases, by family.
const FILES: [&str; 13] = [
    "objects",
    "vlans",
    "gateways",
    "attachments",
    "tenancy",
    "routes",
    "nat",
    "balancers",
    "metallb",
    "values",
    "dns",
    "live",
    "rows",
];

/// Manifests for one rule, as changes of those of the tenant *alpha*.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rule: String,
    /// Changes after which the rule finds something.
    trigger: String,
    /// Objects and fields that the rule names.
    expect: Vec<String>,
    /// Further changes after which the rule finds nothing.
    near: Vec<String>,
    #[serde(default)]
    service_cidr: Vec<IpNet>,
    #[serde(default)]
    node_interfaces: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    kube_ovn_northd: bool,
}

impl Case {
    /// Findings of the rule after changes.
    fn findings(&self, changes: &[&str]) -> Vec<Finding> {
        let mut set = Set::tenant();
        for change in changes {
            set.change(change);
        }
        set.facts.service_ranges.clone_from(&self.service_cidr);
        set.facts.node_interfaces.clone_from(&self.node_interfaces);
        set.facts.is_northd_stock = !self.kube_ovn_northd;
        let findings = set.lint().findings.into_iter();
        findings.filter(|finding| finding.rule == self.rule).collect()
    }
}

fn cases() -> Vec<Case> {
    let read = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules");
        let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
        let cases: Vec<Case> =
            serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        cases
    };
    FILES.into_iter().flat_map(read).collect()
}

/// Object and field of a finding.
fn place(finding: &Finding) -> String {
    let field = finding.field.as_deref().unwrap_or_default();
    format!("{} {field}", finding.object).trim_end().to_owned()
}

#[test]
fn each_rule_finds_its_mistake_and_not_its_neighbour() {
    let mut wrong = String::new();
    for (number, case) in cases().iter().enumerate() {
        let rule = &case.rule;
        let found: Vec<String> = case.findings(&[&case.trigger]).iter().map(place).collect();
        if found != case.expect {
            writeln!(wrong, "{number} {rule}: {found:?} instead of {:?}", case.expect).unwrap();
        }
        for near in &case.near {
            let found = case.findings(&[&case.trigger, near]);
            if !found.is_empty() {
                writeln!(wrong, "{number} {rule}, near {near}: {found:?}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_rule_of_the_table_has_a_case() {
    let tested: BTreeSet<String> = cases().into_iter().map(|case| case.rule).collect();
    let rules: BTreeSet<String> = RULES.iter().map(|rule| rule.id.to_owned()).collect();
    assert_eq!(tested, rules);
}

#[test]
fn messages_name_objects_and_corrections() {
    let mut text = String::new();
    for case in cases() {
        for finding in case.findings(&[&case.trigger]) {
            let (rule, place) = (finding.rule, place(&finding));
            writeln!(text, "{rule} {place}\n  {}\n  {}", finding.message, finding.repair).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}
