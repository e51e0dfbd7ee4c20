//! The pages of the admin port.

use std::net::SocketAddr;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use metrics_exporter_prometheus::PrometheusHandle;

use crate::admin::health::{CheckAnswer, CheckRequest, answer};
use crate::admin::{AdminContents, Check, LogFilter};

/// Media type of metrics.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Media type of other pages.
const TEXT_TYPE: &str = "text/plain; charset=utf-8";
/// Limit of the directives of a log filter.
const MAX_DIRECTIVES_BYTES: usize = 4 << 10;
/// The paths, as the page `/` lists them.
const PATHS: &str = "/debug/level\n/livez\n/metrics\n/readyz\n";
/// Path of the log filter.
const LEVEL: &str = "/debug/level";

/// The pages, and what they show.
pub(super) struct Pages {
    pub(super) contents: AdminContents,
    pub(super) metrics: PrometheusHandle,
    /// `None`: the log has no filter that can be changed.
    pub(super) log: Option<Box<dyn LogFilter>>,
}

type Answer = Response<Full<Bytes>>;

impl Pages {
    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let path = request.uri().path().to_owned();
        if path == LEVEL {
            return self.answer_level(request, peer).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed("GET, HEAD");
        }
        let health = &self.contents.health;
        let query = request.uri().query().unwrap_or_default();
        match path.split('/').nth(1) {
            Some("") if path == "/" => text(StatusCode::OK, PATHS),
            Some("metrics") if path == "/metrics" => self.show_metrics(),
            Some("livez") => checked("livez", &health.liveness, &path, query),
            Some("readyz") => checked("readyz", &health.readiness, &path, query),
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    /// What was counted and measured, and then the present state.
    fn show_metrics(&self) -> Answer {
        let page = self.metrics.render() + &self.contents.state.render();
        let mut answer = text(StatusCode::OK, page);
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
        answer
    }

    /// Shows or changes the log filter, for clients on this host.
    async fn answer_level(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        if !peer.ip().to_canonical().is_loopback() {
            return text(
                StatusCode::FORBIDDEN,
                "only clients on the loopback address may do this\n",
            );
        }
        let Some(log) = &self.log else {
            return text(StatusCode::NOT_FOUND, "the log has no filter\n");
        };
        match *request.method() {
            Method::GET | Method::HEAD => text(StatusCode::OK, log.directives() + "\n"),
            Method::PUT => {
                let body = Limited::new(request.into_body(), MAX_DIRECTIVES_BYTES).collect().await;
                let Ok(body) = body else {
                    return text(StatusCode::PAYLOAD_TOO_LARGE, "expected at most 4096 bytes\n");
                };
                let directives = body.to_bytes();
                let directives = String::from_utf8_lossy(&directives);
                match log.set_directives(directives.trim()) {
                    Ok(()) => {
                        let directives = log.directives();
                        tracing::warn!(directives, "the filter of the log is another one now");
                        text(StatusCode::OK, directives + "\n")
                    }
                    Err(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
                }
            }
            _ => not_allowed("GET, HEAD, PUT"),
        }
    }
}

/// The result of checks: of all, or of the one that the path names behind the group.
fn checked(group: &str, checks: &[Check], path: &str, query: &str) -> Answer {
    let only = path[1..].strip_prefix(group).unwrap_or_default();
    let is_verbose = query.split('&').any(|one| one == "verbose" || one.starts_with("verbose="));
    let only = only.strip_prefix('/').unwrap_or_default();
    match answer(group, checks, CheckRequest { is_verbose, query, only }) {
        CheckAnswer::Passed(lines) => text(StatusCode::OK, lines),
        CheckAnswer::Failed(lines) => text(StatusCode::INTERNAL_SERVER_ERROR, lines),
        CheckAnswer::NoCheck => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_TYPE));
    answer
}
