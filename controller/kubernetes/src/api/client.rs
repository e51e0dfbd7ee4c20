//! The HTTP client for the API server.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::{Client, Config};
use patchbay_model::abbreviation::truncate_text;
use serde_json::{Value, json};
use tower::BoxError;
use tower::util::AndThenLayer;

use crate::api::credential_files::following_client;
use crate::api::response_limit::ResponseLimit;
use crate::metrics::requests::RequestCounts;

/// Longest silence on a connection. It exceeds `Timing::watch_idle_timeout`, which ends an idle
/// watch first.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Program and version, as the audit log of an API server shows them.
const USER_AGENT_VALUE: &str = concat!("patchbay/", env!("CARGO_PKG_VERSION"));

/// Media type of a page of a proxy.
const HTML: &str = "text/html";
/// Limit of the text of a page in an error.
const MAX_PAGE_TEXT_BYTES: usize = 120;

/// Makes a client that does not retry. Its callers retry, because they know which requests are safe
/// to repeat.
///
/// The client copies a `Retry-After` header into the `Status` of the error, whatever server or
/// proxy sent it. An HTML page is an error, whatever its code is.
///
/// A response has at most 64 MiB, and a line of a watch 16 MiB.
///
/// Certificates, keys and tokens are read again when their files change.
///
/// # Errors
/// The configuration names a proxy, a certificate or a credential plugin that cannot be used.
pub fn client(config: Config) -> kube::Result<Client> {
    following_client(config, fixed_client)
}

/// A client with the present credentials.
fn fixed_client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    let user_agent = HeaderValue::from_static(USER_AGENT_VALUE);
    config.headers.push((USER_AGENT, user_agent));
    config.read_timeout.get_or_insert(READ_TIMEOUT);
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let layer = AndThenLayer::new(to_api_response);
    let builder = ClientBuilder::try_from(config)?.with_layer(&ResponseLimit);
    Ok(builder.with_layer(&layer).with_layer(&RequestCounts { host }).build())
}

/// Changes a response into one that `kube` understands.
///
/// * The `Retry-After` header of an error response is copied into its body. An API server that
///   throttles answers in plain text; that text becomes the message of a `Status`.
/// * An HTML page becomes an error. API servers return none; proxies do, also with the code of a
///   success or of a redirect.
async fn to_api_response(
    response: Response<Box<DynBody>>,
) -> Result<Response<Box<DynBody>>, BoxError> {
    let code = response.status();
    let seconds = retry_after(response.headers()).filter(|_| !code.is_success());
    let is_page = is_html(response.headers());
    if seconds.is_none() && !is_page {
        return Ok(response);
    }
    let (mut head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut status = if is_page {
        if !code.is_client_error() && !code.is_server_error() {
            head.status = StatusCode::BAD_GATEWAY;
        }
        let message = describe_page(code, &String::from_utf8_lossy(&body));
        new_status(head.status.as_u16(), &message)
    } else {
        status_of(&body, code.as_u16())
    };
    if let Some(seconds) = seconds {
        add_retry_after(&mut status, seconds);
    }
    head.headers.remove(CONTENT_LENGTH);
    let body = Body::from(status.to_string().into_bytes()).map_err(BoxError::from);
    Ok(Response::from_parts(head, Box::new(body)))
}

/// `true` if the content is an HTML page.
fn is_html(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| {
        let media_type = value.get(..HTML.len());
        media_type.is_some_and(|start| start.eq_ignore_ascii_case(HTML.as_bytes()))
    })
}

/// Describes an HTML page for users: its code, and its title or the start of its text.
fn describe_page(code: StatusCode, page: &str) -> String {
    let title = page.split_once("<title>");
    let title = title.and_then(|(_, rest)| rest.split_once("</title>"));
    let text = title.map_or_else(|| without_tags(page), |(title, _)| title.to_owned());
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let text = truncate_text(&text, MAX_PAGE_TEXT_BYTES);
    format!("a proxy answers with {code} and an HTML page {text:?} instead of JSON")
}

/// The text between the tags of a page.
fn without_tags(page: &str) -> String {
    let parts = page.split('<').enumerate().map(|(index, part)| {
        // The part before the first tag has none.
        let rest = part.split_once('>').map(|(_, rest)| rest);
        rest.unwrap_or(if index == 0 { part } else { "" })
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// The header's value in seconds. API servers do not send dates.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// The body as a `Status`. Another body becomes its message.
fn status_of(body: &[u8], code: u16) -> Value {
    let status = serde_json::from_slice::<Value>(body).ok();
    let status = status.filter(|status| status["kind"] == "Status");
    status.unwrap_or_else(|| new_status(code, String::from_utf8_lossy(body).trim()))
}

fn new_status(code: u16, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "",
        "message": message, "code": code,
    })
}

/// Sets `retryAfterSeconds` of a `Status`. A value that it already has is kept.
fn add_retry_after(status: &mut Value, seconds: u32) {
    if status["details"]["retryAfterSeconds"].as_u64().unwrap_or(0) == 0 {
        if !status["details"].is_object() {
            status["details"] = json!({});
        }
        status["details"]["retryAfterSeconds"] = seconds.into();
    }
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
        let with_seconds = |body: &[u8], code| {
            let mut status = status_of(body, code);
            add_retry_after(&mut status, 3);
            parsed(status)
        };
        let text = b"Too many requests, please try again later.\n";
        let message = "Too many requests, please try again later.".to_owned();
        assert_eq!(with_seconds(text, 429), (message, 429, 3));

        let body = |details: Value| {
            json!({
                "kind": "Status", "metadata": {}, "status": "Failure", "message": "busy", "reason": "x",
                "code": 503, "details": details,
            })
        };
        for (details, seconds) in
            [(json!(null), 3), (json!({"kind": "pods"}), 3), (json!({"retryAfterSeconds": 7}), 7)]
        {
            let status = with_seconds(body(details).to_string().as_bytes(), 503);
            assert_eq!(status, ("busy".to_owned(), 503, seconds));
        }
    }

    #[tokio::test]
    async fn an_html_page_is_an_error_with_the_text_of_the_page() {
        let titled = "<html>\r\n<head><title>Sign in</title></head><body>x</body></html>\r\n";
        let untitled = "before <body class='a'><h1>Service\n  down</h1> now</body";
        for (code, page, expected) in [
            (200, titled, (r#"200 OK and an HTML page "Sign in""#, 502)),
            (302, titled, (r#"302 Found and an HTML page "Sign in""#, 502)),
            (
                503,
                untitled,
                (r#"503 Service Unavailable and an HTML page "before Service down now""#, 503),
            ),
        ] {
            let body: Box<DynBody> =
                Box::new(Body::from(page.as_bytes().to_vec()).map_err(BoxError::from));
            let response = to_api_response(
                Response::builder()
                    .status(code)
                    .header(CONTENT_TYPE, "Text/HTML; charset=utf-8")
                    .body(body)
                    .unwrap(),
            )
            .await
            .unwrap();
            assert_eq!(response.status().as_u16(), expected.1);
            let status = response.into_body().collect().await.unwrap().to_bytes();
            let (message, code, _) = parsed(serde_json::from_slice(&status).unwrap());
            let text = format!("a proxy answers with {} instead of JSON", expected.0);
            assert_eq!((message, code), (text, expected.1));
        }
    }
}
