//! Archives of the collectors of `OpenShift` and OVN-Kubernetes (must-gather), and of sosreport.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::moment::{DatabaseState, Moment};
use crate::search::Search;

/// What is read of an archive.
#[derive(Default)]
pub struct Wanted<'a> {
    /// Databases are passed over.
    pub no_databases: bool,
    /// Moment of the databases. `None`: their ends.
    pub at: Option<Moment>,
    /// Reader of the objects. `None`: objects are passed over.
    pub objects: Option<&'a mut dyn ObjectFiles>,
}

/// Reader of the files with objects of a cluster in an archive.
pub trait ObjectFiles {
    /// `true` if the files of a resource are read. The core group is empty.
    fn has_resource(&self, group: &str, resource: &str) -> bool;

    /// Reads the content of a file. `member`: its path, with the archives around it.
    fn read(&mut self, member: &str, content: Vec<u8>);
}

/// Content of an archive.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Northbound databases, in the order of their members.
    pub zones: Vec<GatheredZone>,
    /// Time of the collection: that of the file `timestamp` of must-gather, or else that of the newest
    /// file. `None`: no file has a time.
    pub time: Option<SystemTime>,
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
    /// The rows, and their time.
    pub state: DatabaseState,
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
    /// There is nothing that is wanted.
    #[error("{}: {}", path.display(), nothing(wanted, *members, problems))]
    Nothing {
        /// The archive or folder.
        path: PathBuf,
        /// What is wanted: a Northbound database, or objects.
        wanted: &'static str,
        /// Number of files and members.
        members: usize,
        /// What could not be read.
        problems: Vec<String>,
    },
}

fn nothing(wanted: &str, members: usize, problems: &[String]) -> String {
    let first = problems.first().map(|problem| format!("; {problem}")).unwrap_or_default();
    format!("no {wanted} in it (files: {members}){first}")
}

impl fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Reads a must-gather: a folder, or a tar archive as it is or packed.
///
/// Northbound databases are found by their content, whatever their names, and objects by their
/// paths, in nested archives, too. Links and devices are passed over. A member that cannot be read
/// is a problem in the result.
///
/// # Errors
/// The path cannot be read, or nothing below it is wanted.
pub fn gather(path: &Path, wanted: Wanted<'_>) -> Result<Gathered, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let what = match (wanted.no_databases, &wanted.objects) {
        (true, _) => "object of a cluster",
        (false, None) => "Northbound database",
        (false, Some(_)) => "Northbound database and no object of a cluster",
    };
    let mut search = Search::new(wanted);
    if fs::metadata(path).map_err(io)?.is_dir() {
        search.read_folder(path, path).map_err(io)?;
    } else {
        let input = Box::new(BufReader::new(File::open(path).map_err(io)?));
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        if let Err(error) = search.read_member(&name, input, 0) {
            if search.is_empty() {
                return Err(io(error));
            }
            search.report(error.to_string());
        }
    }
    if search.is_empty() {
        let (members, problems) = search.into_problems();
        return Err(SourceError::Nothing {
            path: path.to_owned(),
            wanted: what,
            members,
            problems,
        });
    }
    Ok(search.into_gathered())
}
