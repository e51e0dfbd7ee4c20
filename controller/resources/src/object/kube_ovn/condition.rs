//! Conditions of Kube-OVN, which have the time of their last update, too.

use serde::{Deserialize, Serialize};

use crate::object::Time;

/// A condition of a status.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeOvnCondition {
    /// Type of the condition.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Generation of the object that the condition is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Time of the last change of any field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Time of the last change of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Name of the node that the condition is about, in the status of a provider network.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
}
