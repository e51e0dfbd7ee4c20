//! A session with its socket.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

use super::config::Config;
use super::connector::Stream;
use super::error::{Lost, SessionError};
use super::remote::Remote;
use super::replica::Replica;
use super::session::{Event, Session};

/// How much is read from a socket at once.
const READ: usize = 64 << 10;

/// One connection to a server.
pub(super) struct Connection {
    pub(super) remote: Remote,
    pub(super) session: Session,
    /// When the replica began to follow the server.
    pub(super) live_since: Instant,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
}

impl Connection {
    /// Connects and waits until the replica holds the database. `lock` is the name of the lock of this client's
    /// connections.
    pub(super) async fn establish(
        config: &Arc<Config>,
        remote: &Remote,
        lock: &Arc<str>,
        attempt_limit: Duration,
        replica: &mut Option<Replica>,
    ) -> Result<Self, Lost> {
        let lost = |error| Lost {
            remote: remote.clone(),
            error,
        };
        let socket = timeout(attempt_limit, connect(remote)).await;
        let socket = socket.map_err(|_| lost(SessionError::ConnectTimeout(attempt_limit)))?;
        let (read, write) = tokio::io::split(socket.map_err(lost)?);
        let now = Instant::now();
        let session = Session::new(config.clone(), remote, lock.clone(), now.into_std());
        let mut this = Self {
            remote: remote.clone(),
            session,
            live_since: now,
            read,
            write,
        };
        this.wait_until_live(replica).await.map_err(lost)?;
        this.live_since = Instant::now();
        Ok(this)
    }

    async fn wait_until_live(&mut self, replica: &mut Option<Replica>) -> Result<(), SessionError> {
        loop {
            match self.session.next_event(replica)? {
                Some(Event::Live) => return Ok(()),
                Some(_) => {}
                None => self.advance().await?,
            }
        }
    }

    /// Waits until bytes can be moved or it is time to look after the session. Dropping the future loses nothing.
    pub(super) async fn advance(&mut self) -> Result<(), SessionError> {
        let deadline = self.session.deadline().map(Instant::from_std);
        let (input, output) = self.session.buffers();
        input.reserve(READ);
        tokio::select! {
            len = self.read.read_buf(input) => {
                if len? == 0 {
                    return Err(SessionError::Closed);
                }
                self.session.received(Instant::now().into_std());
            }
            len = self.write.write(output), if !output.is_empty() => {
                let len = len?;
                self.session.sent(len);
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.session.on_deadline(Instant::now().into_std())?;
            }
        }
        Ok(())
    }
}

async fn connect(remote: &Remote) -> Result<Box<dyn Stream>, SessionError> {
    Ok(match remote {
        Remote::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Remote::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            // Small requests wait for an answer each: nothing is gained by holding them back.
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Remote::Connector(connector) => connector.connect().await?,
    })
}
