//! Check of HTTP requests to the control API, before a method is called or a WebSocket is opened.
//!
//! A web page in a browser of the same host can send requests to a loopback address, and open a
//! `WebSocket` there. Its requests have an `Origin`; after a change of its name's address (DNS
//! rebinding) they have the page's own name as `Host`. Programs such as curl send no `Origin`.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, ORIGIN};
use http::{StatusCode, Uri};
use jsonrpsee::core::BoxError;
use jsonrpsee::server::{HttpBody, HttpRequest, HttpResponse};
use tower::{Layer, Service};

/// Check of requests.
#[derive(Clone, Debug)]
pub(super) struct RequestGuard {
    /// Token that a request must have as `Authorization: Bearer TOKEN`. `None`: the server listens
    /// at a loopback address, and `Host` must name one.
    token: Option<Arc<str>>,
}

impl RequestGuard {
    pub(super) fn new(token: Option<&str>) -> Self {
        Self { token: token.map(Arc::from) }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The request is refused with this status, for this reason.
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
        let forbidden = |reason| Err((StatusCode::FORBIDDEN, reason));
        if headers.contains_key(ORIGIN) {
            return forbidden("web pages may not use the control API (header Origin)\n");
        }
        if let Some(token) = &self.token {
            let given = headers
                .get(AUTHORIZATION)
                .map(HeaderValue::as_bytes)
                .and_then(|value| value.strip_prefix(b"Bearer "));
            if given.is_some_and(|given| is_equal(given, token.as_bytes())) {
                return Ok(());
            }
            let reason = "the control API needs the header Authorization: Bearer TOKEN\n";
            return Err((StatusCode::UNAUTHORIZED, reason));
        }
        let host = match headers.get(HOST).map(|host| host.to_str()) {
            Some(Ok(host)) => host,
            Some(Err(_)) => "",
            None => uri.authority().map_or("", |authority| authority.as_str()),
        };
        if !is_loopback(host) {
            return forbidden("the header Host must name a loopback address or localhost\n");
        }
        Ok(())
    }
}

/// `true` if two texts are equal. The time does not depend on how many bytes are equal.
fn is_equal(given: &[u8], expected: &[u8]) -> bool {
    let differences = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == expected.len() && differences == 0
}

/// `true` if a `Host` is `localhost` or a loopback address, with any port or none.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl<S> Layer<S> for RequestGuard {
    type Service = GuardedService<S>;

    fn layer(&self, inner: S) -> GuardedService<S> {
        GuardedService { inner, guard: self.clone() }
    }
}

/// Service whose requests are checked.
#[derive(Clone, Debug)]
pub(super) struct GuardedService<S> {
    inner: S,
    guard: RequestGuard,
}

impl<S, B> Service<HttpRequest<B>> for GuardedService<S>
where
    S: Service<HttpRequest<B>, Response = HttpResponse>,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
{
    type Response = HttpResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        if let Err((status, reason)) = self.guard.check(request.uri(), request.headers()) {
            tracing::warn!(%status, reason, "refusing a request to the control API");
            let mut refusal = HttpResponse::new(HttpBody::from(reason));
            *refusal.status_mut() = status;
            return Box::pin(std::future::ready(Ok(refusal)));
        }
        let answer = self.inner.call(request);
        Box::pin(async { answer.await.map_err(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_hosts() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:9"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "[::2]:9", "[::1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_token_must_be_whole() {
        assert!(is_equal(b"secret", b"secret"));
        for other in ["", "secre", "secrets", "secreT"] {
            assert!(!is_equal(other.as_bytes(), b"secret"), "{other}");
        }
    }
}
