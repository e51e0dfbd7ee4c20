//! Failures of writes, by what follows from them.

use std::time::Duration;

use thiserror::Error;

use crate::api::api_error;

/// Failure of a write.
#[derive(Debug, Error)]
pub(crate) enum WriteError {
    /// The object is gone, or another object has its name.
    #[error("the object is gone")]
    Gone,
    /// The API server is busy or cannot be reached. The same write may succeed later.
    #[error("{error}")]
    Retry {
        error: String,
        /// Time that the API server asks to wait.
        retry_after: Option<Duration>,
        /// `true` if writes to other objects would fail, too.
        blocks_all: bool,
        /// `true` if the API server answers that it cannot write this object, such as for a webhook
        /// that is down.
        is_answer: bool,
    },
    /// Another client has changed the object, which the watch will show.
    #[error("{0}")]
    Conflict(String),
    /// The API server rejects the write.
    #[error("{0}")]
    Rejected(String),
}

impl WriteError {
    /// A request without a response within this time.
    pub(crate) fn no_answer(limit: Duration) -> Self {
        Self::Retry {
            error: api_error::describe_unanswered(limit),
            retry_after: None,
            blocks_all: false,
            is_answer: false,
        }
    }

    /// The error with the name of what could not be written, if the answer is about the object.
    pub(crate) fn about(self, part: &str) -> Self {
        match self {
            Self::Retry { error, retry_after, blocks_all, is_answer: true } => Self::Retry {
                error: format!("{part}: {error}"),
                retry_after,
                blocks_all,
                is_answer: true,
            },
            Self::Rejected(error) => Self::Rejected(format!("{part}: {error}")),
            other => other,
        }
    }

    /// A write after the end of the leader's term.
    pub(crate) fn lease_expired() -> Self {
        Self::Retry {
            error: "the lease has expired".to_owned(),
            retry_after: None,
            blocks_all: true,
            is_answer: false,
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let description = api_error::describe(&error);
        let retry_after = api_error::retry_after(&error);
        let kube::Error::Api(status) = error else {
            return Self::Retry {
                error: description,
                retry_after,
                blocks_all: false,
                is_answer: false,
            };
        };
        match status.code {
            404 => Self::Gone,
            409 => Self::Conflict(description),
            // Expired credentials are renewed.
            401 | 408 | 429 | 500.. => {
                // A webhook that fails or does not respond concerns its objects only.
                let blocks_all = status.code == 401 || retry_after.is_some();
                Self::Retry { error: description, retry_after, blocks_all, is_answer: !blocks_all }
            }
            _ => Self::Rejected(status.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn api_error(code: u16, retry_after_seconds: u32) -> WriteError {
        let status = json!({
            "status": "Failure", "message": "no", "reason": "", "code": code,
            "details": {"retryAfterSeconds": retry_after_seconds},
        });
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(status.boxed()).into()
    }

    #[test]
    fn errors_are_classified_by_their_status_code() {
        assert!(matches!(api_error(404, 0), WriteError::Gone));
        assert!(matches!(api_error(403, 0), WriteError::Rejected(_)));
        assert!(matches!(api_error(422, 0), WriteError::Rejected(_)));
        assert!(matches!(api_error(409, 0), WriteError::Conflict(_)));
        for (code, is_general) in [(401, true), (500, false), (503, false), (504, false)] {
            let WriteError::Retry { retry_after: None, blocks_all, is_answer, .. } =
                api_error(code, 0)
            else {
                panic!("a retry is expected after {code}");
            };
            assert_eq!((blocks_all, is_answer), (is_general, !is_general), "{code}");
        }
        let WriteError::Retry { retry_after, .. } = api_error(429, 3) else {
            panic!("a retry is expected");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(3)));
    }
}
