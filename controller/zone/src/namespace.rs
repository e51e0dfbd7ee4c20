//! Namespaces, as rows depend on them.

use std::collections::BTreeMap;

use patchbay_model::{ACL_LOGGING, MULTICAST_ENABLED};

use super::logging::AclLogging;

/// Label that API servers set on each namespace, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneNamespace {
    /// Labels, with the one that API servers set.
    pub labels: BTreeMap<String, String>,
    /// Logging of the ACLs of its policies.
    pub logging: AclLogging,
    /// Reasons why the annotation of logging cannot be read.
    pub logging_problems: Vec<String>,
    /// `true` if its pods may exchange multicast packets.
    pub allows_multicast: bool,
}

impl ZoneNamespace {
    pub(crate) fn new(
        name: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let text = annotations.get(ACL_LOGGING).map_or("", String::as_str);
        let (logging, logging_problems) = AclLogging::read(text);
        let mut labels = labels.clone();
        labels.entry(NAME_LABEL.to_owned()).or_insert_with(|| name.to_owned());
        Self {
            labels,
            logging,
            logging_problems,
            allows_multicast: annotations
                .get(MULTICAST_ENABLED)
                .is_some_and(|value| value == "true"),
        }
    }
}
