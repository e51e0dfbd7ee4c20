//! The HTTP client for the API server.

use std::time::Duration;

use http::Response;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use http_body_util::BodyExt;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::{Client, Config};
use serde_json::{Value, json};
use tower::BoxError;
use tower::util::AndThenLayer;

/// Longest silence on a connection. It exceeds `Timing::watch_idle_timeout`, which ends an idle
/// watch first.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Program and version, as the audit log of an API server shows them.
const USER_AGENT_VALUE: &str = concat!("patchbay/", env!("CARGO_PKG_VERSION"));

/// Makes a client that does not retry. Its callers retry, because they know which requests are safe
/// to repeat.
///
/// The client copies a `Retry-After` header into the `Status` of the error, whatever server or
/// proxy sent it.
///
/// # Errors
/// The configuration names a proxy, a certificate or a credential plugin that cannot be used.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    let user_agent = HeaderValue::from_static(USER_AGENT_VALUE);
    config.headers.push((USER_AGENT, user_agent));
    config.read_timeout.get_or_insert(READ_TIMEOUT);
    let layer = AndThenLayer::new(copy_retry_after_to_status);
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

/// Copies the `Retry-After` header of an error response into its body, where `kube` looks for it.
///
/// An API server that throttles answers in plain text; that text becomes the message of a `Status`.
async fn copy_retry_after_to_status(
    response: Response<Box<DynBody>>,
) -> Result<Response<Box<DynBody>>, BoxError> {
    let code = response.status();
    let Some(seconds) = retry_after(response.headers()).filter(|_| !code.is_success()) else {
        return Ok(response);
    };
    let (mut head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    let status = status_with_retry_after(&body, code.as_u16(), seconds).to_string();
    head.headers.remove(CONTENT_LENGTH);
    let body = Body::from(status.into_bytes()).map_err(BoxError::from);
    Ok(Response::from_parts(head, Box::new(body)))
}

/// The header's value in seconds. API servers do not send dates.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// The body as a `Status` with `retryAfterSeconds`. A value that the body already has is kept.
fn status_with_retry_after(body: &[u8], code: u16, seconds: u32) -> Value {
    let status = serde_json::from_slice::<Value>(body).ok();
    let mut status = status
        .filter(|status| status["kind"] == "Status")
        .unwrap_or_else(|| {
            json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "",
                "message": String::from_utf8_lossy(body).trim(), "code": code,
            })
        });
    if status["details"]["retryAfterSeconds"].as_u64().unwrap_or(0) == 0 {
        if !status["details"].is_object() {
            status["details"] = json!({});
        }
        status["details"]["retryAfterSeconds"] = seconds.into();
    }
    status
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn parsed(status: Value) -> (String, u16, u32) {
        let status: Status = serde_json::from_value(status).unwrap();
        let seconds = status.details.map(|details| details.retry_after_seconds);
        (status.message, status.code, seconds.unwrap_or(0))
    }

    #[test]
    fn retry_after_is_copied_into_the_status() {
        let text = b"Too many requests, please try again later.\n";
        let message = "Too many requests, please try again later.".to_owned();
        assert_eq!(
            parsed(status_with_retry_after(text, 429, 3)),
            (message, 429, 3)
        );

        let body = |details: Value| {
            json!({
                "kind": "Status", "metadata": {}, "status": "Failure", "message": "busy", "reason": "x",
                "code": 503, "details": details,
            })
        };
        for (details, seconds) in [
            (json!(null), 3),
            (json!({"kind": "pods"}), 3),
            (json!({"retryAfterSeconds": 7}), 7),
        ] {
            let status = status_with_retry_after(body(details).to_string().as_bytes(), 503, 3);
            assert_eq!(parsed(status), ("busy".to_owned(), 503, seconds));
        }
    }
}
