//! Flags for the keys of `ssl:` remotes.

use std::path::PathBuf;

use clap::Args;
use patchbay_engine::client::Tls;

/// PEM files for `ssl:` remotes, with the flags of OVN's programs. All three are required together.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Keys {
    /// PEM file with the private key for ssl:HOST:PORT remotes.
    #[arg(short = 'p', long, value_name = "FILE", requires_all = ["certificate", "ca_cert"])]
    private_key: Option<PathBuf>,
    /// PEM file with the certificate of the private key.
    #[arg(short = 'c', long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// PEM file with the CA certificates that verify the database server.
    #[arg(short = 'C', long, value_name = "FILE", requires = "private_key")]
    ca_cert: Option<PathBuf>,
}

impl Keys {
    /// The paths of the PEM files. `None`: no flag was given.
    pub(super) fn tls(&self) -> Option<Tls> {
        let (key, certificate) = (self.private_key.as_ref()?, self.certificate.as_ref()?);
        Some(Tls::new(key, certificate, self.ca_cert.as_ref()?))
    }
}
