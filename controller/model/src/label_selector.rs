//! Label selectors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A label selector: requirements, all of which a selected object meets. Without requirements it
/// selects every object.
///
/// `Display` prints the text by which OVN-Kubernetes names address sets of selected pods.
///
/// ```
/// use patchbay_model::{Requirement, Selector};
///
/// let selector: Selector = [
///     Requirement::NotIn("tier".to_owned(), ["web".to_owned(), "app".to_owned()].into()),
///     Requirement::Equals("app".to_owned(), "db".to_owned()),
/// ]
/// .into_iter()
/// .collect();
/// assert!(selector.matches(&[("app".to_owned(), "db".to_owned())].into()));
/// assert!(!selector.matches(&[].into()));
/// assert_eq!(
///     selector.to_string(),
///     "LS{ML:{app: db,},ME:{LSR{Key:tier,Operator:NotIn,Values:[app web],}},}"
/// );
/// ```
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Selector(Vec<Requirement>);

/// Requirement of a label selector.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Requirement {
    /// The label has this value: an element of `matchLabels`.
    Equals(String, String),
    /// The label has one of these values.
    In(String, BTreeSet<String>),
    /// The label has none of these values, or is missing.
    NotIn(String, BTreeSet<String>),
    /// The label is there.
    Exists(String),
    /// The label is missing.
    DoesNotExist(String),
}

impl FromIterator<Requirement> for Selector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        Self(requirements.into_iter().collect())
    }
}

impl Selector {
    /// Returns `true` if an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(labels))
    }

    /// The requirements.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }
}

impl Requirement {
    /// Key of the label that the requirement is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Equals(key, _)
            | Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::DoesNotExist(key) => key,
        }
    }

    fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Equals(key, value) => labels.get(key) == Some(value),
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut labels = BTreeMap::new();
        let mut expressions = BTreeSet::new();
        for requirement in &self.0 {
            let expression = |key: &str, operator, values: Option<&BTreeSet<String>>| {
                let values = values.into_iter().flatten().map(String::as_str);
                let values = values.collect::<Vec<_>>().join(" ");
                format!("LSR{{Key:{key},Operator:{operator},Values:[{values}],}}")
            };
            expressions.insert(match requirement {
                Requirement::Equals(key, value) => {
                    labels.insert(key, value);
                    continue;
                }
                Requirement::In(key, values) => expression(key, "In", Some(values)),
                Requirement::NotIn(key, values) => expression(key, "NotIn", Some(values)),
                Requirement::Exists(key) => expression(key, "Exists", None),
                Requirement::DoesNotExist(key) => expression(key, "DoesNotExist", None),
            });
        }
        f.write_str("LS{")?;
        if !labels.is_empty() {
            f.write_str("ML:{")?;
            for (key, value) in labels {
                write!(f, "{key}: {value},")?;
            }
            f.write_str("},")?;
        }
        if !expressions.is_empty() {
            let expressions: Vec<String> = expressions.into_iter().collect();
            write!(f, "ME:{{{}}},", expressions.join(","))?;
        }
        f.write_str("}")
    }
}
