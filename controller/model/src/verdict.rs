//! Conditions of a ClusterNetworkConnect.

/// Whether what a condition is about is so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holds {
    /// It is.
    True,
    /// It is not.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl Holds {
    /// The text of `status` in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What one reporter has to say about a connect: the content of one condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Type of the condition.
    pub type_: &'static str,
    /// Whether the condition is true.
    pub holds: Holds,
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}
