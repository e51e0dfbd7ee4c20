//! The address at which the admin port listens.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::str::FromStr;

use thiserror::Error;

/// Name of the loopback address.
const LOCALHOST: &str = "localhost";

/// An address and a port. `:PORT` are all addresses of the host, as in Go's programs.
///
/// ```
/// use patchbay_kubernetes::AdminAddress;
///
/// for text in [":9491", "127.0.0.1:0", "[::1]:9491", "localhost:9491"] {
///     let address: AdminAddress = text.parse().unwrap();
///     assert_eq!(address.to_string(), text);
/// }
/// assert!("9491".parse::<AdminAddress>().is_err());
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AdminAddress {
    host: Host,
    port: u16,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Host {
    All,
    Localhost,
    Address(IpAddr),
}

/// A text is not an address with a port.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("expected ADDRESS:PORT, [IPV6-ADDRESS]:PORT or :PORT")]
pub struct AdminAddressError;

impl FromStr for AdminAddress {
    type Err = AdminAddressError;

    fn from_str(text: &str) -> Result<Self, AdminAddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: Host::Address(address.ip()), port: address.port() });
        }
        let (host, port) = text.rsplit_once(':').ok_or(AdminAddressError)?;
        let host = match host {
            "" => Host::All,
            LOCALHOST => Host::Localhost,
            _ => return Err(AdminAddressError),
        };
        Ok(Self { host, port: port.parse().map_err(|_| AdminAddressError)? })
    }
}

impl AdminAddress {
    /// Listens at the address. All addresses are those of IPv4 on a host without IPv6.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        let port = self.port;
        match self.host {
            Host::Address(address) => TcpListener::bind((address, port)),
            Host::Localhost => TcpListener::bind((LOCALHOST, port)),
            Host::All => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| {
                if error.kind() == io::ErrorKind::AddrInUse {
                    return Err(error);
                }
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
            }),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match self.host {
            Host::All => write!(f, ":{port}"),
            Host::Localhost => write!(f, "{LOCALHOST}:{port}"),
            Host::Address(address) => SocketAddr::new(address, port).fmt(f),
        }
    }
}
