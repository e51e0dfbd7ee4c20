//! Sockets at which another server listens.

use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::bail;

/// Refuses the socket of a `punix:` target at which a server listens. Other targets are free, or
/// the system refuses them.
pub(crate) fn refuse_target(target: &str) -> anyhow::Result<()> {
    match target.strip_prefix("punix:") {
        Some(path) => refuse(Path::new(path)),
        None => Ok(()),
    }
}

/// Refuses a socket at which a server listens.
pub(crate) fn refuse(path: &Path) -> anyhow::Result<()> {
    if UnixStream::connect(path).is_ok() {
        bail!(
            "a server listens at {}: end it, or take its place with --replace-sockets",
            path.display()
        );
    }
    Ok(())
}
