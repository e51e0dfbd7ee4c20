//! The filter of the log, which the admin port changes.

use thiserror::Error;

/// The filter of a process's log: directives as in `RUST_LOG`.
pub trait LogFilter: Send {
    /// The present directives.
    fn directives(&self) -> String;

    /// Sets the directives.
    ///
    /// # Errors
    /// The text is not a list of directives. The present ones stay.
    fn set_directives(&self, directives: &str) -> Result<(), LogFilterError>;
}

/// A text is not a list of directives.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("the directives cannot be read: {reason}")]
pub struct LogFilterError {
    /// The reason.
    pub reason: String,
}
