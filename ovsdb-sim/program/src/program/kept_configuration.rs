//! Databases and remotes that ovs-appctl has added or removed, kept over a restart by `--monitor`.
//!
//! The monitor holds a file without a name, which is the standard input of each server that it
//! starts. ovsdb-server keeps its configuration in such a file, too.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use ovsdb_sim::{Configuration, Remotes, Sim};

/// End of each item.
const SEPARATOR: u8 = 0;
/// Item at the end, without which the file was not written completely.
const END: &[u8] = b".";

/// Databases and remotes of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptConfiguration {
    /// Targets of remotes.
    pub(crate) remotes: Vec<String>,
    /// Names of databases.
    pub(crate) databases: BTreeSet<String>,
    /// Files of databases.
    pub(crate) files: Vec<PathBuf>,
}

impl KeptConfiguration {
    /// The present databases and remotes.
    pub(crate) fn of(sim: &Sim, remotes: &Remotes) -> Self {
        let names = sim.database_names();
        let database = |name: &String| sim.database(name);
        let files = names.iter().filter_map(database);
        Self {
            remotes: remotes.targets(),
            files: files.filter_map(|database| database.file()).collect(),
            databases: names.into_iter().collect(),
        }
    }

    /// Removes the databases that have not been kept, and opens the remotes. What fails is logged.
    pub(crate) async fn restore(&self, sim: &Sim, remotes: &Remotes) {
        let names = sim.database_names();
        for name in names.iter().filter(|name| !self.databases.contains(*name)) {
            if let Err(error) = sim.remove_database(name) {
                tracing::warn!(target: "ovsdb_server", "{error}");
            }
        }
        for target in &self.remotes {
            if let Err(error) = remotes.add_or_retry(target).await {
                tracing::warn!(target: "ovsdb_server", "{error}");
            }
        }
    }

    /// Reads a file. `None`: nothing has been kept yet, or the server was killed while it wrote.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(file: &File) -> io::Result<Option<Self>> {
        let mut text = vec![0; usize::try_from(file.metadata()?.size()).unwrap_or(0)];
        file.read_exact_at(&mut text, 0)?;
        Ok(Self::decode(&text))
    }

    /// Replaces the content of a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.write_all_at(&self.encode(), 0)
    }

    fn encode(&self) -> Vec<u8> {
        let remotes = self.remotes.iter().map(|target| ("r", target.as_bytes()));
        let databases = self.databases.iter().map(|name| ("d", name.as_bytes()));
        let files = self.files.iter().map(|path| ("f", path.as_os_str().as_bytes()));
        let items = remotes.chain(databases).chain(files);
        let mut text: Vec<u8> = items
            .flat_map(|(kind, value)| [kind.as_bytes(), value, &[SEPARATOR]].concat())
            .collect();
        text.extend_from_slice(END);
        text
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let mut kept = Self::default();
        let items = text.strip_suffix(END)?;
        if !items.is_empty() && !items.ends_with(&[SEPARATOR]) {
            return None;
        }
        for item in items.split(|byte| *byte == SEPARATOR) {
            let string = |value: &[u8]| String::from_utf8(value.to_vec()).ok();
            match item.split_first() {
                None => {}
                Some((b'r', target)) => kept.remotes.push(string(target)?),
                Some((b'd', name)) => {
                    kept.databases.insert(string(name)?);
                }
                Some((b'f', path)) => {
                    kept.files.push(OsStr::from_bytes(path).into());
                }
                Some(_) => return None,
            }
        }
        Some(kept)
    }
}

/// The configuration of a server that commands can change, kept in the file of its monitor.
pub(crate) fn changeable(sim: &Sim, remotes: &Remotes, kept: Option<File>) -> Configuration {
    let (sim, remotes) = (sim.clone(), remotes.clone());
    let keep = move || {
        if let Some(file) = &kept
            && let Err(error) = KeptConfiguration::of(&sim, &remotes).write(file)
        {
            tracing::warn!(target: "ovsdb_server", "failed to save configuration: {error}");
        }
    };
    Configuration::Changeable { keep: Box::new(keep) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_unless_it_is_cut_off() {
        let kept = KeptConfiguration {
            remotes: vec!["punix:a b".to_owned(), "db:D,T,c".to_owned()],
            databases: ["D".to_owned()].into(),
            files: vec![PathBuf::from("/x\ny.db"), OsStr::from_bytes(b"/\xff").into()],
        };
        let text = kept.encode();
        assert_eq!(KeptConfiguration::decode(&text), Some(kept));
        for len in 0..text.len() {
            assert_eq!(KeptConfiguration::decode(&text[..len]), None, "{len}");
        }
        let empty = KeptConfiguration::default();
        assert_eq!(KeptConfiguration::decode(&empty.encode()), Some(empty));
    }
}
