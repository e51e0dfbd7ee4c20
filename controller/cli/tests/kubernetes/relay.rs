//! A relay between a client and a server on unix sockets, which can be cut.

use std::path::PathBuf;

use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// Forwards all connections until it is cut.
pub(crate) struct Relay {
    socket: PathBuf,
    server: PathBuf,
    passing: Option<JoinHandle<()>>,
}

impl Relay {
    /// A relay that does not listen yet.
    pub(crate) fn new(socket: PathBuf, server: PathBuf) -> Self {
        Self { socket, server, passing: None }
    }

    /// Accepts and forwards connections.
    pub(crate) fn mend(&mut self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let server = self.server.clone();
        self.passing = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = UnixStream::connect(&server).await.unwrap();
                connections
                    .spawn(async move { copy_bidirectional(&mut client, &mut server).await });
            }
        }));
    }

    /// Cuts all connections and accepts none.
    pub(crate) async fn cut(&mut self) {
        let passing = self.passing.take().unwrap();
        passing.abort();
        assert!(passing.await.unwrap_err().is_cancelled());
        std::fs::remove_file(&self.socket).unwrap();
    }
}
