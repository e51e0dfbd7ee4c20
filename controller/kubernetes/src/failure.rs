//! What went wrong between us and the API server, for people.

use std::time::Duration;

use kube::Error;

/// What is told when a request takes too long.
pub(super) const NO_ANSWER: &str = "the API server does not answer";
/// How long to wait for an API server that is throttling us and does not say how long. Its own answers ask for that.
const THROTTLED: Duration = Duration::from_secs(1);
/// The longest wait that is taken from others.
const LONGEST: Duration = Duration::from_secs(300);

/// What the API server has answered, or why it has not.
pub(super) fn told(error: &Error) -> String {
    match error {
        Error::Api(status) if status.code == 401 => {
            "the API server does not know us (401 Unauthorized): the token or certificate may have expired".to_owned()
        }
        Error::Api(status) if status.code == 429 => {
            let wait = asked_wait(error).unwrap_or(THROTTLED);
            let wait = wait.as_secs();
            format!("the API server is throttling us, and asks to wait {wait} s: {} (429)", status.message)
        }
        Error::Api(status) => format!("{} ({})", status.message, status.code),
        // What happened is at the end of the chain: who refused the connection, which certificate is not trusted.
        Error::Service(error) => format!("no answer of the API server: {}", last(&**error)),
        Error::HyperError(error) => format!("no answer of the API server: {}", last(error)),
        other => other.to_string(),
    }
}

/// How long the API server asks to wait before anything is tried again.
pub(super) fn asked_wait(error: &Error) -> Option<Duration> {
    let Error::Api(status) = error else {
        return None;
    };
    let details = status.details.as_ref();
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    match (seconds, status.code) {
        (0, 429) => Some(THROTTLED),
        (0, _) => None,
        (seconds, _) => Some(Duration::from_secs(seconds.into()).min(LONGEST)),
    }
}

/// Whether the same may succeed later: the API server is busy or cannot be reached, or has credentials yet to learn of.
pub(super) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Api(status) => matches!(status.code, 401 | 408 | 429 | 500..),
        _ => true,
    }
}

/// The innermost reason.
fn last(error: &(dyn std::error::Error + 'static)) -> String {
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
    fn failures_are_told_with_their_reason() {
        let answered = |code: u16, message: &str| {
            let status =
                json!({"status": "Failure", "code": code, "message": message, "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            Error::Api(status.boxed())
        };
        assert_eq!(
            told(&answered(403, "nodes is forbidden")),
            "nodes is forbidden (403)"
        );
        assert!(told(&answered(401, "Unauthorized")).contains("expired"));
        assert_eq!(
            told(&answered(429, "Too many requests")),
            "the API server is throttling us, and asks to wait 1 s: Too many requests (429)"
        );
        let refused = Outer(io::Error::other("Connection refused"));
        assert_eq!(
            told(&Error::Service(refused.into())),
            "no answer of the API server: Connection refused"
        );
    }

    #[test]
    fn what_the_server_asks_to_wait_is_waited() {
        let wait = |code: u16, seconds: u32| {
            let status = json!({
                "status": "Failure", "code": code, "message": "no", "reason": "",
                "details": {"retryAfterSeconds": seconds},
            });
            let status: Status = serde_json::from_value(status).unwrap();
            asked_wait(&Error::Api(status.boxed())).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(429, 7), Some(7));
        assert_eq!(wait(429, 0), Some(1));
        assert_eq!(wait(503, 7), Some(7));
        assert_eq!(wait(503, 0), None);
        assert_eq!(wait(429, 100_000), Some(300));
    }
}
