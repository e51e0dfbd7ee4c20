//! Settings of a server's remotes and of its answers.

use std::path::PathBuf;

use patchbay_engine::db::ServerRelease;

use crate::target::PassiveTarget;
use crate::tls_options::TlsOptions;

/// Settings of all remotes of a server, and of what it answers there.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteSettings {
    /// Folder of unix sockets with a relative path. `None`: the working directory.
    pub(crate) socket_folder: Option<PathBuf>,
    pub(crate) tls: TlsOptions,
    /// Release of ovsdb-server whose words errors have.
    pub(crate) release: ServerRelease,
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
