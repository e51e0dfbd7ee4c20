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
    #[error("{0}: expected punix:PATH, ptcp:PORT[:HOST] or pssl:PORT[:HOST]")]
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
    Tcp(PassiveAddress),
    Tls(PassiveAddress),
}

/// Port at which the server listens, and its address or the name that is resolved to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassiveAddress {
    /// IP address without brackets, or name.
    host: String,
    port: u16,
}

impl PassiveAddress {
    /// The host and the port, as the system resolves them.
    pub(crate) fn as_host_and_port(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The address. `None`: the host is a name.
    fn to_address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse().ok()?, self.port))
    }

    /// The host as targets write it: IPv6 addresses in brackets.
    fn host_text(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl From<SocketAddr> for PassiveAddress {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
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
            Self::Tcp(_) => Self::Tcp(address.into()),
            Self::Tls(_) => Self::Tls(address.into()),
        }
    }

    /// The address of a port. `None`: unix socket, or a name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) | Self::Tls(address) => address.to_address(),
        }
    }

    /// The port. `None`: unix socket.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) | Self::Tls(address) => Some(address.port),
        }
    }

    /// The target in ovsdb-server's notation.
    pub(crate) fn to_text(&self) -> String {
        let passive_text = |kind, address: &PassiveAddress| {
            format!("{kind}:{}:{}", address.port, address.host_text())
        };
        match self {
            Self::Unix(path) => format!("punix:{}", path.display()),
            Self::Tcp(address) => passive_text("ptcp", address),
            Self::Tls(address) => passive_text("pssl", address),
        }
    }

    /// The active target with which clients connect, such as `unix:PATH` or `tcp:HOST:PORT`.
    pub(crate) fn to_client_text(&self) -> String {
        let active_text = |kind, address: &PassiveAddress| {
            format!("{kind}:{}:{}", address.host_text(), address.port)
        };
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
    let port =
        if port.is_empty() { OVSDB_PORT } else { port.parse().ok().filter(|port| *port != 0)? };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Parses `[PORT][:HOST]`. Without a host, it is the address of all IPv4 interfaces.
fn parse_passive_address(text: &str) -> Option<PassiveAddress> {
    let (port, host) = match text.split_once(':') {
        Some((port, host)) => (port, parse_passive_host(host)?),
        None => (text, Ipv4Addr::UNSPECIFIED.to_string()),
    };
    let port = if port.is_empty() { OVSDB_PORT } else { port.parse().ok()? };
    Some(PassiveAddress { host, port })
}

/// Parses an IP address, which may be in brackets, or a name.
fn parse_passive_host(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
    (!text.is_empty() && text.chars().all(is_of_name)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passive_address_has_a_port_and_an_optional_host() {
        let parsed = |text| parse_passive_address(text).map(|one| (one.host, one.port));
        let address = |host: &str, port| Some((host.to_owned(), port));
        for (text, expected) in [
            ("6641", address("0.0.0.0", 6641)),
            ("0:127.0.0.1", address("127.0.0.1", 0)),
            ("1:[::1]", address("::1", 1)),
            (":127.0.0.1", address("127.0.0.1", 6640)),
            ("1:localhost", address("localhost", 1)),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
        for wrong in ["x", "1:", "1:[localhost]", "1:[::1", "70000", "1:a b", "1:a:b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_active_target_has_a_path_or_a_host_and_an_optional_port() {
        let tcp = |host: &str, port| {
            let host = host.to_owned();
            Some(ActiveTarget::Tcp { host, port })
        };
        assert_eq!(ActiveTarget::parse("unix:/run/x"), Some(ActiveTarget::Unix("/run/x".into())));
        for (target, expected) in [
            ("tcp:127.0.0.1:6641", tcp("127.0.0.1", 6641)),
            ("tcp:somewhere", tcp("somewhere", 6640)),
            ("tcp:[::1]:1", tcp("::1", 1)),
            ("tcp:[::1]", tcp("::1", 6640)),
            ("ssl:127.0.0.1:1", Some(ActiveTarget::Tls { host: "127.0.0.1".to_owned(), port: 1 })),
        ] {
            assert_eq!(ActiveTarget::parse(target), expected, "{target}");
        }
        for wrong in ["unix:", "tcp:", "tcp:x:y", "tcp:x:0", "tcp:[::1", "tcp:[::1]1", "ptcp:1"] {
            assert_eq!(ActiveTarget::parse(wrong), None, "{wrong}");
        }
    }
}
