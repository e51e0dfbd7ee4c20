//! Archives of the collectors of `OpenShift` and OVN-Kubernetes (must-gather), and of sosreport.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use ovsdb_sim::{DatabaseLog, FileError, LogEnd};
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{self, NbGlobal};
use serde::Deserialize;

use crate::kind::{BEGIN_BYTES, SourceKind, kind_of_bytes};
use crate::unpack::{Budget, peek, unpack};

/// Maximum number of archives inside of each other.
const MAX_DEPTH: usize = 4;
/// Maximum number of files and members that are looked at.
const MAX_MEMBERS: usize = 1_000_000;
/// Maximum length of a file with pods, in bytes.
const MAX_PODS_BYTES: u64 = 256 << 20;

/// Databases of an archive.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Northbound databases, in the order of their members.
    pub zones: Vec<GatheredZone>,
    /// What could not be read, each with its member.
    pub problems: Vec<String>,
}

/// Northbound database of a zone in an archive.
#[derive(Debug)]
pub struct GatheredZone {
    /// The zone: `NB_Global.name`, or the node of the pod that the member is named for, or the name of
    /// the member.
    pub zone: String,
    /// Path of the member, with the archives around it.
    pub member: String,
    /// The rows.
    pub snapshot: Snapshot,
}

/// Error: a file or an archive cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The system refused an operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no Northbound database.
    #[error("{}: no Northbound database in it (files: {members}){}", path.display(), first(problems))]
    NoDatabase {
        /// The archive or folder.
        path: PathBuf,
        /// Number of files and members.
        members: usize,
        /// What could not be read.
        problems: Vec<String>,
    },
}

fn first(problems: &[String]) -> String {
    problems.first().map(|problem| format!("; {problem}")).unwrap_or_default()
}

/// Reads all Northbound databases of a must-gather: a folder, or a tar archive as it is or packed.
///
/// Databases are found by their content, whatever their names, in nested archives, too. Links and
/// devices are passed over. A member that cannot be read is a problem in the result.
///
/// # Errors
/// The path cannot be read, or nothing below it is a Northbound database.
pub fn gather(path: &Path) -> Result<Gathered, SourceError> {
    let mut search = Search::default();
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    if fs::metadata(path).map_err(io)?.is_dir() {
        search.read_folder(path, path).map_err(io)?;
    } else {
        let input = Box::new(BufReader::new(File::open(path).map_err(io)?));
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        if let Err(error) = search.read_member(&name, input, 0) {
            if search.found.is_empty() {
                return Err(io(error));
            }
            search.problems.push(error.to_string());
        }
    }
    let Search { found, nodes, members, problems, .. } = search;
    if found.is_empty() {
        return Err(SourceError::NoDatabase { path: path.to_owned(), members, problems });
    }
    let zones = found.into_iter().map(|(member, snapshot)| GatheredZone {
        zone: zone_of(&member, &snapshot, &nodes),
        member,
        snapshot,
    });
    Ok(Gathered { zones: zones.collect(), problems })
}

/// State of a search.
#[derive(Default)]
struct Search {
    found: Vec<(String, Snapshot)>,
    /// Nodes of pods by the names of the pods.
    nodes: BTreeMap<String, String>,
    members: usize,
    /// Bytes to which files and members may still unpack, together.
    budget: Budget,
    problems: Vec<String>,
}

impl Search {
    /// Reads the files below a folder, in the order of their names.
    fn read_folder(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        let mut paths: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        for path in paths {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            // The metadata of a link are its own.
            let read = path.symlink_metadata().and_then(|metadata| {
                if metadata.is_dir() {
                    self.read_folder(root, &path)
                } else if metadata.is_file() {
                    let input = Box::new(BufReader::new(File::open(&path)?));
                    self.read_member(&name, input, 0)
                } else {
                    Ok(())
                }
            });
            if let Err(error) = read {
                self.problems.push(format!("{name}: {error}"));
            }
        }
        Ok(())
    }

