//! Turns of a connection to the control API: its next long answer is made when the former one is
//! sent, so that a client which does not read holds one answer.

use std::future::Future;
use std::sync::{Arc, Weak};

use jsonrpsee::ResponsePayload;
use jsonrpsee::core::RpcResult;
use jsonrpsee::core::middleware::{Batch, Notification, RpcServiceT};
use jsonrpsee::types::{ErrorObjectOwned, Request};
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tower::Layer;

use super::internal_error;

/// Number of requests of one connection that may wait for their turn.
const MAX_WAITING_REQUESTS: usize = 64;

/// Turn of one connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionTurn {
    turn: Arc<Mutex<()>>,
    places: Arc<Semaphore>,
}

/// Request whose client may go away.
#[derive(Clone, Debug)]
pub(super) struct PendingRequest(Weak<()>);

impl PendingRequest {
    /// `true` if nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl ConnectionTurn {
    fn new() -> Self {
        Self { turn: Arc::default(), places: Arc::new(Semaphore::new(MAX_WAITING_REQUESTS)) }
    }

    /// Makes an answer on a thread of its own, because it may wait for a database and because a long
    /// answer takes time, and keeps the turn until the answer is sent.
    pub(super) async fn answer<T>(
        &self,
        make: impl FnOnce(&PendingRequest) -> RpcResult<T> + Send + 'static,
    ) -> ResponsePayload<'static, T>
    where
        T: Clone + Serialize + Send + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let text = format!("more than {MAX_WAITING_REQUESTS} requests of the connection wait");
            return ResponsePayload::error(internal_error(text));
        };
        let turn = self.turn.clone().lock_owned().await;
        // Dropped with this future if the connection ends.
        let client = Arc::new(());
        let pending = PendingRequest(Arc::downgrade(&client));
        let made = match spawn_blocking(move || make(&pending)).await {
            Ok(made) => made,
            Err(error) => Err(internal_error(error.to_string())),
        };
        drop(client);
        let (answer, sent) = match made {
            Ok(answer) => ResponsePayload::success(answer),
            Err(error) => ResponsePayload::error(ErrorObjectOwned::from(error)),
        }
        .notify_on_completion();
        tokio::spawn(async move {
            // An error means that the connection has ended.
            sent.await.unwrap_or_default();
            drop((turn, place));
        });
        answer
    }
}

/// Gives each connection a [`ConnectionTurn`], which its requests have as an extension.
#[derive(Clone, Debug)]
pub(super) struct ConnectionTurns;

impl<S> Layer<S> for ConnectionTurns {
    type Service = TurnService<S>;

    fn layer(&self, inner: S) -> TurnService<S> {
        TurnService { inner, turn: ConnectionTurn::new() }
    }
}

/// Service of one connection.
#[derive(Clone, Debug)]
pub(super) struct TurnService<S> {
    inner: S,
    turn: ConnectionTurn,
}

impl<S: RpcServiceT> RpcServiceT for TurnService<S> {
    type MethodResponse = S::MethodResponse;
    type NotificationResponse = S::NotificationResponse;
    type BatchResponse = S::BatchResponse;

    fn call<'a>(
        &self,
        mut request: Request<'a>,
    ) -> impl Future<Output = Self::MethodResponse> + Send + 'a {
        request.extensions_mut().insert(self.turn.clone());
        self.inner.call(request)
    }

    fn batch<'a>(
        &self,
        requests: Batch<'a>,
    ) -> impl Future<Output = Self::BatchResponse> + Send + 'a {
        self.inner.batch(requests)
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = Self::NotificationResponse> + Send + 'a {
        self.inner.notification(notification)
    }
}
