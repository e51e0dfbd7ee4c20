//! File to which records are appended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::growth::{CompactionTimes, Extent};
use super::record::{self, FileKind};

/// Mode of a new file, less the umask: databases have secrets, such as keys of tunnels.
const FILE_MODE: u32 = 0o640;

/// File to which records are appended.
#[derive(Debug)]
pub(super) struct RecordLog {
    kind: FileKind,
    file: File,
    /// Records that have been read or written. The next one follows them.
    extent: Extent,
    /// `true` if the file may have other bytes behind its extent, which are cut off before the next
    /// record.
    has_tail: bool,
    compaction: CompactionTimes,
}

impl RecordLog {
    /// Makes a new file with records of these texts.
    pub(super) fn create(path: &Path, kind: FileKind, texts: Vec<Vec<u8>>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut log = Self {
            kind,
            file: options.write(true).create_new(true).mode(FILE_MODE).open(path)?,
            extent: Extent::default(),
            has_tail: false,
            compaction: CompactionTimes::after_compaction(),
        };
        let written = texts.into_iter().try_for_each(|text| log.write(vec![text], false));
        if let Err(error) = written {
            // A partial file would prevent the next attempt. `error` is the one to report.
            std::fs::remove_file(path).unwrap_or_default();
            return Err(error);
        }
        log.extent.base = log.extent.end;
        sync_folder(path);
        Ok(log)
    }

    /// Continues a file behind the records that have been read. Anything else behind them is
    /// replaced.
    pub(super) fn resume(file: File, kind: FileKind, extent: Extent) -> Self {
        Self { kind, file, extent, has_tail: true, compaction: CompactionTimes::after_compaction() }
    }

    /// `true` if the file has grown so much that it is to be [replaced](Self::replace) by one with
    /// the present content.
    pub(super) fn is_compaction_due(&self) -> bool {
        self.compaction.are_due(&self.extent)
    }

    /// Postpones the next attempt of a compaction that has failed.
    pub(super) fn postpone_compaction(&mut self) {
        self.compaction = CompactionTimes::after_failure();
    }

    /// Replaces a file by a new one with records of these texts, synced to the disk.
    pub(super) fn replace(path: &Path, kind: FileKind, texts: Vec<Vec<u8>>) -> io::Result<Self> {
        // The file itself is replaced, not a link to it. A file that was unlinked is made again.
        let path = match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            found => found?,
        };
        let mut new_path = path.clone().into_os_string();
        new_path.push(".tmp");
        let new_path = PathBuf::from(new_path);
        match std::fs::remove_file(&new_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let log = Self::create(&new_path, kind, texts)?;
        let moved = log.file.sync_all().and_then(|()| std::fs::rename(&new_path, &path));
        if let Err(error) = moved {
            // The first error is the one to report.
            std::fs::remove_file(&new_path).unwrap_or_default();
            return Err(error);
        }
        sync_folder(&path);
        Ok(log)
    }

    /// Appends records of these texts with one write. `durable`: they are synced to the disk.
    ///
    /// # Errors
    /// The records could not be written. They are cut off now or before the next ones.
    pub(super) fn write(&mut self, texts: Vec<Vec<u8>>, durable: bool) -> io::Result<()> {
        if self.has_tail {
            self.file.set_len(self.extent.end)?;
            self.has_tail = false;
        }
        let count = texts.len() as u64;
        let records: Vec<u8> = texts
            .into_iter()
            .map(|text| record::encode(self.kind, text))
            .reduce(|mut records, record| {
                records.extend(record);
                records
            })
            .unwrap_or_default();
        let written = self
            .file
            .write_all_at(&records, self.extent.end)
            .and_then(|()| if durable { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.extent.end += records.len() as u64;
                self.extent.records += count;
            }
            // Cut the partial records off now or, if that fails, before the next ones.
            Err(_) => self.has_tail = self.file.set_len(self.extent.end).is_err(),
        }
        written
    }
}

/// Syncs the folder of a file that was made or renamed, so that it is there after a power failure.
///
/// The file is complete whether this succeeds or not. So a failure is logged only, as in
/// ovsdb-server.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    if let Err(error) = synced {
        tracing::warn!(folder = %folder.display(), %error, "cannot sync the folder of a database");
    }
}
