//! State folder: reading and writing of state files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use patchbay_model::POD_NETWORKS;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use super::lock::StateLock;
use crate::cnc::ClusterNetworkConnect;
use crate::ipam_claim::IPAMClaim;
use crate::manifests::{Inventory, InventoryKind, LoadError, ObjectKey, Problem, read_state_files};
use crate::nad::NetworkAttachmentDefinition;
use crate::object::kube_ovn::{
    IP, IPPool, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, RouterLBRule, Subnet,
    SwitchLBRule, Vip, Vlan, Vpc,
};
use crate::object::{Node, Object as _, Pod, PodSpec};
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// First line of every state file. Files without this line are never removed.
const FILE_HEADING: &str =
    "# Written by patchbay. It is read back by the next run, and replaced.\n";
/// File name extension of state files.
pub(super) const FILE_EXTENSION: &str = "yaml";
/// Prefix of the node annotations that are stored.
const OVN_ANNOTATION_PREFIX: &str = "k8s.ovn.org/";

/// I/O error of a state folder or state file.
#[derive(Debug, Error)]
#[error("cannot {operation} {}: {source}", .path.display())]
pub struct StateError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Folder with the state of the previous run.
#[derive(Clone, Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// A state folder at this path. The first write creates it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Locks the folder exclusively, and creates it if it does not exist. `None`: another run holds
    /// a lock.
    ///
    /// # Errors
    /// [`StateError`] if the folder or its lock file cannot be created or locked.
    pub fn try_lock(&self) -> Result<Option<StateLock>, StateError> {
        StateLock::exclusive(&self.0)
    }

    /// Locks the folder for reading, together with other readers. `None`: another run holds the
    /// exclusive lock. Nothing is created: a folder that does not exist needs no lock.
    ///
    /// # Errors
    /// [`StateError`] if the lock file cannot be opened or locked.
    pub fn try_lock_to_read(&self) -> Result<Option<StateLock>, StateError> {
        StateLock::shared(&self.0)
    }

    /// Reads all state files. The inventory is empty if the folder does not exist.
    ///
    /// # Errors
    /// [`LoadError`] with the errors of all files.
    pub fn load(&self) -> Result<Inventory, LoadError> {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for kind in STATE_KINDS {
            let folder = self.0.join((kind.folder)());
            match list_files(&folder).map_err(failed("list", &folder)) {
                Ok(found) => files.extend(found),
                Err(error) => {
                    problems.push(Problem { message: error.to_string(), ..Problem::default() });
                }
            }
        }
        if !problems.is_empty() {
            return Err(LoadError { problems });
        }
        read_state_files(&files)
    }

    /// Writes the state files of these objects, and removes the files of other objects. Files whose
    /// text would not change are not written.
    ///
    /// # Errors
    /// [`StateError`]. Files that were written before the error stay.
    pub fn save(&self, inventory: &Inventory) -> Result<(), StateError> {
        for kind in STATE_KINDS {
            let folder = self.0.join((kind.folder)());
            let objects = (kind.objects)(inventory);
            refuse_link(&folder)?;
            if !objects.is_empty() {
                fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
            }
            let mut written = BTreeSet::new();
            let mut is_changed = false;
            for (name, object) in objects {
                let path = folder.join(format!("{name}.{FILE_EXTENSION}"));
                is_changed |= write_file(&path, &object)?;
                written.insert(path);
            }
            if is_changed {
                let synced = File::open(&folder).and_then(|folder| folder.sync_all());
                synced.map_err(failed("sync", &folder))?;
            }
            let files = list_files(&folder).map_err(failed("list", &folder))?;
            for file in files.iter().filter(|file| !written.contains(*file)) {
                remove_file(file)?;
            }
        }
        Ok(())
    }
}

/// Storage of one kind of objects.
struct StateKind {
    /// Returns the name of the subfolder.
    folder: fn() -> String,
    /// Returns file name and content for each object. File names have no extension.
    objects: fn(&Inventory) -> Vec<(String, Value)>,
}

impl StateKind {
    const fn of<T: InventoryKind + Serialize>() -> Self {
        Self { folder: || T::PLURAL.to_owned(), objects: object_files::<T> }
    }
}