    /// Reads a file or a member, below `depth` archives.
    fn read_member(
        &mut self,
        name: &str,
        packed: Box<dyn BufRead + '_>,
        depth: usize,
    ) -> io::Result<()> {
        self.members += 1;
        if self.members > MAX_MEMBERS {
            return Err(io::Error::other(format!("more than {MAX_MEMBERS} files")));
        }
        let (begin, input) = peek::<BEGIN_BYTES>(unpack(packed, &self.budget)?)?;
        match kind_of_bytes(&begin) {
            SourceKind::Database => self.read_database(name, input),
            SourceKind::Archive => self.read_archive(name, input, depth),
            SourceKind::Other if is_pods(name) => self.read_pods(input),
            SourceKind::Other => Ok(()),
        }
    }

    fn read_archive(
        &mut self,
        name: &str,
        input: Box<dyn BufRead + '_>,
        depth: usize,
    ) -> io::Result<()> {
        if depth == MAX_DEPTH {
            return Err(io::Error::other(format!("more than {MAX_DEPTH} archives in archives")));
        }
        let mut archive = tar::Archive::new(input);
        for entry in archive.entries()? {
            let entry = entry?;
            // Sparse files are no regular ones: their holes could be of any length.
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let member = format!("{name}/{}", entry.path()?.display());
            let read = self.read_member(&member, Box::new(BufReader::new(entry)), depth + 1);
            if let Err(error) = read {
                self.problems.push(format!("{member}: {error}"));
            }
        }
        Ok(())
    }

    /// Reads a database file. Databases with another name, such as the southbound, are passed over.
    fn read_database(&mut self, name: &str, input: Box<dyn BufRead + '_>) -> io::Result<()> {
        let mut log = DatabaseLog::read(name, input).map_err(io_error)?;
        if log.schema().name != nb::schema().name {
            return Ok(());
        }
        log.replay().map_err(io_error)?;
        if let Some(problem) = log.end().and_then(LogEnd::problem) {
            self.problems.push(format!("{name}: {problem}"));
        }
        self.found.push((name.to_owned(), log.snapshot()));
        Ok(())
    }

    /// Reads the nodes of pods.
    fn read_pods(&mut self, input: Box<dyn BufRead + '_>) -> io::Result<()> {
        let mut text = String::new();
        input.take(MAX_PODS_BYTES).read_to_string(&mut text)?;
        let pods: Pods = serde_saphyr::from_str(&text).map_err(io::Error::other)?;
        let named =
            pods.items.into_iter().chain([Pod { metadata: pods.metadata, spec: pods.spec }]);
        let nodes = named.filter_map(|pod| Some((pod.metadata.name?, pod.spec.node_name?)));
        self.nodes.extend(nodes);
        Ok(())
    }
}

/// The error of a file inside of an archive, whose name is added elsewhere.
fn io_error(error: FileError) -> io::Error {
    match error {
        FileError::Io { source, .. } => source,
        FileError::NotADatabase { problem, .. } => io::Error::other(problem.to_string()),
        FileError::Cluster { problem, .. } => io::Error::other(problem.to_string()),
        other => io::Error::other(other.to_string()),
    }
}

/// `true` for the files of collectors with pods: `namespaces/NS/core/pods.yaml` and
/// `namespaces/NS/pods/POD/POD.yaml`.
fn is_pods(member: &str) -> bool {
    let mut names = member.rsplit('/');
    let (file, folder, above) = (names.next(), names.next(), names.next());
    match (file, folder, above) {
        (Some("pods.yaml"), Some("core"), _) => true,
        (Some(file), Some(pod), Some("pods")) => file.strip_suffix(".yaml") == Some(pod),
        _ => false,
    }
}

/// A pod, or a list of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pods {
    items: Vec<Pod>,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

/// The zone of a database.
fn zone_of(member: &str, snapshot: &Snapshot, nodes: &BTreeMap<String, String>) -> String {
    let file = member.rsplit('/').next().unwrap_or(member);
    // Names of pods have no underscore: POD_nbdb, POD_nbdb.gz.
    let pod = file.split('_').next().unwrap_or(file);
    own_zone(snapshot).or_else(|| nodes.get(pod).cloned()).unwrap_or_else(|| member.to_owned())
}

/// The zone that a database names itself: `NB_Global.name`, where OVN-Kubernetes writes its node.
pub fn own_zone(snapshot: &Snapshot) -> Option<String> {
    let globals = snapshot.typed::<NbGlobal>();
    let mut names = globals.iter().filter_map(|row| Some(row.ok()?.1.name));
    names.find(|name| !name.is_empty())
}
