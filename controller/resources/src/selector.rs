//! Label selectors: validation and matching.

mod label_index;
mod library_errors;

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::Requirement;

use crate::object::{LabelSelector, LabelSelectorRequirement};
use patchbay_model::FieldProblem;

pub use label_index::LabelIndex;
pub use library_errors::{RequirementError, convert};
pub use patchbay_model::Selector;

impl From<&LabelSelector> for Selector {
    /// Converts a label selector, without validation. A selector with an unknown operator selects
    /// nothing.
    fn from(selector: &LabelSelector) -> Self {
        let labels = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::Equals(key.clone(), value.clone()));
        let expressions = selector.match_expressions.iter().flatten().map(requirement);
        labels.chain(expressions).collect()
    }
}

fn requirement(expression: &LabelSelectorRequirement) -> Requirement {
    let key = expression.key.clone();
    let values = || expression.values.iter().flatten().cloned().collect();
    match expression.operator.as_str() {
        "In" => Requirement::In(key, values()),
        "NotIn" => Requirement::NotIn(key, values()),
        "Exists" => Requirement::Exists(key),
        "DoesNotExist" => Requirement::DoesNotExist(key),
        // No label has one of zero values.
        _ => Requirement::In(key, BTreeSet::new()),
    }
}

/// Validates and converts the label selector of a field.
///
/// # Errors
/// All [`violations`] of the selector.
pub fn parse(field: &str, selector: &LabelSelector) -> Result<Selector, Vec<FieldProblem>> {
    let found = violations(field, selector);
    if !found.is_empty() {
        return Err(found);
    }
    Ok(selector.into())
}

/// `true` when the selector selects an object with these labels. An empty selector selects every
/// object, and one with [`violations`] none.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    parse("", selector).is_ok_and(|selector| selector.matches(labels))
}

/// Violations of the label selector of a field, as API servers word them.
pub fn violations(field: &str, selector: &LabelSelector) -> Vec<FieldProblem> {
    let mut found = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        let field = format!("{field}.matchLabels[{key}]");
        found.extend(key_problem(key).map(|problem| FieldProblem::new(&field, problem)));
        found.extend(value_problem(value).map(|problem| FieldProblem::new(&field, problem)));
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        found.extend(requirement_violations(
            &format!("{field}.matchExpressions[{index}]"),
            requirement,
        ));
    }
    found
}