/// Kinds with state files.
const STATE_KINDS: [StateKind; 20] = [
    StateKind { objects: node_files, ..StateKind::of::<Node>() },
    StateKind { objects: pod_files, ..StateKind::of::<Pod>() },
    StateKind::of::<IPAMClaim>(),
    StateKind::of::<NetworkAttachmentDefinition>(),
    StateKind::of::<UserDefinedNetwork>(),
    StateKind::of::<ClusterUserDefinedNetwork>(),
    StateKind::of::<ClusterNetworkConnect>(),
    StateKind::of::<ProviderNetwork>(),
    StateKind::of::<Vlan>(),
    StateKind::of::<Subnet>(),
    StateKind::of::<Vpc>(),
    StateKind::of::<OvnEip>(),
    StateKind::of::<OvnSnatRule>(),
    StateKind::of::<OvnDnatRule>(),
    StateKind::of::<OvnFip>(),
    StateKind::of::<IP>(),
    StateKind::of::<SwitchLBRule>(),
    StateKind::of::<RouterLBRule>(),
    StateKind::of::<Vip>(),
    StateKind::of::<IPPool>(),
];

/// File name and content for each object of a kind.
fn object_files<T: InventoryKind + Serialize>(inventory: &Inventory) -> Vec<(String, Value)> {
    T::objects(inventory)
        .iter()
        .map(|(key, sourced)| (file_stem(key), serde_json::json!(sourced.object)))
        .collect()
}

/// File name and content for each node. Of a node only the annotations of OVN-Kubernetes are
/// stored, because Patchbay allocates nothing else on nodes, and the rest is long.
fn node_files(inventory: &Inventory) -> Vec<(String, Value)> {
    inventory
        .nodes
        .iter()
        .map(|(key, sourced)| {
            let mut node = Node::default();
            node.metadata.name = Some(key.name.clone());
            node.metadata.annotations.clone_from(&sourced.object.metadata.annotations);
            if let Some(annotations) = &mut node.metadata.annotations {
                annotations.retain(|key, _| key.starts_with(OVN_ANNOTATION_PREFIX));
            }
            (file_stem(key), serde_json::json!(node))
        })
        .collect()
}

/// File name and content for each pod with addresses. Of a pod only these are stored, with the node
/// on which they are valid.
fn pod_files(inventory: &Inventory) -> Vec<(String, Value)> {
    let pods = inventory.pods.iter().filter_map(|(key, sourced)| {
        let addresses = sourced.object.annotations().get(POD_NETWORKS)?;
        let mut pod = Pod::default();
        pod.metadata.name = Some(key.name.clone());
        pod.metadata.namespace.clone_from(&key.namespace);
        pod.annotations_mut().insert(POD_NETWORKS.to_owned(), addresses.clone());
        let spec = sourced.object.spec.as_ref();
        let kept = pod.spec.insert(PodSpec::default());
        kept.node_name = spec.and_then(|spec| spec.node_name.clone());
        Some((file_stem(key), serde_json::json!(pod)))
    });
    pods.collect()
}

/// File name of an object, without extension.
fn file_stem(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("{namespace}_{}", key.name),
        None => key.name.clone(),
    }
}

/// State files of a folder in the order of their names. Empty if the folder does not exist.
fn list_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == FILE_EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Writes an object into a hidden file in the same folder, and renames it over the old file. The
/// content is on the disk before the name is. Returns `true` unless the old file has this text.
///
/// A symbolic link is replaced, not followed.
pub(super) fn write_file(path: &Path, object: &Value) -> Result<bool, StateError> {
    let yaml =
        serde_saphyr::to_string(object).map_err(io::Error::other).map_err(failed("write", path))?;
    let text = format!("{FILE_HEADING}{yaml}");
    if is_regular(path) && fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(false);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    let mut file = create_file(&temporary).map_err(failed("create", &temporary))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed("write", &temporary))?;
    fs::rename(&temporary, path).map_err(failed("replace", path))?;
    Ok(true)
}

/// Creates a file. What an earlier run has left there is removed, be it a file or a link.
fn create_file(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

/// `true` if the path is a file, not a link to one.
fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Refuses a path that is a symbolic link, because it may lead out of the state folder.
pub(super) fn refuse_link(path: &Path) -> Result<(), StateError> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        let error = io::Error::other("it is a symbolic link");
        return Err(failed("use", path)(error));
    }
    Ok(())
}

/// Removes a state file. A file without the heading stays, and so do links, pipes and devices.
fn remove_file(path: &Path) -> Result<(), StateError> {
    if !is_regular(path) {
        return Ok(());
    }
    let text = fs::read(path).map_err(failed("read", path))?;
    if text.starts_with(FILE_HEADING.as_bytes()) {
        fs::remove_file(path).map_err(failed("remove", path))?;
    }
    Ok(())
}

/// Returns a conversion of I/O errors, for `map_err`.
pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError { operation, path, source }
}
