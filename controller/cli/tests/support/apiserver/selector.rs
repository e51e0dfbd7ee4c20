//! Label and field selectors from the query of a request.

use serde_json::Value;

/// The selection of objects of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    pub(super) labels: String,
    pub(super) fields: String,
    pub(super) namespace: Option<String>,
}

impl Selector {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let meta = &object["metadata"];
        let of_namespace = self.namespace.as_ref();
        of_namespace.is_none_or(|namespace| meta["namespace"] == **namespace)
            && requirements(&self.labels)
                .all(|requirement| matches(requirement, |key| meta["labels"][key].as_str()))
            && requirements(&self.fields).all(|requirement| {
                matches(requirement, |path| {
                    object.pointer(&format!("/{}", path.replace('.', "/")))?.as_str()
                })
            })
    }
}

/// Splits at commas that are not in parentheses.
fn requirements(selector: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    selector
        .split(move |character| {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            character == ',' && depth == 0
        })
        .filter(|requirement| !requirement.trim().is_empty())
}

fn matches<'a>(requirement: &str, value: impl Fn(&str) -> Option<&'a str>) -> bool {
    let requirement = requirement.trim();
    let listed = |list: &str, value: &str| {
        let list = list.trim().trim_start_matches('(').trim_end_matches(')');
        list.split(',').any(|one| one.trim() == value)
    };
    if let Some((key, list)) = requirement.split_once(" notin ") {
        return !value(key.trim()).is_some_and(|value| listed(list, value));
    }
    if let Some((key, list)) = requirement.split_once(" in ") {
        return value(key.trim()).is_some_and(|value| listed(list, value));
    }
    if let Some((key, wanted)) = requirement.split_once("!=") {
        return value(key.trim()) != Some(wanted.trim());
    }
    if let Some((key, wanted)) = requirement.split_once('=') {
        return value(key.trim()) == Some(wanted.trim_start_matches('=').trim());
    }
    match requirement.strip_prefix('!') {
        Some(key) => value(key.trim()).is_none(),
        None => value(requirement).is_some(),
    }
}
