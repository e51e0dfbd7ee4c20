//! Failures of the lists and watches of one kind, for the readers of its objects.

use std::sync::Arc;
use std::time::Duration;

use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Object as _;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use crate::watch::watch_error::WatchError;

/// Time after which a failure counts that may pass by itself, such as that of an API server that
/// restarts. It is longer than two of the longest delays between attempts.
const LASTING_FAILURE: Duration = Duration::from_secs(60);

/// What holds while a kind cannot be watched, or listed again.
pub(crate) const SEEN_LAST: &str = "its objects count as they were seen last";

/// A list or a watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReadRequest {
    List,
    Watch,
}

impl ReadRequest {
    /// Text of the log about a failure.
    pub(crate) fn failure_text(self) -> &'static str {
        match self {
            Self::List => "cannot list objects",
            Self::Watch => "cannot watch objects",
        }
    }

    /// Text that follows "cannot be".
    pub(crate) fn participle(self) -> &'static str {
        match self {
            Self::List => "listed",
            Self::Watch => "watched",
        }
    }
}

/// Failure of the lists or the watches of a kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ReadFailure {
    pub(crate) request: ReadRequest,
    pub(crate) reason: Arc<str>,
    pub(crate) cause: ReadFailureCause,
}

/// Cause of a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReadFailureCause {
    /// The API server has refused the request, for example because of a missing right.
    Refused,
    /// The cluster has no definition of the kind.
    Undefined,
    /// Another one, which may pass by itself.
    Passing,
}

impl ReadFailure {
    /// Describes the failure for users. `outcome` is what holds meanwhile.
    pub(crate) fn describe(&self, kind: &str, outcome: &str) -> String {
        let (request, reason) = (self.request.participle(), &self.reason);
        format!("{kind}: cannot be {request}, so {outcome}: {reason}")
    }
}

/// What to install for a kind that the cluster does not define.
pub(crate) fn describe_undefined(kind: &str) -> String {
    let name = match kind {
        ClusterNetworkConnect::KIND => "cnc",
        UserDefinedNetwork::KIND => "udn",
        ClusterUserDefinedNetwork::KIND => "cudn",
        NetworkAttachmentDefinition::KIND => "net-attach-def",
        _ => {
            return "the cluster has no definition of the kind, so it has to be installed"
                .to_owned();
        }
    };
    format!(
        "the cluster has no definition of the kind: install it, for example with \
         `patchbay crds {name} | kubectl apply -f -`"
    )
}

/// Cause of a failed list or watch.
pub(crate) fn cause_of(error: &WatchError) -> ReadFailureCause {
    match error.code() {
        Some(401 | 403) => ReadFailureCause::Refused,
        Some(404) => ReadFailureCause::Undefined,
        _ => ReadFailureCause::Passing,
    }
}

/// `true` if readers are to know of an error, `age` after the first one since a success. A refusal,
/// such as that of a missing right, does not pass by itself.
pub(crate) fn is_lasting(error: &WatchError, age: Duration) -> bool {
    cause_of(error) == ReadFailureCause::Refused || age >= LASTING_FAILURE
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_count_at_once_and_other_failures_when_they_last() {
        let error = |code| {
            let status = json!({"status": "Failure", "code": code, "message": "no", "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            WatchError::ErrorEvent(status.boxed())
        };
        assert!(is_lasting(&error(403), Duration::ZERO));
        assert!(is_lasting(&error(401), Duration::ZERO));
        assert!(!is_lasting(&error(503), Duration::from_secs(59)));
        assert!(is_lasting(&error(503), LASTING_FAILURE));
        assert!(is_lasting(&WatchError::NoAnswer, LASTING_FAILURE));
    }
}
