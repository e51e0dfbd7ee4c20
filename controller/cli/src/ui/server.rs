//! HTTP server of the page: it answers readers that name it as it is named, or that have the token.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Connections at a time. The oldest one is closed for the next one.
const MAX_CONNECTIONS: usize = 64;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of the head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Interval of events without content, by which a lost reader is found.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Delay after a connection that the system cannot accept, such as for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The page, and what was wrong with the last reading of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// Number of the state: it grows with each change.
    pub(super) version: u64,
    /// The page of the last state that could be read.
    pub(super) page: Bytes,
    /// Failure of the last reading. `None`: the page is of the present state.
    pub(super) failure: Option<String>,
}

/// Who may read.
pub(super) struct Access {
    address: SocketAddr,
    /// Token that requests need. `None`: the address is on the loopback interface.
    token: Option<String>,
}

impl Access {
    pub(super) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// The reason why a request is refused. `None`: it is answered.
    ///
    /// Without a token, the request has to name the loopback address, so that a page of another site
    /// whose name leads there cannot read.
    fn refusal<T>(&self, request: &Request<T>) -> Option<&'static str> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let host = header(HOST).unwrap_or_default();
        if let Some(token) = &self.token {
            let query = request.uri().query().unwrap_or_default();
            let in_query = query.split('&').find_map(|part| part.strip_prefix("token="));
            let bearer = header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
            let is_right = |own: &str| bool::from(own.as_bytes().ct_eq(token.as_bytes()));
            if ![in_query, bearer].into_iter().flatten().any(is_right) {
                return Some("a token is needed: ?token=TOKEN, or Authorization: Bearer TOKEN");
            }
        } else {
            let port = self.address.port();
            let own = [self.address.to_string(), format!("localhost:{port}")];
            if !own.iter().any(|name| name.eq_ignore_ascii_case(host)) {
                return Some("the header Host is not the address of this server");
            }
        }
        let origin = header(ORIGIN);
        let is_foreign = origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host));
        is_foreign.then_some("the header Origin is of another site")
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves connections until the future is dropped.
pub(super) async fn serve(listener: TcpListener, access: Access, shown: watch::Receiver<Shown>) {
    let access = Arc::new(access);
    let mut connections = JoinSet::new();
    let mut order = VecDeque::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {
                order.retain(|one: &AbortHandle| !one.is_finished());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if order.len() >= MAX_CONNECTIONS && let Some(oldest) = order.pop_front() {
                        oldest.abort();
                    }
                    let connection = serve_connection(stream, access.clone(), shown.clone());
                    order.push_back(connections.spawn(connection));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, access: Arc<Access>, shown: watch::Receiver<Shown>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = answer(&request, &access, &shown);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection failed");
    }
}

fn answer<T>(
    request: &Request<T>,
    access: &Access,
    shown: &watch::Receiver<Shown>,
) -> Response<Body> {
    if let Some(reason) = access.refusal(request) {
        return text(StatusCode::FORBIDDEN, reason);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this page is only read");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/" => {
            let page = Full::new(shown.borrow().page.clone());
            response(StatusCode::OK, "text/html; charset=utf-8", page.boxed_unsync())
        }
        "/events" => {
            let body = StreamBody::new(events(shown.clone()));
            response(StatusCode::OK, "text/event-stream", body.boxed_unsync())
        }
        _ => text(StatusCode::NOT_FOUND, "the pages are / and /events"),
    }
}

/// Server-sent events with the version and the failure: one at once, and one for each change.
fn events(
    shown: watch::Receiver<Shown>,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>> {
    stream::unfold((shown, true), |(mut shown, is_first)| async move {
        let changed = async { if is_first { Ok(()) } else { shown.changed().await } };
        let text = match timeout(PING_INTERVAL, changed).await {
            Ok(Ok(())) => {
                let Shown { version, failure, .. } = &*shown.borrow_and_update();
                format!("data: {}\n\n", json!({"version": version, "failure": failure}))
            }
            Ok(Err(_)) => return None,
            Err(_) => ": waiting\n\n".to_owned(),
        };
        Some((Ok(Frame::data(Bytes::from(text))), (shown, false)))
    })
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{text}\n")));
    response(status, "text/plain; charset=utf-8", body.boxed_unsync())
}

fn response(status: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut made = Response::new(body);
    *made.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        made.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    made
}
