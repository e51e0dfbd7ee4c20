//! Options of TLS, as of ovsdb-server.

use crate::remotes::column::{COLUMN_PREFIX, DatabaseColumn};
use crate::served_database::set::DatabaseSet;

/// Keys and parameters of `ssl:` and `pssl:` remotes, as in ovsdb-server(1).
///
/// A value is a path or a parameter, or `db:DATABASE,TABLE,COLUMN`: the first string in a column
/// that is not empty, which is read for each connection. Files are read for each connection, too,
/// so that keys can be renewed while the server runs. Without a private key, a certificate and a CA
/// certificate, connections are refused and logged.
///
/// ```
/// use ovsdb_sim::{Sim, TlsOptions};
///
/// let mut tls = TlsOptions::default();
/// tls.private_key = Some("key.pem".to_owned());
/// tls.certificate = Some("cert.pem".to_owned());
/// tls.ca_certificate = Some("ca.pem".to_owned());
/// let sim = Sim::builder().tls(tls).build()?;
/// # Ok::<(), ovsdb_sim::SimBuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Path of the server's private key.
    pub private_key: Option<String>,
    /// Path of the server's certificate, which intermediate certificates may follow.
    pub certificate: Option<String>,
    /// Path of the certificates of authorities that sign those of peers. `none`: peers are not
    /// verified.
    pub ca_certificate: Option<String>,
    /// `true` to write the CA certificate of the first peer to which the server connects to
    /// `ca_certificate`, if there is no such file.
    pub bootstrap_ca_certificate: bool,
    /// Path of CA certificates that are sent to peers.
    pub peer_ca_certificate: Option<String>,
    /// Protocols, such as `TLSv1.2,TLSv1.3` or `TLSv1.2+`. `None`: TLS 1.2 and 1.3.
    pub protocols: Option<String>,
    /// Cipher suites of TLS 1.2, in OpenSSL's notation. `None`: all.
    pub ciphers: Option<String>,
    /// Cipher suites of TLS 1.3, in OpenSSL's notation. `None`: all.
    pub ciphersuites: Option<String>,
    /// Name that is sent to peers to which the server connects (SNI). `None`: the host of the remote,
    /// unless it is an address.
    pub server_name: Option<String>,
}

impl TlsOptions {
    /// Checks the columns that the options name.
    ///
    /// # Errors
    /// The value of the first option without a fitting column, and the problem in ovsdb-server's
    /// words.
    pub(crate) fn check_columns(&self, databases: &DatabaseSet) -> Result<(), (String, String)> {
        for value in self.columns() {
            let column = DatabaseColumn::parse(value).ok_or("invalid syntax".to_owned());
            column
                .and_then(|column| column.check(databases, true))
                .map_err(|problem| (value.clone(), problem))?;
        }
        Ok(())
    }

    /// `true` if an option names a column.
    #[cfg(feature = "tls")]
    pub(crate) fn has_columns(&self) -> bool {
        self.columns().next().is_some()
    }

    /// The values that name columns.
    fn columns(&self) -> impl Iterator<Item = &String> {
        let values = [
            &self.private_key,
            &self.certificate,
            &self.ca_certificate,
            &self.peer_ca_certificate,
            &self.protocols,
            &self.ciphers,
            &self.ciphersuites,
        ]
        .into_iter()
        .flatten();
        values.filter(|value| value.starts_with(COLUMN_PREFIX))
    }
}
