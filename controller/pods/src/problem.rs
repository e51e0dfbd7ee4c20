//! Reasons why pods are not wired as their objects say.

use patchbay_model::{AttachmentProblem, PodFieldProblem};
use thiserror::Error;

/// Reason why a pod is not wired as its object says.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PodProblem {
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] PodFieldProblem),
    /// The pod is not attached to a network.
    #[error(transparent)]
    Attachment(#[from] AttachmentProblem),
}
