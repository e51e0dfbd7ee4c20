//! Namespaces, as rows depend on them.

use std::collections::BTreeMap;

/// Label that API servers set on each namespace, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneNamespace {
    /// Labels, with the one that API servers set.
    pub labels: BTreeMap<String, String>,
}

impl ZoneNamespace {
    pub(crate) fn new(name: &str, labels: &BTreeMap<String, String>) -> Self {
        let mut labels = labels.clone();
        labels
            .entry(NAME_LABEL.to_owned())
            .or_insert_with(|| name.to_owned());
        Self { labels }
    }
}
