//! Remotes whose byte streams the application opens itself.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream that a session can use.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Opens byte streams to a server in an application-defined way: to a server in the same process,
/// through a tunnel, or through a fault injector in a test.
///
/// A connector is a [`Remote`](super::Remote): it can stand among others in a list that is tried in
/// order. Two connectors are equal if one is a clone of the other.
///
/// ```
/// use patchbay_engine::client::{Config, Connector};
///
/// let connector = Connector::new("loopback", || async {
///     let (client_end, server_end) = tokio::io::duplex(64 << 10);
///     # let serve = drop;
///     serve(server_end);
///     Ok(client_end)
/// });
/// assert_eq!(connector.name(), "loopback");
/// let config = Config::new(connector.into(), "OVN_Northbound");
/// ```
#[derive(Clone)]
pub struct Connector {
    name: Arc<str>,
    connect: Arc<dyn Fn() -> Connecting + Send + Sync>,
}

impl Connector {
    /// Calls `connect` for each connection. `name` stands for the address in logs and errors.
    pub fn new<F, S>(
        name: impl Into<Arc<str>>,
        connect: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let boxed = move || -> Connecting {
            let connecting = connect();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Stream>) })
        };
        Self { name: name.into(), connect: Arc::new(boxed) }
    }

    /// The name in logs and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens a stream.
    pub(super) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        (self.connect)().await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.name).finish()
    }
}

impl PartialEq for Connector {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.connect, &other.connect)
    }
}

impl Eq for Connector {}

impl Hash for Connector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.connect).cast::<()>().hash(state);
    }
}
