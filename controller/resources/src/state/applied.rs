//! State folder: names of the objects that were applied in each zone.
//!
//! The names are recorded before the first transaction. An object whose rows were made is thus
//! recorded, however the run ends; an object that is recorded may have no rows.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::folder::{FILE_EXTENSION, StateError, StateFolder, failed, refuse_link, write_file};

/// Subfolder of the records. No kind of objects has this plural.
const FOLDER: &str = "applied";
/// Maximum length of a record, in bytes: a million names.
const MAX_RECORD_BYTES: u64 = 64 << 20;

impl StateFolder {
    /// Names of the objects that runs with this folder have applied in a zone. Empty if there is no
    /// record, as in the folder of a version that had none.
    ///
    /// # Errors
    /// [`StateError`] if the record cannot be read.
    pub fn applied(&self, zone: &str) -> Result<BTreeSet<String>, StateError> {
        let path = self.path().join(FOLDER).join(file_name(zone));
        match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            read => read.map_err(failed("read", &path)),
        }
    }

    /// Records the names of the objects that are applied in a zone, in place of the earlier record.
    ///
    /// # Errors
    /// [`StateError`] if the record cannot be written.
    pub fn record_applied<'a>(
        &self,
        zone: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), StateError> {
        let folder = self.path().join(FOLDER);
        refuse_link(&folder)?;
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        let names: BTreeSet<&str> = names.into_iter().collect();
        if write_file(&folder.join(file_name(zone)), &serde_json::json!(names))? {
            let synced = File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(failed("sync", &folder))?;
        }
        Ok(())
    }
}

fn file_name(zone: &str) -> String {
    format!("{zone}.{FILE_EXTENSION}")
}

fn read(path: &Path) -> io::Result<BTreeSet<String>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(MAX_RECORD_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_RECORD_BYTES {
        let message = format!("it has more than {} MiB", MAX_RECORD_BYTES >> 20);
        return Err(io::Error::other(message));
    }
    serde_saphyr::from_str(&text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recorded_by_zone() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path().join("state"));
        assert_eq!(state.applied("n1").unwrap(), BTreeSet::new());
        let names = ["Node n1", "network with id 3", "Pod blue/web: x"];
        state.record_applied("n1", names).unwrap();
        state.record_applied("n2", ["Node n1"]).unwrap();
        let expected: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        assert_eq!(state.applied("n1").unwrap(), expected);
        state.record_applied("n1", []).unwrap();
        assert_eq!(state.applied("n1").unwrap(), BTreeSet::new());
        assert_eq!(state.applied("n2").unwrap().len(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        state.record_applied("n1", ["Node n1"]).unwrap();
        let path = folder.path().join("applied/n1.yaml");
        fs::write(&path, "{a: b}").unwrap();
        let error = state.applied("n1").unwrap_err().to_string();
        assert!(error.contains("cannot read"), "{error}");
        assert!(error.contains("applied/n1.yaml"), "{error}");
    }
}
