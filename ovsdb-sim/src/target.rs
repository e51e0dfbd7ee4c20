//! Targets of remotes, in ovsdb-server's notation (ovsdb(7)), and the errors of opening them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Default TCP port, which IANA has assigned to OVSDB.
const OVSDB_PORT: u16 = 6640;

/// Error: a remote cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The target is of no kind that [`Remotes`](crate::Remotes) take.
    #[error(
        "{0}: expected punix:PATH, ptcp:PORT[:HOST], pssl:PORT[:HOST], unix:PATH, tcp:HOST[:PORT], ssl:HOST[:PORT] or db:DATABASE,TABLE,COLUMN"
    )]
    Kind(String),
    /// The target is not `punix:PATH`, `ptcp:PORT[:HOST]` or `pssl:PORT[:HOST]`.
    #[error(
        "{0}: expected punix:PATH, ptcp:PORT[:HOST] or pssl:PORT[:HOST], HOST being an IP address"
    )]
    Passive(String),
    /// The target is not `unix:PATH`, `tcp:HOST[:PORT]` or `ssl:HOST[:PORT]`.
    #[error("{0}: expected unix:PATH, tcp:HOST[:PORT] or ssl:HOST[:PORT]")]
    Active(String),
    /// The target is `ssl:` or `pssl:`, and the crate was built without the feature `tls`.
    #[error(
        "{0}: this program was built without TLS: it needs the Cargo feature `tls` of ovsdb-sim"
    )]
    TlsNotSupported(String),
    /// The target `db:DATABASE,TABLE,COLUMN` names no column.
    #[error("\"{target}\": {problem}")]
    Column {
        /// The target.
        target: String,
        /// The error, in ovsdb-server's words.
        problem: String,
    },
    /// The system refused to open the socket.
    #[error("{target}: {source}")]
    Io {
        /// The target.
        target: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Address at which the server listens: `punix:PATH`, `ptcp:PORT[:HOST]` or `pssl:PORT[:HOST]`.
#[derive(Debug)]
pub(crate) enum PassiveTarget {
    Unix(PathBuf),
    Tcp(SocketAddr),
    Tls(SocketAddr),
}

impl PassiveTarget {
    pub(crate) fn parse(target: &str) -> Option<Self> {
        match target.split_once(':')? {
            ("punix", "") => None,
            ("punix", path) => Some(Self::Unix(path.into())),
            ("ptcp", address) => parse_passive_address(address).map(Self::Tcp),
            ("pssl", address) => parse_passive_address(address).map(Self::Tls),
            _ => None,
        }
    }

    /// The same target at another address, which the system has chosen.
    pub(crate) fn with_address(self, address: SocketAddr) -> Self {
        match self {
            Self::Unix(path) => Self::Unix(path),
            Self::Tcp(_) => Self::Tcp(address),
            Self::Tls(_) => Self::Tls(address),
        }
    }

    /// The address of a port. `None`: unix socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) | Self::Tls(address) => Some(*address),
        }
    }

    /// The target in ovsdb-server's notation.
    pub(crate) fn to_text(&self) -> String {
        let passive_text =
            |kind, address: &SocketAddr| format!("{kind}:{}:{}", address.port(), host(address));
        match self {
            Self::Unix(path) => format!("punix:{}", path.display()),
            Self::Tcp(address) => passive_text("ptcp", address),
            Self::Tls(address) => passive_text("pssl", address),
        }
    }

    /// The active target with which clients connect, such as `unix:PATH` or `tcp:HOST:PORT`.
    pub(crate) fn to_client_text(&self) -> String {
        let active_text =
            |kind, address: &SocketAddr| format!("{kind}:{}:{}", host(address), address.port());
        match self {
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Tcp(address) => active_text("tcp", address),
            Self::Tls(address) => active_text("ssl", address),
        }
    }
}

/// Address of a client that waits for the server: `unix:PATH`, `tcp:HOST[:PORT]` or
/// `ssl:HOST[:PORT]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ActiveTarget {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
}

