//! Flags: the keys for databases behind TLS.

use std::path::PathBuf;

use clap::Args;
use patchbay_engine::client::Tls;

/// Keys, named as OVN's own programs name them. All three or none are given.
#[derive(Debug, Default, Args)]
pub(super) struct Keys {
    /// Private key for databases at ssl:HOST:PORT, a file in PEM format.
    #[arg(short = 'p', long, value_name = "FILE", requires_all = ["certificate", "ca_cert"])]
    private_key: Option<PathBuf>,
    /// The certificate that goes with the private key.
    #[arg(short = 'c', long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// Certificates of the authorities that vouch for databases.
    #[arg(short = 'C', long, value_name = "FILE", requires = "private_key")]
    ca_cert: Option<PathBuf>,
}

impl Keys {
    /// The keys, if there are any.
    pub(super) fn tls(&self) -> Option<Tls> {
        let (key, certificate) = (self.private_key.as_ref()?, self.certificate.as_ref()?);
        Some(Tls::new(key, certificate, self.ca_cert.as_ref()?))
    }
}
