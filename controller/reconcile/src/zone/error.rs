//! Failures of a zone's reconciliation.

use patchbay_engine::client::OpError;
use patchbay_rows::PlanError;
use thiserror::Error;

use crate::northbound::{CommitError, ReconnectError};

/// Start of the subject of a ClusterNetworkConnect; its name follows.
pub(super) const CONNECT: &str = "ClusterNetworkConnect ";

/// Failure of [`ZoneReconciler::reconcile`](super::ZoneReconciler::reconcile).
///
/// `subject` is the part of the plan that failed: a capability such as `networks` or `policies`, or
/// an object with its kind and name, such as a ClusterNetworkConnect.
#[derive(Debug, Error)]
pub enum ZoneError {
    /// The planned rows do not fit the database: for example its schema lacks a column.
    #[error("{subject}: {source}")]
    Plan {
        /// Part of the plan.
        subject: String,
        /// Error of the planner.
        source: PlanError,
    },
    /// The transaction was rejected or not answered in time.
    #[error("{subject}: {source}")]
    Commit {
        /// Part of the plan.
        subject: String,
        /// Error of the database or the client.
        source: CommitError,
    },
    /// The connection was lost before the transaction was sent or answered, and was not restored.
    #[error("{subject}: {lost}; {source}")]
    Lost {
        /// Part of the plan.
        subject: String,
        /// [`CommitError::NotSent`] or [`CommitError::Unknown`].
        lost: CommitError,
        /// Failure of the reconnect.
        source: ReconnectError,
    },
    /// The rows of several subjects are not committed.
    #[error("{}", joined(.0))]
    Several(Vec<Self>),
}

impl ZoneError {
    /// `true` if the server has not replied, or has not come back, within the time limit.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Plan { .. } => false,
            Self::Commit { source, .. } => matches!(source, CommitError::NoReply(_)),
            Self::Lost { source, .. } => source.is_timeout(),
            Self::Several(errors) => errors.iter().any(Self::is_timeout),
        }
    }

    /// Name of the ClusterNetworkConnect whose rows the server rejects, and the server's error.
    /// `None`: the error is another one.
    pub fn rejected_connect(&self) -> Option<(&str, &OpError)> {
        match self {
            Self::Commit { subject, source: CommitError::Rejected(error) } => {
                Some((subject.strip_prefix(CONNECT)?, &**error))
            }
            _ => None,
        }
    }
}

fn joined(errors: &[ZoneError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
