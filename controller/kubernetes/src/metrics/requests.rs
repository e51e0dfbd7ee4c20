//! Counts requests to an API server.

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use kube::client::{Body, DynBody};
use metrics::counter;
use tower::{BoxError, Layer, Service};

use crate::metrics::names;

/// Code of a request without an answer, as client-go counts it.
const NO_ANSWER: &str = "<error>";

/// Layer that counts requests by method and status code.
#[derive(Clone, Debug)]
pub(crate) struct RequestCounts {
    /// Host and port of the API server.
    pub(crate) host: String,
}

/// Service whose requests are counted.
#[derive(Clone, Debug)]
pub(crate) struct CountedRequests<S> {
    service: S,
    host: String,
}

impl<S> Layer<S> for RequestCounts {
    type Service = CountedRequests<S>;

    fn layer(&self, service: S) -> Self::Service {
        CountedRequests { service, host: self.host.clone() }
    }
}

impl<S> Service<Request<Body>> for CountedRequests<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (host, method) = (self.host.clone(), request.method().to_string());
        let response = self.service.call(request);
        Box::pin(async move {
            let response = response.await;
            let code = match &response {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => NO_ANSWER.to_owned(),
            };
            counter!(names::REQUESTS, "code" => code, "host" => host, "method" => method)
                .increment(1);
            response
        })
    }
}
