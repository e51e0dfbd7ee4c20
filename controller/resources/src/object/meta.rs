//! Metadata, conditions and label selectors (`meta/v1`).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

/// A point in time, in whole seconds and UTC when written.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(pub Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = Timestamp::from_second(self.0.as_second()).unwrap_or(self.0);
        seconds.fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// Metadata of an object.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Time of creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Seconds from the request of a deletion to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// Time after which the object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Finalizers: the object stays until all are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
    /// Prefix of a name that the API server makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    /// Number of the current specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Owners of fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_fields: Option<Vec<Value>>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace; `None` for kinds without namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Objects that this one goes with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_references: Option<Vec<OwnerReference>>,
    /// Version of the object in its API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Path of the object (deprecated by Kubernetes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_link: Option<String>,
    /// Identity of the object, different for a later object of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// An object that another one goes with.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(default)]
    pub api_version: String,
    /// `true`: the owner's deletion waits for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
    /// `true`: the owner is the controller of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Kind of the owner.
    #[serde(default)]
    pub kind: String,
    /// Name of the owner.
    #[serde(default)]
    pub name: String,
    /// UID of the owner.
    #[serde(default)]
    pub uid: String,
}

/// A condition of a status.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Time of the last change of `status`.
    pub last_transition_time: Time,
    /// Sentence for people.
    #[serde(default)]
    pub message: String,
    /// Generation of the object that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Word for programs.
    #[serde(default)]
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Type of the condition.
    #[serde(default, rename = "type")]
    pub type_: String,
}

/// A selector of objects by their labels.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Requirements beyond equality; all have to be met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
    /// Labels that selected objects have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// A requirement of a label selector.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct LabelSelectorRequirement {
    /// Key of the label.
    #[serde(default)]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(default)]
    pub operator: String,
    /// Values of `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// Placeholders for schemas of Kubernetes' own types, which whoever prints a definition replaces.
#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{Condition, LabelSelector};

    macro_rules! placeholder {
        ($type:ty, $name:literal) => {
            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({"x-kubernetes-type": $name})
                }
            }
        };
    }

    placeholder!(Condition, "Condition");
    placeholder!(LabelSelector, "LabelSelector");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_written_in_whole_seconds_and_utc() {
        let time: Time = serde_json::from_value(json!("2024-05-06T09:08:09.75+02:00")).unwrap();
        assert_eq!(time.to_string(), "2024-05-06T07:08:09Z");
        assert_eq!(serde_json::to_value(&time).unwrap(), json!("2024-05-06T07:08:09Z"));
        assert!(serde_json::from_value::<Time>(json!("yesterday")).is_err());
    }

    #[test]
    fn metadata_keeps_its_fields_in_a_round_trip() {
        let json = json!({
            "annotations": {"a": "1"},
            "creationTimestamp": "2024-05-06T07:08:09Z",
            "deletionGracePeriodSeconds": 30,
            "deletionTimestamp": "2024-05-06T07:08:39Z",
            "finalizers": ["example.com/f"],
            "generateName": "n-",
            "generation": 3,
            "labels": {"l": "2"},
            "managedFields": [{"manager": "m", "operation": "Apply"}],
            "name": "n",
            "namespace": "ns",
            "ownerReferences": [{
                "apiVersion": "v1", "blockOwnerDeletion": true, "controller": true,
                "kind": "Node", "name": "o", "uid": "u1",
            }],
            "resourceVersion": "17",
            "selfLink": "/api/v1/x",
            "uid": "u2",
        });
        let meta: ObjectMeta = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&meta).unwrap(), json);
        assert_eq!(serde_json::to_value(ObjectMeta::default()).unwrap(), json!({}));
    }
}