fn requirement_violations(
    field: &str,
    requirement: &LabelSelectorRequirement,
) -> Vec<FieldProblem> {
    let mut found = Vec::new();
    found.extend(
        key_problem(&requirement.key)
            .map(|problem| FieldProblem::new(format!("{field}.key"), problem)),
    );
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => found.push(FieldProblem::new(
            format!("{field}.values"),
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => found.push(FieldProblem::new(
            format!("{field}.values"),
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => found.push(FieldProblem::new(
            format!("{field}.operator"),
            format!("Invalid value: \"{other}\": not a valid selector operator"),
        )),
    }
    for (index, value) in values.iter().enumerate() {
        found.extend(
            value_problem(value)
                .map(|problem| FieldProblem::new(format!("{field}.values[{index}]"), problem)),
        );
    }
    found
}

/// Length limit of names in keys and of values, in bytes.
const MAX_LABEL_BYTES: usize = 63;
/// Message of API servers for text above [`MAX_LABEL_BYTES`].
const TOO_LONG_MESSAGE: &str = "must be no more than 63 bytes";
/// Message of API servers for an empty name or prefix.
const EMPTY_MESSAGE: &str = "must be non-empty";
/// Message of API servers for invalid names in keys.
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// Message of API servers for invalid label values.
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// Message of API servers for names of objects and prefixes of keys that are no DNS subdomains.
pub const DNS_SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Message of API servers for names of namespaces that are no DNS labels.
pub const DNS_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
    '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Error of a label or annotation key as API servers word it. `None`: the key is valid.
///
/// A key is an optional DNS subdomain and `/`, followed by a name of at most 63 characters.
pub fn key_problem(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let problems = match parts[..] {
        [name] => name_problems(name),
        [prefix, name] => {
            let prefix = match prefix {
                "" => Some(EMPTY_MESSAGE),
                prefix => (!is_dns_subdomain(prefix)).then_some(DNS_SUBDOMAIN_RULE),
            };
            let prefix = prefix.map(|problem| format!("prefix part {problem}"));
            prefix.into_iter().chain(name_problems(name)).collect()
        }
        _ => vec![format!(
            "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )],
    };
    invalid_value(key, &problems)
}

/// Errors of the name part of a key.
fn name_problems(name: &str) -> Vec<String> {
    let length = match name.len() {
        0 => Some(EMPTY_MESSAGE),
        length => (length > MAX_LABEL_BYTES).then_some(TOO_LONG_MESSAGE),
    };
    let text = (!is_label_text(name)).then_some(NAME_RULE);
    length.into_iter().chain(text).map(|problem| format!("name part {problem}")).collect()
}

/// Error of a label value as API servers word it. `None`: the value is valid, which includes the
/// empty value. Values have at most 63 characters.
pub fn value_problem(value: &str) -> Option<String> {
    let length = (value.len() > MAX_LABEL_BYTES).then_some(TOO_LONG_MESSAGE);
    let text = (!value.is_empty() && !is_label_text(value)).then_some(VALUE_RULE);
    let problems: Vec<&str> = length.into_iter().chain(text).collect();
    invalid_value(value, &problems)
}

/// Message of API servers for an invalid value. `None`: no problems.
fn invalid_value(value: &str, problems: &[impl std::borrow::Borrow<str>]) -> Option<String> {
    (!problems.is_empty()).then(|| {
        let problems: Vec<&str> = problems.iter().map(std::borrow::Borrow::borrow).collect();
        format!("Invalid value: \"{value}\": {}", problems.join("; "))
    })
}

/// `true` when the text has the characters of a label name. The length is not checked.
fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// `true` when the text is an RFC 1123 subdomain, as names of objects are.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| !label.is_empty() && is_dns_label_text(label))
}

/// `true` when the text is an RFC 1123 label, as names of namespaces are.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_label_text(text)
}

fn is_dns_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.into(),
                operator: operator.into(),
                values: (!values.is_empty())
                    .then(|| values.iter().map(|value| (*value).into()).collect()),
            }]),
            match_labels: None,
        }
    }

    #[test]
    fn operators_match_labels() {
        let blue = labels(&[("network", "blue"), ("tier", "front")]);
        for (key, operator, values, selected) in [
            ("network", "In", &["blue", "green"][..], true),
            ("network", "In", &["green"][..], false),
            ("missing", "In", &["blue"][..], false),
            ("network", "NotIn", &["green"][..], true),
            ("network", "NotIn", &["blue"][..], false),
            ("missing", "NotIn", &["blue"][..], true),
            ("tier", "Exists", &[][..], true),
            ("missing", "Exists", &[][..], false),
            ("tier", "DoesNotExist", &[][..], false),
            ("missing", "DoesNotExist", &[][..], true),
        ] {
            let selector = requirement(key, operator, values);
            assert_eq!(matches(&selector, &blue), selected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn all_requirements_must_match_and_the_empty_selector_selects_all() {
        let blue = labels(&[("network", "blue")]);
        let mut selector = requirement("tier", "DoesNotExist", &[]);
        selector.match_labels = Some(blue.clone());
        assert!(matches(&selector, &blue));
        selector.match_labels = Some(labels(&[("network", "green")]));
        assert!(!matches(&selector, &blue));
        assert!(matches(&LabelSelector::default(), &BTreeMap::new()));
    }

    #[test]
    fn invalid_selectors_have_violations_and_select_nothing() {
        for (selector, expected) in [
            (
                requirement("a", "In", &[]),
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                requirement("a", "Exists", &["b"]),
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
                 'DoesNotExist'",
            ),
            (
                requirement("a", "Equals", &["b"]),
                "s.matchExpressions[0].operator: Invalid value: \"Equals\": not a valid selector operator",
            ),
        ] {
            let texts: Vec<_> =
                violations("s", &selector).iter().map(ToString::to_string).collect();
            assert_eq!(texts, [expected]);
            assert!(!matches(&selector, &labels(&[("x", "y")])));
        }
        assert_eq!(violations("s", &requirement("-a", "Exists", &[])).len(), 1);
        assert_eq!(violations("s", &requirement("a", "In", &["b c"])).len(), 1);
        assert!(violations("s", &requirement("k8s.ovn.org/a_b", "In", &["B.c"])).is_empty());
    }
}
