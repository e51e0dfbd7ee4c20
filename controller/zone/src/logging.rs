//! Logging of the ACLs of a namespace, or of an administrator's policy.

use patchbay_schemas::nb::AclSeverity;
use serde::Deserialize;

/// Severities with which ACLs of an object are logged. `None`: they are not logged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AclLogging {
    /// ACLs that drop packets.
    pub deny: Option<AclSeverity>,
    /// ACLs of rules that allow packets.
    pub allow: Option<AclSeverity>,
    /// ACLs of rules that leave packets to other policies.
    pub pass: Option<AclSeverity>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotation {
    deny: String,
    allow: String,
    pass: String,
}

impl AclLogging {
    /// Reads the annotation [`ACL_LOGGING`](patchbay_model::ACL_LOGGING). What cannot be read is
    /// not logged, and its reason is returned beside.
    pub fn read(text: &str) -> (Self, Vec<String>) {
        if text.is_empty() {
            return Default::default();
        }
        let annotation: Annotation = match serde_json::from_str(text) {
            Ok(annotation) => annotation,
            Err(error) => return (Self::default(), vec![error.to_string()]),
        };
        let mut reasons = Vec::new();
        let mut severity = |field: &str, text: &str| match text {
            "" => None,
            "alert" => Some(AclSeverity::Alert),
            "warning" => Some(AclSeverity::Warning),
            "notice" => Some(AclSeverity::Notice),
            "info" => Some(AclSeverity::Info),
            "debug" => Some(AclSeverity::Debug),
            other => {
                reasons.push(format!(
                    "{field}: {other:?} is none of alert, warning, notice, info and debug"
                ));
                None
            }
        };
        let logging = Self {
            deny: severity("deny", &annotation.deny),
            allow: severity("allow", &annotation.allow),
            pass: severity("pass", &annotation.pass),
        };
        (logging, reasons)
    }
}
