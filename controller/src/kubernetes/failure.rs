//! What went wrong between us and the API server, for people.

use kube::Error;

/// What the API server has answered, or why it has not.
pub(super) fn told(error: &Error) -> String {
    match error {
        Error::Api(status) if status.code == 401 => {
            "the API server does not know us (401 Unauthorized): the token or certificate may have expired".to_owned()
        }
        Error::Api(status) => format!("{} ({})", status.message, status.code),
        // What happened is at the end of the chain: who refused the connection, which certificate is not trusted.
        Error::Service(error) => format!("no answer of the API server: {}", last(&**error)),
        Error::HyperError(error) => format!("no answer of the API server: {}", last(error)),
        other => other.to_string(),
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
        let refused = Outer(io::Error::other("Connection refused"));
        assert_eq!(
            told(&Error::Service(refused.into())),
            "no answer of the API server: Connection refused"
        );
    }
}
