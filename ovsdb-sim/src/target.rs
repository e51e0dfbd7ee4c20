//! Targets of remotes, in ovsdb-server's notation (ovsdb(7)), and the errors of opening them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Default probe interval of TCP clients, as in ovsdb-server: after this time of silence a client
/// must answer an `echo`.
const TCP_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Default TCP port of active remotes, which IANA has assigned to OVSDB.
const OVSDB_PORT: u16 = 6640;

/// Error: a remote cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The target is of no kind that [`Remotes`](crate::Remotes) take.
    #[error(
        "{0}: expected punix:PATH, ptcp:PORT[:HOST], unix:PATH, tcp:HOST[:PORT] or db:DATABASE,TABLE,COLUMN"
    )]
    Kind(String),
    /// The target is not `punix:PATH` or `ptcp:PORT[:HOST]`.
    #[error("{0}: expected punix:PATH or ptcp:PORT[:HOST], HOST being an IP address")]
    Passive(String),
    /// The target is not `unix:PATH` or `tcp:HOST[:PORT]`.
    #[error("{0}: expected unix:PATH or tcp:HOST[:PORT]")]
    Active(String),
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

/// Address at which the server listens: `punix:PATH` or `ptcp:PORT[:HOST]`.
#[derive(Debug)]
pub(crate) enum PassiveTarget {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl PassiveTarget {
    pub(crate) fn parse(target: &str) -> Option<Self> {
        match target.strip_prefix("punix:") {
            Some("") => None,
            Some(path) => Some(Self::Unix(path.into())),
            None => target
                .strip_prefix("ptcp:")
                .and_then(parse_passive_address)
                .map(Self::Tcp),
        }
    }

    /// The target in ovsdb-server's notation.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Unix(path) => format!("punix:{}", path.display()),
            Self::Tcp(address) => {
                format!("ptcp:{}:{}", address.port(), bracketed_host(address.ip()))
            }
        }
    }

    /// The active target with which clients connect, `unix:PATH` or `tcp:HOST:PORT`.
    pub(crate) fn to_client_text(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Tcp(address) => {
                format!("tcp:{}:{}", bracketed_host(address.ip()), address.port())
            }
        }
    }
}

/// Address of a client that waits for the server: `unix:PATH` or `tcp:HOST[:PORT]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ActiveTarget {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

impl ActiveTarget {
    pub(crate) fn parse(target: &str) -> Option<Self> {
        if let Some(path) = target.strip_prefix("unix:") {
            return (!path.is_empty()).then(|| Self::Unix(path.into()));
        }
        let rest = target.strip_prefix("tcp:")?;
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                let is_empty = |port: &&str| port.is_empty();
                let port = port.strip_prefix(':').or(Some(port).filter(is_empty))?;
                (host, port)
            }
            None => rest.split_once(':').unwrap_or((rest, "")),
        };
        let port = if port.is_empty() {
            OVSDB_PORT
        } else {
            port.parse().ok().filter(|port| *port != 0)?
        };
        let host = host.to_owned();
        (!host.is_empty()).then_some(Self::Tcp { host, port })
    }
}

/// The probe interval of clients of a target that sets none. `None`: no probes.
pub(crate) fn default_probe_interval(target: &str) -> Option<Duration> {
    (target.starts_with("ptcp:") || target.starts_with("tcp:")).then_some(TCP_PROBE_INTERVAL)
}

/// Parses `PORT[:HOST]`. Without a host, it is the address of all IPv4 interfaces.
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
    Some(SocketAddr::new(host, port.parse().ok()?))
}

/// An IP address as targets write it: IPv6 in brackets.
fn bracketed_host(ip: IpAddr) -> String {
    match ip {
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
