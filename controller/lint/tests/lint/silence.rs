//! Findings that annotations leave out.

use patchbay_lint::RULES;

use crate::set::Set;

fn rules_of(set: &Set, object: &str) -> Vec<&'static str> {
    let findings = set.lint().findings.into_iter();
    findings.filter(|one| one.object == object).map(|one| one.rule).collect()
}

/// A VLAN with an annotation, on an interface without and with a tag.
fn set(ignored: &str, nic: &str, id: u32) -> Set {
    let mut set = Set::default();
    set.change(&format!(
        "apiVersion: kubeovn.io/v1\nkind: ProviderNetwork\nmetadata: {{name: p}}\nspec: {{defaultInterface: {nic}}}\n---\n\
         apiVersion: kubeovn.io/v1\nkind: Vlan\nmetadata: {{name: v, annotations: {{patchbay.io/lint-ignore: '{ignored}'}}}}\n\
         spec: {{id: {id}, provider: p}}"
    ));
    set
}

#[test]
fn an_annotation_of_the_object_silences_its_findings_and_they_are_counted() {
    let silent = set("T1, V2", "eth1", 0);
    assert_eq!(rules_of(&silent, "Vlan/v"), Vec::<&str>::new());
    assert_eq!(silent.lint().silenced, 1);
    let other = set("V22,v2", "eth1", 0);
    assert_eq!(rules_of(&other, "Vlan/v"), ["V2"]);
    assert_eq!(other.lint().silenced, 0);
}

#[test]
fn rules_after_which_everything_looks_ready_cannot_be_silenced() {
    assert_eq!(rules_of(&set("V1", "data.5", 5), "Vlan/v"), ["V1"]);
    let loud: Vec<&str> =
        RULES.iter().filter(|rule| !rule.can_be_silenced()).map(|rule| rule.id).collect();
    for id in ["V1", "G1", "G2", "G3", "N2"] {
        assert!(loud.contains(&id), "{id}");
    }
}
