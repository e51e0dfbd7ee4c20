//! Settings of a server's remotes.

use std::path::PathBuf;

use crate::target::PassiveTarget;
use crate::tls_options::TlsOptions;

/// Settings of all remotes of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteSettings {
    /// Folder of unix sockets with a relative path. `None`: the working directory.
    pub(crate) socket_folder: Option<PathBuf>,
    pub(crate) tls: TlsOptions,
}

impl RemoteSettings {
    /// The path of a unix socket.
    pub(crate) fn socket_path(&self, path: PathBuf) -> PathBuf {
        match &self.socket_folder {
            Some(folder) => folder.join(path),
            None => path,
        }
    }

    /// The target with the path of its unix socket.
    pub(crate) fn locate_socket(&self, target: PassiveTarget) -> PassiveTarget {
        match target {
            PassiveTarget::Unix(path) => PassiveTarget::Unix(self.socket_path(path)),
            target => target,
        }
    }
}
