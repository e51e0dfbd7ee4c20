//! A session with its socket.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

use super::config::Config;
use super::connector::Stream;
use super::error::{Lost, SessionError, unexpected};
use super::guard::{Guard, HeldGuard, Taken, Taking};
use super::known::Known;
use super::metrics::Metrics;
use super::remote::Remote;
use super::session::{Event, Live, Session};
use super::tls::TlsError;

/// How much is read from a socket at once.
const READ: usize = 64 << 10;

/// One connection to a server.
pub(super) struct Connection {
    pub(super) remote: Remote,
    pub(super) session: Session,
    /// When the replica began to follow the server.
    pub(super) live_since: Instant,
    /// The client's row in the database, where it has one.
    pub(super) guard: Option<HeldGuard>,
    metrics: Arc<Metrics>,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    /// Whether the stream may keep back some of what was written: one with TLS does, when its socket is full.
    unflushed: bool,
    /// Whether the stream has made what is to be sent wait.
    is_full: bool,
}

impl Connection {
    /// Connects and waits until the replica holds the database. `lock` is the name of the lock of this client's
    /// connections. Returns how the replica was brought up to date, too.
    pub(super) async fn establish(
        config: &Arc<Config>,
        remote: &Remote,
        lock: &Arc<str>,
        known: &mut Known,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, Live), Lost> {
        let lost = |error| Lost {
            remote: remote.clone(),
            error,
        };
        let limit = config.connect_timeout;
        let socket = timeout(limit, connect(remote, config)).await;
        let socket = socket.map_err(|_| lost(SessionError::ConnectTimeout(limit)))?;
        let (read, write) = tokio::io::split(socket.map_err(lost)?);
        let now = Instant::now();
        let session = Session::new(config.clone(), remote, lock.clone(), now.into_std());
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
        let live = this.wait_until_live(known).await.map_err(lost)?;
        if let Some(guard) = &config.guard {
            let limit = config.setup_timeout;
            let taken = timeout(limit, this.take_guard(guard, &config.database, known)).await;
            let taken = taken.unwrap_or(Err(SessionError::Silent(limit)));
            this.guard = Some(taken.map_err(lost)?);
        }
        this.live_since = Instant::now();
        Ok((this, live))
    }

    async fn wait_until_live(&mut self, known: &mut Known) -> Result<Live, SessionError> {
        loop {
            match self.session.next_event(known)? {
                Some(Event::Live(live)) => return Ok(live),
                Some(_) => {}
                None => self.advance().await?,
            }
        }
    }

    /// Takes the client's row in the database from former connections.
    async fn take_guard(
        &mut self,
        guard: &Guard,
        database: &str,
        known: &mut Known,
    ) -> Result<HeldGuard, SessionError> {
        let (mut taking, request) = Taking::begin(guard, database, &known.client);
        let (mut awaited, _) = self.session.transact(request);
        loop {
            match self.session.next_event(known)? {
                Some(Event::Answer { request, reply }) if request == awaited => {
                    match taking.answered(&reply)? {
                        Taken::Held(held) => return Ok(held),
                        Taken::Ask(next, request) => {
                            taking = next;
                            awaited = self.session.transact(request).0;
                        }
                    }
                }
                Some(Event::Answer { .. }) => {
                    return Err(unexpected("reply", "nobody asked for it"));
                }
                Some(Event::SchemaChanged) => {
                    // The replica does not follow the database any more, and no handle is served yet.
                    return Err(unexpected(
                        "monitor_canceled",
                        "the schema has changed while the connection began",
                    ));
                }
                Some(_) => {}
                None => self.advance().await?,
            }
        }
    }

    /// Waits until bytes can be moved or it is time to look after the session. Dropping the future loses nothing.
    pub(super) async fn advance(&mut self) -> Result<(), SessionError> {
        let deadline = self.session.deadline().map(Instant::from_std);
        let (input, output) = self.session.buffers();
        if input.capacity() - input.len() < READ {
            // What is long already grows by less than its length at once.
            input.reserve_exact(READ.max(input.len() / 4));
        }
        tokio::select! {
            len = self.read.read_buf(input) => {
                let len = len?;
                if len == 0 {
                    return Err(SessionError::Closed);
                }
                self.metrics.received(len);
                self.session.received(Instant::now().into_std());
            }
            len = write_or_flush(&mut self.write, output, &mut self.is_full), if !output.is_empty() || self.unflushed => {
                let len = len?;
                self.unflushed = !output.is_empty();
                self.metrics.sent(len);
                self.session.sent(len);
                if std::mem::take(&mut self.is_full) {
                    self.session.moved(Instant::now().into_std());
                }
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.session.on_deadline(Instant::now().into_std())?;
            }
        }
        Ok(())
    }
}

/// Hands bytes to a stream and returns how many it took; none are there when it is to let go of what it has kept back.
/// `is_full` is set when it makes them wait. Dropping the future loses nothing.
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

async fn connect(remote: &Remote, config: &Config) -> Result<Box<dyn Stream>, SessionError> {
    Ok(match remote {
        Remote::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Remote::Tcp { host, port } => Box::new(connect_tcp(host, *port).await?),
        Remote::Ssl { host, port } => {
            let tls = config.tls.as_ref().ok_or(TlsError::NoKeys)?;
            let stream = connect_tcp(host, *port).await?;
            Box::new(tls.connect(host, stream).await?)
        }
        Remote::Connector(connector) => connector.connect().await?,
    })
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Small requests wait for an answer each: nothing is gained by holding them back.
    stream.set_nodelay(true)?;
    Ok(stream)
}
