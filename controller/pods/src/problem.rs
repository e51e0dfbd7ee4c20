//! Reasons why pods are not wired as their objects specify.

use patchbay_model::{AttachmentProblem, PodFieldProblem};
use patchbay_zone::MachineKey;
use thiserror::Error;

/// Reason why a pod is not wired as its object specifies.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PodProblem {
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] PodFieldProblem),
    /// The pod is not attached to a network.
    #[error(transparent)]
    Attachment(#[from] AttachmentProblem),
    /// The virtual machine has two older pods that are alive.
    #[error(
        "virtual machine {}/{} has two older pods that are alive, so this one has no port until one of them ends",
        .0.namespace, .0.name
    )]
    SurplusPod(MachineKey),
}
