//! Paths of unix sockets that are longer than a socket address.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc::{O_DIRECTORY, O_PATH};

/// Length of the longest path in a socket address of Linux, in bytes (unix(7)).
const MAX_ADDRESS_BYTES: usize = 107;

/// Path of a unix socket that fits into a socket address, while this exists. A long path is that of
/// the socket in its open folder, below `/proc/self/fd`, as in Open vSwitch.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    _folder: Option<File>,
}

impl SocketPath {
    /// # Errors
    /// The path is long, and its folder cannot be opened.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        use std::os::fd::AsRawFd as _;
        let is_short = path.as_os_str().as_bytes().len() <= MAX_ADDRESS_BYTES;
        let (false, Some(folder), Some(name)) = (is_short, path.parent(), path.file_name()) else {
            return Ok(Self { path: path.to_owned(), _folder: None });
        };
        let folder =
            OpenOptions::new().read(true).custom_flags(O_PATH | O_DIRECTORY).open(folder)?;
        let descriptors = Path::new("/proc/self/fd");
        Ok(Self {
            path: descriptors.join(folder.as_raw_fd().to_string()).join(name),
            _folder: Some(folder),
        })
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.path
    }
}
