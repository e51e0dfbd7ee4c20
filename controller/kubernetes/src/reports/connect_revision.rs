//! The version of a ClusterNetworkConnect that a zone's report is about.

use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};
use patchbay_resources::object::ObjectMeta;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Annotations from which Northbound rows are derived.
const ANNOTATIONS: [&str; 2] = [ROUTER_TUNNEL_KEY, ConnectSubnetMap::ANNOTATION];

/// The version of a ClusterNetworkConnect as far as Northbound rows depend on it: its generation,
/// and a digest of the annotations that the cluster manager writes.
///
/// The annotations change without a new generation when networks come and go. The resource version
/// would also change with every status update.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ConnectRevision {
    /// `metadata.generation`.
    generation: Option<i64>,
    /// The first 16 hexadecimal digits of the annotations' SHA-256.
    annotations: String,
}

impl ConnectRevision {
    pub(crate) fn of(object: &ObjectMeta) -> Self {
        let mut digest = Sha256::new();
        for annotation in ANNOTATIONS {
            let annotations = object.annotations.as_ref();
            let value = annotations.and_then(|annotations| annotations.get(annotation));
            // The length precedes each value, so that a missing, an empty and a shifted value
            // differ.
            digest.update(value.map_or(u64::MAX, |value| value.len() as u64).to_be_bytes());
            digest.update(value.map_or("", String::as_str));
        }
        let mut first = [0; 8];
        first.copy_from_slice(&digest.finalize()[..8]);
        Self {
            generation: object.generation,
            annotations: format!("{:016x}", u64::from_be_bytes(first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(generation: i64, annotations: &Value) -> ConnectRevision {
        let object = json!({"generation": generation, "annotations": annotations});
        ConnectRevision::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_revision_changes_with_the_generation_and_the_managed_annotations() {
        let [key, subnets] = ANNOTATIONS;
        let revision = of(1, &json!({key: "1", subnets: "{}"}));
        assert_eq!(revision, of(1, &json!({key: "1", subnets: "{}", "note": "x"})));
        let others = [
            of(2, &json!({key: "1", subnets: "{}"})),
            of(1, &json!({key: "2", subnets: "{}"})),
            of(1, &json!({key: "1{", subnets: "}"})),
            of(1, &json!({key: "1"})),
            of(1, &json!({key: "1", subnets: ""})),
            of(1, &json!({})),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(*other, revision);
            assert!(!others[..index].contains(other));
        }
    }
}
