//! Endpoints: listeners as the simulator keeps them, to be closed and opened again.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::task::JoinHandle;

use crate::connection;
use crate::peers::Peer;
use crate::remotes::options::RemoteOptions;
use crate::server::Server;
use crate::target::{PassiveTarget, RemoteError, check_tls_support};

use super::clients::ListenerClients;
use super::socket::{ListeningSocket, pause_after_accept_error};

/// Endpoints of all listeners of a simulator.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(Mutex<Vec<Weak<Endpoint>>>);

impl Endpoints {
    fn list(&self) -> MutexGuard<'_, Vec<Weak<Endpoint>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, endpoint: &Arc<Endpoint>) {
        let mut list = self.list();
        list.retain(|endpoint| endpoint.strong_count() > 0);
        list.push(Arc::downgrade(endpoint));
    }

    fn all(&self) -> Vec<Arc<Endpoint>> {
        self.list().iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes all endpoints, and returns when no more connections can be made.
    pub(crate) async fn close_all(&self) {
        for endpoint in self.all() {
            endpoint.close().await;
        }
    }

    /// Opens all closed endpoints again.
    ///
    /// # Errors
    /// A socket cannot be bound. The endpoints after it stay closed.
    pub(crate) async fn open_all(&self, server: &Arc<Server>) -> Result<(), RemoteError> {
        for endpoint in self.all() {
            endpoint.open(server).await?;
        }
        Ok(())
    }
}

/// Listening socket that an outage closes and that can be opened again.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) target: PassiveTarget,
    state: Mutex<EndpointState>,
    /// Serializes [`open`](Self::open), because binding a unix socket replaces the file of a socket
    /// that is open.
    opening: tokio::sync::Mutex<()>,
    pub(super) clients: Arc<ListenerClients>,
}

#[derive(Debug)]
pub(super) enum EndpointState {
    Open(JoinHandle<()>),
    Closed,
    /// The listener was dropped. The endpoint is not opened again.
    Ended,
}

impl Endpoint {
    /// Binds a target and accepts connections there.
    pub(super) async fn bind(
        server: Arc<Server>,
        target: &str,
        options: RemoteOptions,
    ) -> Result<Self, RemoteError> {
        check_tls_support(target)?;
        #[cfg(feature = "tls")]
        server.check_keys(target);
        let parsed =
            PassiveTarget::parse(target).ok_or_else(|| RemoteError::Passive(target.to_owned()))?;
        let parsed = server.settings().locate_socket(parsed);
        let io_error = |source| RemoteError::Io { target: target.to_owned(), source };
        let socket = ListeningSocket::bind(&parsed).await.map_err(io_error)?;
        let target = match socket.address().map_err(io_error)? {
            Some(address) => parsed.with_address(address),
            None => parsed,
        };
        let clients = Arc::new(ListenerClients::new(options));
        let task = spawn_accepting(server, socket, clients.clone());
        Ok(Self {
            target,
            state: Mutex::new(EndpointState::Open(task)),
            opening: tokio::sync::Mutex::default(),
            clients,
        })
    }

    /// Opens the endpoint again after [`close`](Self::close). An open one stays as it is.
    async fn open(&self, server: &Arc<Server>) -> Result<(), RemoteError> {
        let _turn = self.opening.lock().await;
        if !matches!(*self.state(), EndpointState::Closed) {
            return Ok(());
        }
        let socket = ListeningSocket::bind(&self.target)
            .await
            .map_err(|source| RemoteError::Io { target: self.target.to_text(), source })?;
        let mut state = self.state();
        if matches!(*state, EndpointState::Closed) {
            let clients = self.clients.clone();
            let task = spawn_accepting(server.clone(), socket, clients);
            *state = EndpointState::Open(task);
        }
        Ok(())
    }

    /// Closes the endpoint, and returns when no more connections can be made.
    async fn close(&self) {
        if let Some(task) = self.leave_open_state(EndpointState::Closed) {
            task.abort();
            // The task ends by being aborted, and cannot panic.
            let _ = task.await;
        }
    }

    /// Removes the socket's file and changes the state. Returns the accepting task if the endpoint
    /// was open.
    pub(super) fn leave_open_state(&self, next: EndpointState) -> Option<JoinHandle<()>> {
        let mut state = self.state();
        if matches!(*state, EndpointState::Ended) {
            return None;
        }
        let EndpointState::Open(task) = std::mem::replace(&mut *state, next) else {
            return None;
        };
        if let PassiveTarget::Unix(path) = &self.target {
            // Another program may have removed it.
            std::fs::remove_file(path).unwrap_or_default();
        }
        Some(task)
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        // Each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the task that accepts and serves connections.
///
/// It is not `async`, so that the code of a connection is compiled with this crate, and not with
/// each program again.
fn spawn_accepting(
    server: Arc<Server>,
    socket: ListeningSocket,
    clients: Arc<ListenerClients>,
) -> JoinHandle<()> {
    tokio::spawn(accept(server, socket, clients))
}

/// Accepts and serves connections until the task is aborted.
async fn accept(server: Arc<Server>, socket: ListeningSocket, clients: Arc<ListenerClients>) {
    loop {
        let joined = clients.clone();
        let register = move |session| joined.register(session);
        let options = clients.options.subscribe();
        let accepted = match &socket {
            ListeningSocket::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                let peer = Peer::of_unix(&stream);
                connection::spawn(&server, peer, ready(Some(stream)), options, register);
            }),
            ListeningSocket::Tcp(listener) => listener.accept().await.map(|(stream, address)| {
                let peer = Peer::from(address);
                stream.set_nodelay(true).unwrap_or_default();
                connection::spawn(&server, peer, ready(Some(stream)), options, register);
            }),
            #[cfg(feature = "tls")]
            ListeningSocket::Tls(listener) => listener.accept().await.map(|(stream, address)| {
                let peer = Peer::from(address);
                stream.set_nodelay(true).unwrap_or_default();
                let stream = accept_tls(server.clone(), stream, address);
                connection::spawn(&server, peer, stream, options, register);
            }),
        };
        if let Err(error) = accepted {
            pause_after_accept_error(&error).await;
        }
    }
}

/// Does the handshake with a client. `None`: it failed.
#[cfg(feature = "tls")]
async fn accept_tls(
    server: Arc<Server>,
    stream: tokio::net::TcpStream,
    peer: std::net::SocketAddr,
) -> Option<tokio_rustls::server::TlsStream<tokio::net::TcpStream>> {
    let accepted = server.tls().accept(server.databases(), stream).await;
    accepted
        .inspect_err(|error| {
            // ovsdb-server's module, whose warnings test suites expect.
            tracing::warn!(target: "stream_ssl", "SSL_accept: {peer}: {error}");
        })
        .ok()
}
