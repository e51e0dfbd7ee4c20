//! Peers of connections: no peer can take all places of a server.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;

/// Peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// User of the process at the other end of a unix socket (`SO_PEERCRED`). A user has any number
    /// of processes. `u32::MAX`: the system does not know the user.
    User(u32),
    Address(IpAddr),
    /// The server's owner has asked for the connection.
    Owner,
}

impl Peer {
    pub(crate) fn of_unix(stream: &UnixStream) -> Self {
        let user = stream.peer_cred().map(|credentials| credentials.uid());
        Self::User(user.unwrap_or(u32::MAX))
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address.ip())
    }
}

/// Number of connections of each peer.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<HashMap<Peer, usize>>);

impl Peers {
    /// Counts a connection, unless its peer has `limit` of them.
    pub(crate) fn add(self: &Arc<Self>, peer: Peer, limit: usize) -> Option<PeerGuard> {
        let mut counts = self.counts();
        let count = counts.entry(peer).or_default();
        if *count >= limit && peer != Peer::Owner {
            return None;
        }
        *count += 1;
        let peers = self.clone();
        Some(PeerGuard { peers, peer })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Peer, usize>> {
        // Each change leaves a count for each guard.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counted connection of a peer.
#[derive(Debug)]
pub(crate) struct PeerGuard {
    peers: Arc<Peers>,
    peer: Peer,
}

impl Drop for PeerGuard {
    fn drop(&mut self) {
        let mut counts = self.peers.counts();
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

/// Place of a connection in a server, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) _permit: OwnedSemaphorePermit,
    pub(crate) _peer: PeerGuard,
}
