//! Errors of requests to the API server: their text for users, and when to retry.

use std::time::Duration;

use kube::Error;

/// Error text of a read without a response within its time-out.
pub(crate) const NO_ANSWER: &str = "the API server does not respond";
/// Delay after 429 without `Retry-After`: the 1 s that API servers themselves ask for.
const DEFAULT_THROTTLE_DELAY: Duration = Duration::from_secs(1);
/// `reason` of the cause of a refusal to create objects in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// Upper limit of a `Retry-After`, so that a wrong value cannot stop the controller for hours.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Describes a write without a response within this time. The API server may wait for a webhook.
pub(crate) fn describe_unanswered(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!("no response from the API server or a webhook within {seconds:.1} s")
}

/// Describes an error for users: the API server's own message, or why there is no response.
pub(crate) fn describe(error: &Error) -> String {
    match error {
        Error::Api(status) if status.code == 401 => {
            "the API server rejected the credentials (401 Unauthorized): the token or certificate may have expired".to_owned()
        }
        Error::Api(status) if status.code == 429 => {
            let wait = retry_after(error).unwrap_or(DEFAULT_THROTTLE_DELAY).as_secs();
            format!("the API server throttles requests and asks to wait {wait} s: {} (429)", status.message)
        }
        Error::Api(status) => format!("{} ({})", status.message, status.code),
        // The innermost source names the cause: a refused connection, or an untrusted certificate.
        Error::Service(error) => format!("no response from the API server: {}", innermost_source(&**error)),
        Error::HyperError(error) => format!("no response from the API server: {}", innermost_source(error)),
        // A response that is too long or ends early, when it is read.
        Error::ReadEvents(error) => format!("cannot read the watch: {}", innermost_source(error)),
        other => other.to_string(),
    }
}

/// The time that the API server asks to wait before the next request, at most [`MAX_RETRY_AFTER`].
pub(crate) fn retry_after(error: &Error) -> Option<Duration> {
    let Error::Api(status) = error else {
        return None;
    };
    let details = status.details.as_ref();
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    match (seconds, status.code) {
        (0, 429) => Some(DEFAULT_THROTTLE_DELAY),
        (0, _) => None,
        (seconds, _) => Some(Duration::from_secs(seconds.into()).min(MAX_RETRY_AFTER)),
    }
}

/// `true` if the same request may succeed later: the API server is busy, cannot be reached, or does
/// not know the credentials yet.
pub(crate) fn is_retryable(error: &Error) -> bool {
    match error {
        Error::Api(status) => matches!(status.code, 401 | 408 | 429 | 500..),
        _ => true,
    }
}

/// `true` if the API server refused to create an object because its namespace is being deleted.
pub(crate) fn is_namespace_terminating(error: &Error) -> bool {
    let Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == NAMESPACE_TERMINATING)
}

/// The text of the innermost source.
fn innermost_source(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] io::Error);

    #[test]
    fn descriptions_contain_the_cause() {
        let answered = |code: u16, message: &str| {
            let status =
                json!({"status": "Failure", "code": code, "message": message, "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            Error::Api(status.boxed())
        };
        assert_eq!(describe(&answered(403, "nodes is forbidden")), "nodes is forbidden (403)");
        assert!(describe(&answered(401, "Unauthorized")).contains("expired"));
        assert_eq!(
            describe(&answered(429, "Too many requests")),
            "the API server throttles requests and asks to wait 1 s: Too many requests (429)"
        );
        let refused = Outer(io::Error::other("Connection refused"));
        assert_eq!(
            describe(&Error::Service(refused.into())),
            "no response from the API server: Connection refused"
        );
    }

    #[test]
    fn refusals_of_a_namespace_that_is_deleted_are_known() {
        let refused = |cause: &str| {
            let status = json!({
                "status": "Failure", "code": 403, "reason": "Forbidden",
                "message": "unable to create new content in namespace red",
                "details": {"name": "web.1", "kind": "events", "causes": [
                    {"reason": cause, "message": "namespace red is being terminated"},
                ]},
            });
            Error::Api(serde_json::from_value::<Status>(status).unwrap().boxed())
        };
        assert!(is_namespace_terminating(&refused("NamespaceTerminating")));
        assert!(!is_namespace_terminating(&refused("FieldValueInvalid")));
    }

    #[test]
    fn retry_after_is_read_from_the_status_and_limited() {
        let wait = |code: u16, seconds: u32| {
            let status = json!({
                "status": "Failure", "code": code, "message": "no", "reason": "",
                "details": {"retryAfterSeconds": seconds},
            });
            let status: Status = serde_json::from_value(status).unwrap();
            retry_after(&Error::Api(status.boxed())).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(429, 7), Some(7));
        assert_eq!(wait(429, 0), Some(1));
        assert_eq!(wait(503, 7), Some(7));
        assert_eq!(wait(503, 0), None);
        assert_eq!(wait(429, 100_000), Some(300));
    }
}
