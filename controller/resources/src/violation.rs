//! What is wrong with an object, field by field.

use std::fmt;

/// One rule that an object breaks.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Violation {
    /// Path of the field that the rule stands at, such as `spec.layer3.subnets[0].cidr`.
    pub field: String,
    /// The rule's message, word for word as an API server would give it.
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