impl ActiveTarget {
    pub(crate) fn parse(target: &str) -> Option<Self> {
        match target.split_once(':')? {
            ("unix", "") => None,
            ("unix", path) => Some(Self::Unix(path.into())),
            ("tcp", address) => {
                let (host, port) = parse_active_address(address)?;
                Some(Self::Tcp { host, port })
            }
            ("ssl", address) => {
                let (host, port) = parse_active_address(address)?;
                Some(Self::Tls { host, port })
            }
            _ => None,
        }
    }
}

/// Parses the argument `relay:DATABASE:REMOTES` of ovsdb-server. `None`: the argument is the path of
/// a file.
pub fn parse_relay(argument: &str) -> Option<(&str, &str)> {
    let (database, remotes) = argument.strip_prefix("relay:")?.split_once(':')?;
    (!remotes.is_empty()).then_some((database, remotes))
}

/// Refuses a target with TLS in a build without it.
pub(crate) fn check_tls_support(target: &str) -> Result<(), RemoteError> {
    if needs_tls(target) && !cfg!(feature = "tls") {
        return Err(RemoteError::TlsNotSupported(target.to_owned()));
    }
    Ok(())
}

/// `true` for a remote with TLS.
pub(crate) fn needs_tls(target: &str) -> bool {
    target.starts_with("ssl:") || target.starts_with("pssl:")
}

/// `true` for a unix socket.
pub(crate) fn is_unix(target: &str) -> bool {
    target.starts_with("punix:") || target.starts_with("unix:")
}

/// Parses `HOST[:PORT]`, an IPv6 address being in brackets.
fn parse_active_address(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            let is_empty = |port: &&str| port.is_empty();
            let port = port.strip_prefix(':').or(Some(port).filter(is_empty))?;
            (host, port)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() {
        OVSDB_PORT
    } else {
        port.parse().ok().filter(|port| *port != 0)?
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Parses `[PORT][:HOST]`. Without a host, it is the address of all IPv4 interfaces.
fn parse_passive_address(text: &str) -> Option<SocketAddr> {
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
    let port = if port.is_empty() {
        OVSDB_PORT
    } else {
        port.parse().ok()?
    };
    Some(SocketAddr::new(host, port))
}

/// The IP address of a port as targets write it: IPv6 in brackets.
fn host(address: &SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passive_address_has_a_port_and_an_optional_host() {
        assert_eq!(
            parse_passive_address("6641"),
            Some(([0, 0, 0, 0], 6641).into())
        );
        assert_eq!(
            parse_passive_address("0:127.0.0.1"),
            Some(([127, 0, 0, 1], 0).into())
        );
        assert_eq!(
            parse_passive_address("1:[::1]").map(|a| a.to_string()),
            Some("[::1]:1".to_owned())
        );
        assert_eq!(
            parse_passive_address(":127.0.0.1"),
            Some(([127, 0, 0, 1], 6640).into())
        );
        assert_eq!(parse_passive_address("x"), None);
        assert_eq!(parse_passive_address("1:localhost"), None);
    }

    #[test]
    fn an_active_target_has_a_path_or_a_host_and_an_optional_port() {
        let tcp = |host: &str, port| {
            let host = host.to_owned();
            Some(ActiveTarget::Tcp { host, port })
        };
        assert_eq!(
            ActiveTarget::parse("unix:/run/x"),
            Some(ActiveTarget::Unix("/run/x".into()))
        );
        for (target, expected) in [
            ("tcp:127.0.0.1:6641", tcp("127.0.0.1", 6641)),
            ("tcp:somewhere", tcp("somewhere", 6640)),
            ("tcp:[::1]:1", tcp("::1", 1)),
            ("tcp:[::1]", tcp("::1", 6640)),
            (
                "ssl:127.0.0.1:1",
                Some(ActiveTarget::Tls {
                    host: "127.0.0.1".to_owned(),
                    port: 1,
                }),
            ),
        ] {
            assert_eq!(ActiveTarget::parse(target), expected, "{target}");
        }
        for wrong in [
            "unix:",
            "tcp:",
            "tcp:x:y",
            "tcp:x:0",
            "tcp:[::1",
            "tcp:[::1]1",
            "ptcp:1",
        ] {
            assert_eq!(ActiveTarget::parse(wrong), None, "{wrong}");
        }
    }
}
