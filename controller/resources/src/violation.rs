//! Violations of the rules of a resource.

use std::fmt;

/// A rule that an object breaks.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Violation {
    /// Path of the field with the rule, such as `spec.layer3.subnets[0].cidr`.
    pub field: String,
    /// Message of the rule, as an API server words it.
    pub message: String,
}

impl Violation {
    /// A violation of the rule with this message at this field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
