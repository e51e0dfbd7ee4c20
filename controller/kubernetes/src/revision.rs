//! Which version of a connect something was said about.

use patchbay_resources::object::ObjectMeta;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};

/// The annotations that rows follow from.
const ANNOTATIONS: [&str; 2] = [ROUTER_TUNNEL_KEY, ConnectSubnetMap::ANNOTATION];

/// A version of a connect, as far as rows follow from it: its spec, and the annotations of the cluster-wide half. These
/// change without another generation when networks come and go. The resource version would not do: it changes with the
/// status, too.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Revision {
    /// The object's generation.
    generation: Option<i64>,
    /// A digest of the annotations.
    annotations: String,
}

impl Revision {
    pub(super) fn of(object: &ObjectMeta) -> Self {
        let mut digest = Sha256::new();
        for annotation in ANNOTATIONS {
            let annotations = object.annotations.as_ref();
            let value = annotations.and_then(|annotations| annotations.get(annotation));
            // The length comes first: none, an empty one, and what would be parts of the other are different.
            digest.update(
                value
                    .map_or(u64::MAX, |value| value.len() as u64)
                    .to_be_bytes(),
            );
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

    fn of(generation: i64, annotations: &Value) -> Revision {
        let object = json!({"generation": generation, "annotations": annotations});
        Revision::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_rows_follow_from_makes_another_revision() {
        let [key, subnets] = ANNOTATIONS;
        let revision = of(1, &json!({key: "1", subnets: "{}"}));
        assert_eq!(
            revision,
            of(1, &json!({key: "1", subnets: "{}", "note": "x"}))
        );
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
