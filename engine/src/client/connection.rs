//! Connection to a server: a session and its socket.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

use super::config::Config;
use super::connector::Stream;
use super::error::{ConnectionFailure, SessionError, unexpected};
use super::guard::{AcquisitionProgress, Guard, GuardAcquisition, HeldGuard};
use super::metrics::Metrics;
use super::remote::Remote;
use super::retained_state::RetainedState;
use super::session::{ReplicaReady, Session, SessionEvent};
use super::tls::TlsError;

/// Minimum room in the receive buffer before each read, in bytes. A large monitor reply takes few
/// system calls at this size.
const SOCKET_READ_BYTES: usize = 64 << 10;

/// Connection to a server.
pub(super) struct Connection {
    pub(super) remote: Remote,
    pub(super) session: Session,
    /// Time at which the replica became live on this connection.
    pub(super) live_since: Instant,
    /// The guard row, if [`Config::guard`] is set.
    pub(super) guard: Option<HeldGuard>,
    metrics: Arc<Metrics>,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    /// `true` if the stream may buffer written bytes. A TLS stream does when its socket is full.
    unflushed: bool,
    /// `true` if a write had to wait since the last completed write.
    is_full: bool,
}

impl Connection {
    /// Connects, waits until the replica holds the database, and takes the guard row if one is
    /// configured. Also returns how the replica was brought up to date.
    ///
    /// `fence_lock` is the name of the lock of the [`Fence`](super::fence::Fence).
    pub(super) async fn establish(
        config: &Arc<Config>,
        remote: &Remote,
        fence_lock: &Arc<str>,
        retained: &mut RetainedState,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, ReplicaReady), ConnectionFailure> {
        let failed = |error| ConnectionFailure { remote: remote.clone(), error };
        let limit = config.connect_timeout;
        let socket = timeout(limit, connect(remote, config))
            .await
            .map_err(|_| failed(SessionError::ConnectTimeout(limit)))?;
        let (read, write) = tokio::io::split(socket.map_err(failed)?);
        let now = Instant::now();
        let session = Session::new(config.clone(), remote, fence_lock.clone(), now.into_std());
        let mut this = Self {
            remote: remote.clone(),
            session,
            live_since: now,
            guard: None,
            metrics: metrics.clone(),
            read,
            write,
            unflushed: false,
            is_full: false,
        };
        let live = this.wait_until_live(retained).await.map_err(failed)?;
        if let Some(guard) = &config.guard {
            let limit = config.setup_timeout;
            let taken = timeout(limit, this.acquire_guard(guard, &config.database, retained)).await;
            let taken = taken.unwrap_or(Err(SessionError::Silent(limit)));
            this.guard = Some(taken.map_err(failed)?);
        }
        this.live_since = Instant::now();
        Ok((this, live))
    }

    async fn wait_until_live(
        &mut self,
        retained: &mut RetainedState,
    ) -> Result<ReplicaReady, SessionError> {
        loop {
            match self.session.next_event(retained)? {
                Some(SessionEvent::ReplicaReady(live)) => return Ok(live),
                Some(_) => {}
                None => self.advance().await?,
            }
        }
    }

    /// Takes the guard row from earlier connections.
    async fn acquire_guard(
        &mut self,
        guard: &Guard,
        database: &str,
        retained: &mut RetainedState,
    ) -> Result<HeldGuard, SessionError> {
        let (mut acquisition, request) = GuardAcquisition::begin(guard, database, &retained.client);
        let (mut request_id, _) = self.session.transact(request);
        loop {
            match self.session.next_event(retained)? {
                Some(SessionEvent::Answer { request, reply }) if request == request_id => {
                    match acquisition.handle_reply(&reply)? {
                        AcquisitionProgress::Acquired(held) => return Ok(held),
                        AcquisitionProgress::Request(next, request) => {
                            acquisition = next;
                            request_id = self.session.transact(request).0;
                        }
                    }
                }
                Some(SessionEvent::Answer { .. }) => {
                    return Err(unexpected("reply", "its id belongs to no request"));
                }
                Some(SessionEvent::SchemaChanged) => {
                    // The monitor has ended, and no handle is served yet.
                    return Err(unexpected(
                        "monitor_canceled",
                        "the schema has changed during connection setup",
                    ));
                }
                Some(_) => {}
                None => self.advance().await?,
            }
        }
    }

    /// Waits until bytes can be received or sent, or until a deadline of the session.
    ///
    /// # Cancel safety
    /// Dropping the future loses no bytes.
    pub(super) async fn advance(&mut self) -> Result<(), SessionError> {
        let deadline = self.session.deadline().map(Instant::from_std);
        let (input, output) = self.session.buffers();
        if input.capacity() - input.len() < SOCKET_READ_BYTES {
            // Long messages grow the buffer by a quarter, not by doubling.
            input.reserve_exact(SOCKET_READ_BYTES.max(input.len() / 4));
        }
        tokio::select! {
            len = self.read.read_buf(input) => {
                let len = len?;
                if len == 0 {
                    return Err(SessionError::Closed);
                }
                self.metrics.record_received_bytes(len);
                self.session.on_received(Instant::now().into_std());
            }
            len = write_or_flush(&mut self.write, output, &mut self.is_full), if !output.is_empty() || self.unflushed => {
                let len = len?;
                self.unflushed = !output.is_empty();
                self.metrics.record_sent_bytes(len);
                self.session.on_sent(len);
                if std::mem::take(&mut self.is_full) {
                    self.session.on_send_progress(Instant::now().into_std());
                }
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.session.on_deadline(Instant::now().into_std())?;
            }
        }
        Ok(())
    }
}

/// Writes bytes to a stream and returns how many it accepted. Flushes the stream if `output` is
/// empty.
///
/// Sets `is_full` if the stream makes the bytes wait. Dropping the future loses no bytes.
async fn write_or_flush(
    stream: &mut WriteHalf<Box<dyn Stream>>,
    output: &[u8],
    is_full: &mut bool,
) -> io::Result<usize> {
    poll_fn(|context| {
        let stream = Pin::new(&mut *stream);
        let done = if output.is_empty() {
            stream.poll_flush(context).map_ok(|()| 0)
        } else {
            stream.poll_write(context, output)
        };
        *is_full |= done.is_pending();
        done
    })
    .await
}

#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, reason = "only `ssl:` remotes need the configuration")
)]
async fn connect(remote: &Remote, config: &Config) -> Result<Box<dyn Stream>, SessionError> {
    Ok(match remote {
        Remote::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Remote::Tcp { host, port } => Box::new(connect_tcp(host, *port).await?),
        #[cfg(feature = "tls")]
        Remote::Ssl { host, port } => {
            let tls = config.tls.as_ref().ok_or(TlsError::NoKeys)?;
            let stream = connect_tcp(host, *port).await?;
            Box::new(tls.connect(host, stream).await?)
        }
        #[cfg(not(feature = "tls"))]
        Remote::Ssl { .. } => return Err(TlsError::NotSupported.into()),
        Remote::Connector(connector) => connector.connect().await?,
    })
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Small requests must not wait for more data to fill a packet.
    stream.set_nodelay(true)?;
    Ok(stream)
}
