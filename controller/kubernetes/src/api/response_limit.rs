//! Limits of responses in bytes, so that no server and no proxy fills the memory.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::{Body, DynBody};
use thiserror::Error;
use tower::{BoxError, Layer, Service};

/// Longest response in bytes. A page of 25 objects has at most 40 MB, because etcd takes 1.5 MB.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Longest line of a watch in bytes: an object of 1.5 MB, of which each byte may be an escape.
const MAX_WATCH_LINE_BYTES: usize = 16 << 20;

/// A response, or a line of a watch, is too long.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("the response has {0} bytes without an end")]
pub(crate) struct ResponseTooLong(usize);

/// Layer that limits the bodies of responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseLimit;

/// Service whose responses have limits.
#[derive(Clone, Debug)]
pub(crate) struct LimitedResponses<S>(S);

/// Body that fails at its limit.
struct LimitedBody {
    body: UnsyncBoxBody<bytes::Bytes, BoxError>,
    limit: usize,
    /// `true` if the limit is that of a line.
    is_per_line: bool,
    /// Bytes so far, or since the last line.
    count: usize,
}

/// `true` if an error is that of a response that is too long.
pub(crate) fn is_too_long(error: &kube::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.is::<ResponseTooLong>() {
            return true;
        }
        source = error.source();
    }
    false
}

impl<S> Layer<S> for ResponseLimit {
    type Service = LimitedResponses<S>;

    fn layer(&self, service: S) -> Self::Service {
        LimitedResponses(service)
    }
}

impl<S> Service<Request<Body>> for LimitedResponses<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut parameters = request.uri().query().unwrap_or_default().split('&');
        let is_watch = parameters.any(|one| one == "watch=true" || one == "watch=1");
        let response = self.0.call(request);
        Box::pin(async move {
            let limited = |body: Box<DynBody>| -> Box<DynBody> {
                Box::new(LimitedBody {
                    body: body.boxed_unsync(),
                    limit: if is_watch { MAX_WATCH_LINE_BYTES } else { MAX_RESPONSE_BYTES },
                    is_per_line: is_watch,
                    count: 0,
                })
            };
            Ok(response.await?.map(limited))
        })
    }
}

impl HttpBody for LimitedBody {
    type Data = bytes::Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let line = data.iter().rposition(|byte| *byte == b'\n').filter(|_| self.is_per_line);
            self.count = match line {
                Some(end) => data.len() - end - 1,
                None => self.count.saturating_add(data.len()),
            };
            if self.count > self.limit {
                let error = ResponseTooLong(self.count);
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt as _;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{ListParams, WatchParams};
    use kube::{Api, Config};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::watch::list_pages::{first_page, shrink_page};
    use crate::watch::watch_error::WatchError;

    /// A client of a server that answers every request without an end.
    async fn client_of_endless_server() -> kube::Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let head =
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"";
                    let mut sent = stream.write_all(head).await;
                    while sent.is_ok() {
                        sent = stream.write_all(&[b'x'; 1 << 13]).await;
                    }
                });
            }
        });
        crate::client(Config::new(format!("http://{address}").parse().unwrap())).unwrap()
    }

    #[tokio::test]
    async fn responses_and_lines_of_watches_without_an_end_are_errors() {
        let client = client_of_endless_server().await;
        let pods = Api::<Pod>::all(client);
        let limit = Duration::from_secs(120);
        let params = ListParams::default();
        let listed = pods.list(&params);
        let error = tokio::time::timeout(limit, listed).await.unwrap().unwrap_err();
        assert!(is_too_long(&error), "{error:?}");
        let error = WatchError::Request(error);
        let mut page = first_page("");
        let mut limits = vec![page.limit];
        while shrink_page(&mut page, &error) {
            limits.push(page.limit);
        }
        assert_eq!(limits, [Some(25), Some(3), Some(1)]);
        assert!(!shrink_page(&mut first_page(""), &WatchError::EndedAtOnce));
        let watch = pods.watch(&WatchParams::default(), "1").await.unwrap();
        let mut watch = std::pin::pin!(watch);
        let event = tokio::time::timeout(limit, watch.next()).await.unwrap();
        let error = event.unwrap().unwrap_err();
        assert!(is_too_long(&error), "{error:?}");
        let text = crate::api::api_error::describe(&error);
        assert!(text.contains("bytes without an end"), "{text}");
    }
}
