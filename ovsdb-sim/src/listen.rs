//! Listeners: unix sockets and TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use crate::server::Server;
use crate::session;

/// A TCP client that is silent for so long must answer a probe, as with ovsdb-server.
const TCP_PROBE: Duration = Duration::from_secs(5);
/// Pause after a failed `accept` (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not `punix:PATH` or `ptcp:PORT[:HOST]`.
    #[error("{0}: expected punix:PATH or ptcp:PORT[:HOST], HOST being an IP address")]
    Target(String),
    /// The system refused.
    #[error("{target}: {source}")]
    Io {
        /// The target.
        target: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// A place at which clients are served. Dropping it stops accepting and removes a unix socket's file;
/// connections that are there go on.
#[derive(Debug)]
pub struct Listener {
    target: String,
    address: Option<SocketAddr>,
    socket: Option<PathBuf>,
    task: JoinHandle<()>,
}

impl Listener {
    /// As clients name it: `unix:PATH` or `tcp:HOST:PORT`.
    pub fn remote(&self) -> String {
        match (&self.address, &self.socket) {
            (Some(address), _) => format!("tcp:{}:{}", host_text(address.ip()), address.port()),
            (None, Some(path)) => format!("unix:{}", path.display()),
            (None, None) => self.target.clone(),
        }
    }

    /// Where it listens, of TCP; tells the port that port 0 became.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(path) = &self.socket {
            // Somebody may have removed it already.
            std::fs::remove_file(path).unwrap_or_default();
        }
    }
}

pub(crate) async fn listen(server: Arc<Server>, target: &str) -> Result<Listener, ListenError> {
    let io_error = |source| ListenError::Io {
        target: target.to_owned(),
        source,
    };
    if let Some(path) = target
        .strip_prefix("punix:")
        .filter(|path| !path.is_empty())
    {
        let path = PathBuf::from(path);
        remove_stale(&path).map_err(io_error)?;
        let listener = UnixListener::bind(&path).map_err(io_error)?;
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => spawn(&server, stream, None),
                    Err(error) => pause(&error).await,
                }
            }
        });
        return Ok(Listener {
            target: target.to_owned(),
            address: None,
            socket: Some(path),
            task,
        });
    }
    let address = target
        .strip_prefix("ptcp:")
        .and_then(parse_address)
        .ok_or_else(|| ListenError::Target(target.to_owned()))?;
    let listener = TcpListener::bind(address).await.map_err(io_error)?;
    let address = listener.local_addr().map_err(io_error)?;
    let task = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    stream.set_nodelay(true).unwrap_or_default();
                    spawn(&server, stream, Some(TCP_PROBE));
                }
                Err(error) => pause(&error).await,
            }
        }
    });
    Ok(Listener {
        target: target.to_owned(),
        address: Some(address),
        socket: None,
        task,
    })
}

fn spawn<S>(server: &Arc<Server>, stream: S, probe: Option<Duration>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static,
{
    let Ok(place) = server.places().clone().try_acquire_owned() else {
        let limit = server.limits().connections;
        tracing::warn!(limit, "too many connections: refusing one");
        return;
    };
    let server = server.clone();
    tokio::spawn(async move {
        session::serve(server, stream, probe).await;
        drop(place);
    });
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// A socket that a former process left behind is in the way; anything else is not ours to remove.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "exists and is not a socket",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// `PORT[:HOST]`, all IPv4 addresses without a host.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (port, host) = match text.split_once(':') {
        Some((port, host)) => {
            let bare = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            (port, bare.parse().ok()?)
        }
        None => (text, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    Some(SocketAddr::new(host, port.parse().ok()?))
}

fn host_text(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_a_port_and_perhaps_a_host() {
        assert_eq!(parse_address("6641"), Some(([0, 0, 0, 0], 6641).into()));
        assert_eq!(
            parse_address("0:127.0.0.1"),
            Some(([127, 0, 0, 1], 0).into())
        );
        assert_eq!(
            parse_address("1:[::1]").map(|a| a.to_string()),
            Some("[::1]:1".to_owned())
        );
        assert_eq!(parse_address("x"), None);
        assert_eq!(parse_address("1:localhost"), None);
    }
}
