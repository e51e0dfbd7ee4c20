//! Listeners: unix sockets and TCP ports at which clients connect.

mod clients;
mod endpoint;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::remotes::options::RemoteOptions;
use crate::server::Server;
use crate::target::RemoteError;

pub(crate) use endpoint::Endpoints;
use endpoint::{Endpoint, EndpointState};
pub(crate) use socket::{ListeningSocket, PeerStream};
#[cfg(feature = "unixctl")]
pub(crate) use socket::{bind_unix, pause_after_accept_error, remove_stale_socket};

/// Listening socket. Dropping it stops accepting connections and removes a unix socket's file. Open
/// connections stay open.
#[derive(Debug)]
pub struct Listener {
    endpoint: Arc<Endpoint>,
}

impl Listener {
    /// The address for clients: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`.
    pub fn remote(&self) -> String {
        self.endpoint.target.to_client_text()
    }

    /// The address of a TCP or TLS listener, with the port that the system chose if port 0 was
    /// given. `None`: unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.endpoint.target.address()
    }

    /// The number of connected clients.
    pub(crate) fn client_count(&self) -> usize {
        self.endpoint.clients.registered().sessions.len()
    }

    /// Changes the options of the clients.
    pub(crate) fn set_options(&self, options: RemoteOptions) {
        self.endpoint.clients.options.send_replace(options);
    }

    /// Closes the connections of all clients, also of those that are about to be served.
    pub(crate) fn close_clients(&self, server: &Server) {
        let clients = {
            let mut registered = self.endpoint.clients.registered();
            registered.is_closed = true;
            registered.sessions.clone()
        };
        server.close_sessions(|session| clients.contains(&session.id()));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.endpoint.leave_open_state(EndpointState::Ended) {
            task.abort();
        }
    }
}

/// Opens a listener at `punix:PATH`, `ptcp:PORT[:HOST]` or `pssl:PORT[:HOST]`.
pub(crate) async fn listen(
    server: &Arc<Server>,
    endpoints: &Endpoints,
    target: &str,
    options: RemoteOptions,
) -> Result<Listener, RemoteError> {
    let endpoint = Arc::new(Endpoint::bind(server.clone(), target, options).await?);
    endpoints.add(&endpoint);
    Ok(Listener { endpoint })
}
