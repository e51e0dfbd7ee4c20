//! The folder and its files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::object::Node;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use super::lock::StateLock;
use crate::cnc::ClusterNetworkConnect;
use crate::manifests::{Inventory, Kind, LoadError, ObjectKey, Problem, read_state_files};
use crate::nad::NetworkAttachmentDefinition;
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// First line of every file. Only files that start with it are ever removed.
const HEADING: &str = "# Written by patchbay. It is read back by the next run, and replaced.\n";
const EXTENSION: &str = "yaml";
/// Start of the annotations of nodes that are kept.
const OVN_ANNOTATIONS: &str = "k8s.ovn.org/";

/// A folder or file that cannot be used.
#[derive(Debug, Error)]
#[error("cannot {what} {}: {source}", .path.display())]
pub struct StateError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// A folder with the state of the last run.
#[derive(Clone, Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// The state in this folder, which is made when it is first written to.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps other runs out of the folder; `None` if another one uses it. The folder is made.
    ///
    /// # Errors
    /// [`StateError`], if there can be no such folder or no lock in it.
    pub fn try_lock(&self) -> Result<Option<StateLock>, StateError> {
        StateLock::exclusive(&self.0)
    }

    /// Keeps those out of the folder that would write to it; `None` if another run does. Nothing is made: if there is no
    /// such folder, there is nothing to lock.
    ///
    /// # Errors
    /// [`StateError`], if there is a lock that cannot be used.
    pub fn try_lock_to_read(&self) -> Result<Option<StateLock>, StateError> {
        StateLock::shared(&self.0)
    }

    /// Reads what the last run has left; nothing, if there was none.
    ///
    /// # Errors
    /// [`LoadError`], with everything that is wrong with any of the files.
    pub fn load(&self) -> Result<Inventory, LoadError> {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for kind in KINDS {
            let folder = self.0.join((kind.folder)());
            match list(&folder).map_err(failed("list", &folder)) {
                Ok(found) => files.extend(found),
                Err(error) => problems.push(Problem {
                    message: error.to_string(),
                    ..Problem::default()
                }),
            }
        }
        if !problems.is_empty() {
            return Err(LoadError { problems });
        }
        read_state_files(&files)
    }

    /// Writes the state of these objects, and removes that of all others. Files that would not change are not touched.
    ///
    /// # Errors
    /// [`StateError`]. Files that were written before it stay.
    pub fn save(&self, inventory: &Inventory) -> Result<(), StateError> {
        for kind in KINDS {
            let folder = self.0.join((kind.folder)());
            let objects = (kind.objects)(inventory);
            if !objects.is_empty() {
                fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
            }
            let mut written = BTreeSet::new();
            for (name, object) in objects {
                let path = folder.join(format!("{name}.{EXTENSION}"));
                write(&path, &object)?;
                written.insert(path);
            }
            let files = list(&folder).map_err(failed("list", &folder))?;
            for file in files.iter().filter(|file| !written.contains(*file)) {
                remove(file)?;
            }
        }
        Ok(())
    }
}

/// What is done with a kind of objects.
struct StateKind {
    folder: fn() -> String,
    objects: fn(&Inventory) -> Vec<(String, Value)>,
}

impl StateKind {
    const fn of<T: Kind + Serialize>() -> Self {
        Self {
            folder: || T::PLURAL.to_owned(),
            objects: objects::<T>,
        }
    }
}

const KINDS: [StateKind; 5] = [
    StateKind {
        objects: nodes,
        ..StateKind::of::<Node>()
    },
    StateKind::of::<NetworkAttachmentDefinition>(),
    StateKind::of::<UserDefinedNetwork>(),
    StateKind::of::<ClusterUserDefinedNetwork>(),
    StateKind::of::<ClusterNetworkConnect>(),
];

/// The files' names and contents for a kind.
fn objects<T: Kind + Serialize>(inventory: &Inventory) -> Vec<(String, Value)> {
    T::of(inventory)
        .iter()
        .map(|(key, sourced)| (file_stem(key), serde_json::json!(sourced.object)))
        .collect()
}

/// Of nodes only what OVN has noted on them: the rest is long, and nothing in it is ours.
fn nodes(inventory: &Inventory) -> Vec<(String, Value)> {
    let nodes = inventory.nodes.iter().map(|(key, sourced)| {
        let mut node = Node::default();
        node.metadata.name = Some(key.name.clone());
        node.metadata
            .annotations
            .clone_from(&sourced.object.metadata.annotations);
        if let Some(annotations) = &mut node.metadata.annotations {
            annotations.retain(|key, _| key.starts_with(OVN_ANNOTATIONS));
        }
        (file_stem(key), serde_json::json!(node))
    });
    nodes.collect()
}

fn file_stem(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("{namespace}_{}", key.name),
        None => key.name.clone(),
    }
}

/// The state files of a folder in the order of their names; none if there is no such folder.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden
            && path
                .extension()
                .is_some_and(|extension| extension == EXTENSION)
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Writes the object into a hidden file beside, which then takes the place of the old one.
fn write(path: &Path, object: &Value) -> Result<(), StateError> {
    let yaml = serde_saphyr::to_string(object)
        .map_err(io::Error::other)
        .map_err(failed("write", path))?;
    let text = format!("{HEADING}{yaml}");
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    fs::write(&temporary, text).map_err(failed("write", &temporary))?;
    fs::rename(&temporary, path).map_err(failed("replace", path))
}

fn remove(path: &Path) -> Result<(), StateError> {
    let text = fs::read(path).map_err(failed("read", path))?;
    if text.starts_with(HEADING.as_bytes()) {
        fs::remove_file(path).map_err(failed("remove", path))?;
    }
    Ok(())
}

pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError { what, path, source }
}
