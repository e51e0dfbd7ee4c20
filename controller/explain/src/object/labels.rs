//! Selectors in words, what they select, and the labels that there are.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::{Requirement, Selector};

use super::MAX_NAMED;

/// Label that every namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A selector in the words of kubectl, such as `app=web, tier in (a, b)`. Empty: it selects all.
pub(super) fn selector_text(selector: &Selector) -> String {
    let requirements = selector.requirements().iter().map(|requirement| match requirement {
        Requirement::Equals(key, value) => format!("{key}={value}"),
        Requirement::In(key, values) => format!("{key} in ({})", list(values)),
        Requirement::NotIn(key, values) => format!("{key} not in ({})", list(values)),
        Requirement::Exists(key) => key.clone(),
        Requirement::DoesNotExist(key) => format!("!{key}"),
    });
    requirements.collect::<Vec<_>>().join(", ")
}

fn list(values: &BTreeSet<String>) -> String {
    values.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The labels of objects in a sentence, those with keys of the selector first.
pub(super) fn known_labels<'a>(
    selector: &Selector,
    objects: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> String {
    let keys: BTreeSet<&str> = selector.requirements().iter().map(key).collect();
    let mut labels = BTreeSet::new();
    let mut count = 0;
    for of_object in objects {
        count += 1;
        for (key, value) in of_object.iter().filter(|(key, _)| *key != NAME_LABEL) {
            let text = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
            labels.insert((!keys.contains(key.as_str()), text));
        }
    }
    let labels: Vec<String> = labels.into_iter().map(|(_, text)| text).collect();
    match (count, labels.is_empty()) {
        (0, _) => "there are none".to_owned(),
        (_, true) => "they have no labels".to_owned(),
        (_, false) => format!("their labels are {}", abbreviate_list(&labels, MAX_NAMED)),
    }
}

fn key(requirement: &Requirement) -> &str {
    match requirement {
        Requirement::Equals(key, _)
        | Requirement::In(key, _)
        | Requirement::NotIn(key, _)
        | Requirement::Exists(key)
        | Requirement::DoesNotExist(key) => key,
    }
}

/// Names in a sentence.
pub(super) fn names<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() { "none".to_owned() } else { abbreviate_list(names, MAX_NAMED) }
}
