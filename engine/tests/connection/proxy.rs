//! A proxy that cuts connections at a chosen byte.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use patchbay_ovn_programs::testing::ScratchDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

/// No limit on the bytes that pass.
const UNLIMITED: i64 = i64::MAX;

/// Direction of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Relays connections of a unix socket to another one.
pub(crate) struct Proxy {
    socket: PathBuf,
    control: Arc<Control>,
    _dir: ScratchDir,
}

#[derive(Default)]
struct Control {
    /// Remaining bytes in each direction before the connection is cut.
    left: [AtomicI64; 2],
    refusing: AtomicBool,
    cut_now: Notify,
    cuts: AtomicUsize,
}

impl Proxy {
    pub(crate) fn start(server: &Path) -> Self {
        let dir = ScratchDir::new();
        let socket = dir.path().join("proxy");
        let listener = UnixListener::bind(&socket).unwrap();
        let control = Arc::new(Control::default());
        control.left.iter().for_each(|left| left.store(UNLIMITED, Ordering::SeqCst));
        tokio::spawn(accept(listener, server.to_owned(), control.clone()));
        Self { socket, control, _dir: dir }
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Cuts the connection after this number of bytes.
    pub(crate) fn cut_after(&self, direction: Direction, bytes: i64) {
        self.control.left[direction as usize].store(bytes, Ordering::SeqCst);
    }

    /// Removes all limits.
    pub(crate) fn remove_limits(&self) {
        for left in &self.control.left {
            left.store(UNLIMITED, Ordering::SeqCst);
        }
    }

    /// Starts or stops refusing connections. Starting cuts all existing ones.
    pub(crate) fn refuse(&self, refusing: bool) {
        self.control.refusing.store(refusing, Ordering::SeqCst);
        if refusing {
            self.control.cut_now.notify_waiters();
        }
    }

    /// Number of connections that were cut by a limit.
    pub(crate) fn cuts(&self) -> usize {
        self.control.cuts.load(Ordering::SeqCst)
    }
}

async fn accept(listener: UnixListener, server: PathBuf, control: Arc<Control>) {
    while let Ok((client, _)) = listener.accept().await {
        if control.refusing.load(Ordering::SeqCst) {
            continue;
        }
        // A stopped server looks like one that closes the connection.
        if let Ok(server) = UnixStream::connect(&server).await {
            let control = control.clone();
            tokio::spawn(async move {
                let cut = control.cut_now.notified();
                tokio::select! {
                    // If one side closes the connection, both see its end.
                    _ = relay(client, server, &control) => {}
                    () = cut => {}
                }
            });
        }
    }
}

async fn relay(client: UnixStream, server: UnixStream, control: &Control) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut reply) = ([0; 4096], [0; 4096]);
    loop {
        let (direction, bytes) = tokio::select! {
            len = from_client.read(&mut request) => (Direction::ToServer, &request[..len?]),
            len = from_server.read(&mut reply) => (Direction::ToClient, &reply[..len?]),
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let left = &control.left[direction as usize];
        let allowed = left.load(Ordering::SeqCst);
        let passing = bytes.len().min(usize::try_from(allowed).unwrap_or(0));
        match direction {
            Direction::ToServer => to_server.write_all(&bytes[..passing]).await?,
            Direction::ToClient => to_client.write_all(&bytes[..passing]).await?,
        }
        if allowed == UNLIMITED {
            continue;
        }
        if passing < bytes.len() {
            left.store(UNLIMITED, Ordering::SeqCst);
            control.cuts.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        left.fetch_sub(bytes.len() as i64, Ordering::SeqCst);
    }
}
