//! Connections.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use futures_util::TryStreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER,
};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Shared;
use super::requests::{Answer, Call, answer};
use super::watch::{lines, silence};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Serves connections until the future is dropped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(|request| serve(shared.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // A cut connection is an error of the client.
            let _ = connection.await;
        });
    }
}

async fn serve(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: HeaderName| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let body = body.collect().await;
    let call = Call {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: query(head.uri.query().unwrap_or_default()),
        content_type: header(CONTENT_TYPE),
        accept: header(ACCEPT),
        user: header(HeaderName::from_static("impersonate-user")),
        authorization: header(AUTHORIZATION),
        claims: claims(&head.headers),
        body: body.map(|body| body.to_bytes().to_vec()).unwrap_or_default(),
    };
    let date = shared.lock().date.clone();
    let mut response = match answer(&shared, &call) {
        Ok(Answer::Object(code, object)) => json(code, None, &object),
        Ok(Answer::Watch(subscription)) => {
            let lines = lines(shared, subscription).map_ok(|line| Frame::data(Bytes::from(line)));
            let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(lines)));
            response.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
            response
        }
        Ok(Answer::Late(failure, delay)) => {
            tokio::time::sleep(delay).await;
            json(failure.code, failure.retry_after, &failure.status())
        }
        Ok(Answer::Never) => std::future::pending().await,
        Ok(Answer::Silence) => {
            let silence = silence(shared).map_ok(|line| Frame::data(Bytes::from(line)));
            Response::new(BodyExt::boxed_unsync(StreamBody::new(silence)))
        }
        Ok(Answer::Text(code, retry_after)) => {
            let text = Full::new(Bytes::from("Too many requests, please try again later.\n"))
                .map_err(|never| match never {})
                .boxed_unsync();
            let response =
                Response::builder().status(code).header(RETRY_AFTER, retry_after).body(text);
            response.unwrap()
        }
        Ok(answer @ (Answer::Empty | Answer::Cut)) => {
            let is_cut = matches!(answer, Answer::Cut);
            let text: &[u8] = if is_cut { br#"{"type":"ADDED","obj"# } else { &[] };
            let content = Full::new(Bytes::from_static(text)).map_err(|never| match never {});
            Response::new(content.boxed_unsync())
        }
        Err(failure) => json(failure.code, failure.retry_after, &failure.status()),
    };
    if let Some(date) = date {
        response.headers_mut().insert(DATE, date.parse().unwrap());
    }
    Ok(response)
}

/// Claims of the token of an impersonated user, by name.
fn claims(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let claims = headers.iter().filter_map(|(name, value)| {
        let claim = name.as_str().strip_prefix("impersonate-extra-")?;
        Some((decode(claim), vec![value.to_str().ok()?.to_owned()]))
    });
    claims.collect()
}

fn json(code: u16, retry_after: Option<u32>, object: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never| match never {});
    let mut response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(RETRY_AFTER, seconds);
    }
    response.body(body.boxed_unsync()).unwrap()
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

/// Decodes percent encoding.
fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits =
                    [bytes.next(), bytes.next()].map(|digit| digit.unwrap_or(b'0') as char);
                let [high, low] = digits.map(|digit| digit.to_digit(16).unwrap_or(0));
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
