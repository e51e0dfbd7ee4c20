//! Connections that are made neither on unix sockets nor on TCP.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// What a session can run on.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Opens byte streams to a server in a way that only its maker knows: to one in the same process, through a tunnel,
/// through something that breaks them for a test.
///
/// It is a [`Remote`](super::Remote) like any other: several may be given, mixed with others, to be tried in order. Two
/// are equal when they are clones of one.
///
/// ```
/// use patchbay_engine::client::{Config, Connector};
///
/// let connector = Connector::new("loopback", || async {
///     let (ours, theirs) = tokio::io::duplex(64 << 10);
///     # let serve = drop;
///     serve(theirs);
///     Ok(ours)
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
    /// `connect` is called for each connection; `name` stands in logs and errors where others have their address.
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
        Self {
            name: name.into(),
            connect: Arc::new(boxed),
        }
    }

    /// What logs and errors call it.
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
