//! Failures of the lists and watches of one kind, for the readers of its objects.

use std::sync::Arc;
use std::time::Duration;

use super::watch_error::WatchError;

/// Time after which a failure counts that may pass by itself, such as that of an API server that
/// restarts. It is longer than two of the longest delays between attempts.
const LASTING_FAILURE: Duration = Duration::from_secs(60);

/// What holds while a kind cannot be watched, or listed again.
pub(super) const SEEN_LAST: &str = "its objects count as they were seen last";

/// A list or a watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadRequest {
    List,
    Watch,
}

impl ReadRequest {
    /// Text of the log about a failure.
    pub(super) fn failure_text(self) -> &'static str {
        match self {
            Self::List => "cannot list objects",
            Self::Watch => "cannot watch objects",
        }
    }

    /// Text that follows "cannot be".
    pub(super) fn participle(self) -> &'static str {
        match self {
            Self::List => "listed",
            Self::Watch => "watched",
        }
    }
}

/// Failure of the lists or the watches of a kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ReadFailure {
    pub(super) request: ReadRequest,
    pub(super) reason: Arc<str>,
    /// `true` if the API server has refused the request.
    pub(super) is_refusal: bool,
}

impl ReadFailure {
    /// Describes the failure for users. `outcome` is what holds meanwhile.
    pub(super) fn describe(&self, kind: &str, outcome: &str) -> String {
        let (request, reason) = (self.request.participle(), &self.reason);
        format!("{kind}: cannot be {request}, so {outcome}: {reason}")
    }
}

/// `true` if the API server refuses a request, for example because of a missing right.
pub(super) fn is_refusal(error: &WatchError) -> bool {
    matches!(error.code(), Some(401 | 403))
}

/// `true` if readers are to know of an error, `age` after the first one since a success. A refusal,
/// such as that of a missing right, does not pass by itself.
pub(super) fn is_lasting(error: &WatchError, age: Duration) -> bool {
    is_refusal(error) || age >= LASTING_FAILURE
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
