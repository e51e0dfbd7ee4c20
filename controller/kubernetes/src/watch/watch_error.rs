//! Ends of watches, and failures of lists and watches.

use std::time::Duration;

use kube::core::Status;
use thiserror::Error;
use tokio::time::timeout;

use crate::api::{api_error, response_limit};

/// End of a watch that did not fail.
#[derive(Debug)]
pub(crate) enum WatchEnd {
    /// The API server ended the watch after the time that it is asked for.
    InTime,
    /// The API server or a proxy ended the watch earlier, as an API server does that stops.
    Early,
    /// A reader requests a list, or another watch has noticed a restore of etcd.
    ListRequested,
    /// Nothing arrived for `Timing::watch_idle_timeout`.
    Idle,
    /// Nothing arrived at all for `Timing::watch_idle_timeout`, not even a bookmark.
    Silent,
    /// The last change that was seen is not in the history of the API server.
    OtherHistory,
}

/// Failure of a list or a watch.
#[derive(Debug, Error)]
pub(crate) enum WatchError {
    #[error("{}", api_error::describe(.0))]
    Request(#[source] kube::Error),
    /// An event of type `ERROR` on a watch.
    #[error("{} ({})", .0.message, .0.code)]
    ErrorEvent(Box<Status>),
    #[error("{}", api_error::NO_ANSWER)]
    NoAnswer,
    #[error("the list has no resource version")]
    NoResourceVersion,
    /// The next page of a list is the same one again.
    #[error("a page of the list has the continue token of the page before, so the list has no end")]
    RepeatedPage,
    /// The token of the next page is another one, but a page has no object that is not listed yet.
    #[error("a page of the list has a continue token and no new object, so the list has no end")]
    NoNewObjects,
    #[error("the list has more than {0} objects")]
    TooManyObjects(usize),
    #[error("the watch ended at once")]
    EndedAtOnce,
}

impl WatchError {
    /// The time that the API server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(error) => api_error::retry_after(error),
            _ => None,
        }
    }

    /// The HTTP status code of the API server's response or of its `ERROR` event.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::ErrorEvent(status) => Some(status.code),
            _ => None,
        }
    }

    /// `true` if the response was too long.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self, Self::Request(error) if response_limit::is_too_long(error))
    }

    /// `true` if no watch can continue at the last known resource version.
    ///
    /// 410: the API server has forgotten it, as after each restart. 404: the kind is not defined
    /// any more. A watch from that version would fail forever. An event that is not JSON: the next
    /// one would move the version past its unknown change.
    pub(crate) fn requires_relist(&self) -> bool {
        let is_unreadable = matches!(self, Self::Request(kube::Error::SerdeError(_)));
        is_unreadable || matches!(self.code(), Some(404 | 410))
    }
}

/// Waits for the response to a request, at most for `limit`.
pub(crate) async fn with_timeout<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, WatchError> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(WatchError::Request),
        Err(_) => Err(WatchError::NoAnswer),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn forgotten_versions_missing_kinds_and_garbage_require_a_relist() {
        for (code, expected) in [(410, true), (404, true), (500, false)] {
            let status = json!({"status": "Failure", "code": code, "message": "no", "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            let error = kube::Error::Api(status.clone().boxed());
            assert_eq!(WatchError::Request(error).requires_relist(), expected);
            assert_eq!(WatchError::ErrorEvent(status.boxed()).requires_relist(), expected);
        }
        assert!(!WatchError::NoResourceVersion.requires_relist());
        let garbage = kube::Error::SerdeError(serde_json::from_str::<Value>("<html>").unwrap_err());
        assert!(WatchError::Request(garbage).requires_relist());
    }
}
