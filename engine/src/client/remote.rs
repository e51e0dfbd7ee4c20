//! Addresses of database servers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use uuid::Uuid;

use super::connector::Connector;

/// IANA port of OVSDB, for `tcp:` and `ssl:` remotes without a port.
const DEFAULT_PORT: u16 = 6640;

/// Address of a database server, in the syntax of OVSDB's tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Remote {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `tcp:HOST[:PORT]`, an IPv6 address in brackets.
    Tcp {
        /// Host name or IP address.
        host: String,
        /// Port; 6640 if the text has none.
        port: u16,
    },
    /// `ssl:HOST[:PORT]`, an IPv6 address in brackets. TLS with the keys of
    /// [`Config::tls`](super::Config::tls); needs the Cargo feature `tls`.
    Ssl {
        /// Host name or IP address.
        host: String,
        /// Port; 6640 if the text has none.
        port: u16,
    },
    /// Byte streams that the application opens. Has no textual form.
    Connector(Connector),
}

/// Comma-separated addresses of servers of one database, tried in order.
///
/// An element `cid:UUID` names the only cluster whose members are accepted, as in Open vSwitch's
/// own clients.
///
/// ```
/// use patchbay_engine::client::{Remote, Remotes};
///
/// let remotes: Remotes = "unix:/run/ovn/ovnnb_db.sock,tcp:[fd00::1]:6641".parse()?;
/// let [Remote::Unix(_), Remote::Tcp { host, port: 6641 }] = remotes.as_slice() else { panic!() };
/// assert_eq!(host, "fd00::1");
/// assert_eq!(remotes.to_string(), "unix:/run/ovn/ovnnb_db.sock,tcp:[fd00::1]:6641");
/// # Ok::<(), patchbay_engine::client::RemoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remotes {
    remotes: Vec<Remote>,
    cluster: Option<Uuid>,
}

/// The text is not a list of remotes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad remote {text:?}: {problem}")]
pub struct RemoteError {
    text: String,
    problem: &'static str,
}

impl Remotes {
    /// The addresses, in order. There is at least one.
    pub fn as_slice(&self) -> &[Remote] {
        &self.remotes
    }

    /// The only cluster whose members are accepted. `None`: any server.
    pub fn cluster(&self) -> Option<Uuid> {
        self.cluster
    }

    /// Appends an address.
    #[must_use]
    pub fn or(mut self, remote: impl Into<Remote>) -> Self {
        self.remotes.push(remote.into());
        self
    }
}

impl From<Remote> for Remotes {
    fn from(remote: Remote) -> Self {
        Self { remotes: vec![remote], cluster: None }
    }
}

impl From<Connector> for Remotes {
    fn from(connector: Connector) -> Self {
        Remote::from(connector).into()
    }
}

impl From<Connector> for Remote {
    fn from(connector: Connector) -> Self {
        Self::Connector(connector)
    }
}

impl FromStr for Remotes {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let error = |problem| RemoteError { text: text.to_owned(), problem };
        let (mut remotes, mut cluster) = (Vec::new(), None);
        for one in text.split(',').map(str::trim) {
            match one.strip_prefix("cid:") {
                None => remotes.push(one.parse()?),
                Some(_) if cluster.is_some() => {
                    return Err(error("only one cluster may be named"));
                }
                Some(id) => {
                    let id = Uuid::try_parse(id).map_err(|_| error("expected cid:UUID"))?;
                    cluster = Some(id);
                }
            }
        }
        if remotes.is_empty() {
            return Err(error("a cluster is named, but no remote"));
        }
        Ok(Self { remotes, cluster })
    }
}

impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, remote) in self.remotes.iter().enumerate() {
            let separator = if i > 0 { "," } else { "" };
            write!(f, "{separator}{remote}")?;
        }
        match self.cluster {
            Some(cluster) => write!(f, ",cid:{cluster}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let error = |problem| RemoteError { text: text.to_owned(), problem };
        match text.split_once(':') {
            Some(("unix", "")) => Err(error("the path of the socket is missing")),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                let (host, port) = host_and_port(address).map_err(error)?;
                Ok(Self::Tcp { host: host.to_owned(), port })
            }
            Some(("ssl", address)) => {
                let (host, port) = host_and_port(address).map_err(error)?;
                Ok(Self::Ssl { host: host.to_owned(), port })
            }
            _ => Err(error("expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")),
        }
    }
}

fn host_and_port(address: &str) -> Result<(&str, u16), &'static str> {
    let (host, rest) = match address.strip_prefix('[') {
        Some(bracketed) => {
            bracketed.split_once(']').ok_or("the address in brackets has no closing bracket")?
        }
        None => address.split_at(address.find(':').unwrap_or(address.len())),
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    if rest.matches(':').count() > 1 {
        return Err("an IPv6 address must be in brackets");
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, DEFAULT_PORT)),
        Some(port) => {
            Ok((host, port.parse().map_err(|_| "the port is not a number from 0 to 65535")?))
        }
        None => Err("expected HOST:PORT"),
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Self::Unix(path) => return write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => ("tcp", host, port),
            Self::Ssl { host, port } => ("ssl", host, port),
            Self::Connector(connector) => return f.write_str(connector.name()),
        };
        if host.contains(':') {
            write!(f, "{scheme}:[{host}]:{port}")
        } else {
            write!(f, "{scheme}:{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_have_the_syntax_of_ovsdb_tools() {
        for (text, shown) in [
            ("unix:/run/db.sock", "unix:/run/db.sock"),
            ("tcp:127.0.0.1:6641", "tcp:127.0.0.1:6641"),
            ("tcp:nb.example", "tcp:nb.example:6640"),
            ("tcp:[::1]:1", "tcp:[::1]:1"),
            ("tcp:[::1]", "tcp:[::1]:6640"),
            ("tcp:a:1, unix:b", "tcp:a:1,unix:b"),
            ("ssl:[::1]:6641,tcp:h:6641,unix:/x", "ssl:[::1]:6641,tcp:h:6641,unix:/x"),
            ("ssl:10.0.0.1", "ssl:10.0.0.1:6640"),
            (
                "cid:b4cba05d-0d54-4e26-bdf2-aa506f69cfa0,unix:a",
                "unix:a,cid:b4cba05d-0d54-4e26-bdf2-aa506f69cfa0",
            ),
        ] {
            assert_eq!(text.parse::<Remotes>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_malformed_remote_is_rejected_with_its_text() {
        for (text, problem) in [
            ("", "expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"),
            ("unix:", "the path of the socket is missing"),
            ("punix:x", "expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"),
            ("ssl:", "the host is missing"),
            ("cid:7,unix:a", "expected cid:UUID"),
            ("cid:b4cba05d-0d54-4e26-bdf2-aa506f69cfa0", "a cluster is named, but no remote"),
            ("tcp:", "the host is missing"),
            ("tcp:::1:6641", "the host is missing"),
            ("tcp:fd00::1:6641", "an IPv6 address must be in brackets"),
            ("tcp:[::1", "the address in brackets has no closing bracket"),
            ("tcp:[::1]x", "expected HOST:PORT"),
            ("tcp:a:66666", "the port is not a number from 0 to 65535"),
        ] {
            let error = text.parse::<Remotes>().unwrap_err();
            assert_eq!(error.to_string(), format!("bad remote {text:?}: {problem}"));
        }
        assert!("unix:a,,tcp:b:1".parse::<Remotes>().is_err());
    }
}
