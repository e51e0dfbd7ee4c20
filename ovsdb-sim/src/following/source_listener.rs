//! Passive source: the server waits for its source, which connects (`punix:`, `ptcp:`, `pssl:`).

use std::io;
use std::sync::{Arc, Weak};

use patchbay_engine::client::Connector;
use tokio::sync::Mutex;

use crate::listen::{ListeningSocket, PeerStream};
use crate::server::Server;
use crate::target::PassiveTarget;

/// Socket at which a source connects. Dropping it removes a unix socket's file.
#[derive(Debug)]
struct SourceListener {
    target: PassiveTarget,
    server: Weak<Server>,
    /// `None`: not bound yet.
    socket: Mutex<Option<ListeningSocket>>,
}

/// A connector whose streams are the connections of a source. `text` names it in logs.
pub(super) fn connector(text: &str, target: PassiveTarget, server: &Arc<Server>) -> Connector {
    let listener = Arc::new(SourceListener {
        target,
        server: Arc::downgrade(server),
        socket: Mutex::default(),
    });
    Connector::new(text, move || {
        let listener = listener.clone();
        async move { listener.accept().await }
    })
}

impl SourceListener {
    /// Waits for a connection of the source.
    async fn accept(&self) -> io::Result<Box<dyn PeerStream>> {
        let mut bound = self.socket.lock().await;
        let socket = match &mut *bound {
            Some(socket) => socket,
            empty => empty.insert(ListeningSocket::bind(&self.target).await?),
        };
        socket.accept_peer(&self.server).await
    }
}

impl Drop for SourceListener {
    fn drop(&mut self) {
        if self.socket.get_mut().is_some()
            && let PassiveTarget::Unix(path) = &self.target
        {
            // Another program may have removed it.
            std::fs::remove_file(path).unwrap_or_default();
        }
    }
}
