//! Errors of label selectors in the words of Kubernetes' library.
//!
//! API servers do not validate the selectors of custom resources. Controllers find their errors,
//! and report them in conditions.

use thiserror::Error;

use super::{Selector, key_problem, value_problem};
use crate::aggregate::aggregate;
use crate::object::LabelSelector;

/// Invalid requirement of a label selector, in the words of Kubernetes' library.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0}")]
pub struct RequirementError(String);

/// Converts a label selector as controllers do.
///
/// # Errors
/// The error of the first invalid requirement: labels in the order of their keys, then expressions.
pub fn convert(selector: &LabelSelector) -> Result<Selector, RequirementError> {
    for (key, value) in selector.match_labels.iter().flatten() {
        check(key, std::slice::from_ref(value), None)?;
    }
    for expression in selector.match_expressions.iter().flatten() {
        let values = expression.values.as_deref().unwrap_or_default();
        let number = match expression.operator.as_str() {
            "In" | "NotIn" => values
                .is_empty()
                .then_some("for 'in', 'notin' operators, values set can't be empty"),
            "Exists" | "DoesNotExist" => (!values.is_empty())
                .then_some("values set must be empty for exists and does not exist"),
            other => {
                let problem = format!("{other:?} is not a valid label selector operator");
                return Err(RequirementError(problem));
            }
        };
        check(&expression.key, values, number)?;
    }
    Ok(selector.into())
}

/// Checks a requirement. `number` is the error of the number of values.
fn check(key: &str, values: &[String], number: Option<&str>) -> Result<(), RequirementError> {
    let key_problem = key_problem(key).map(|problem| format!("key: {problem}"));
    let number = number.map(|problem| {
        let given = (!values.is_empty()).then_some(values);
        let given = serde_json::json!(given);
        format!("values: Invalid value: {given}: {problem}")
    });
    let values = values.iter().enumerate().filter_map(|(place, value)| {
        let problem = value_problem(value)?;
        Some(format!("values[{place}][{key}]: {problem}"))
    });
    let problems: Vec<String> = key_problem.into_iter().chain(number).chain(values).collect();
    if problems.is_empty() { Ok(()) } else { Err(RequirementError(aggregate(&problems))) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problem(selector: Value) -> String {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        convert(&selector).unwrap_err().to_string()
    }

    fn of_expression(key: &str, operator: &str, values: &[&str]) -> String {
        let expression = json!({"key": key, "operator": operator, "values": values});
        problem(json!({"matchExpressions": [expression]}))
    }

    #[test]
    fn errors_have_the_words_of_kubernetes() {
        assert_eq!(
            of_expression("a", "Nope", &["x"]),
            r#""Nope" is not a valid label selector operator"#
        );
        assert_eq!(
            of_expression("a", "In", &[]),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
        );
        assert_eq!(
            of_expression("a", "Exists", &["x"]),
            r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#
        );
        assert_eq!(
            of_expression("-a", "Exists", &[]),
            "key: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        );
        assert_eq!(
            problem(json!({"matchLabels": {"a": "b c"}})),
            "values[0][a]: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        );
        let several = of_expression("a/", "NotIn", &["b c"]);
        let parts = ["[key: ", "; name part must consist of", ", values[0][a/]: "];
        assert!(several.starts_with(parts[0]), "{several}");
        assert!(parts.iter().all(|part| several.contains(part)), "{several}");
    }
}
