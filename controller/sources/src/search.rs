//! Search in the members of an archive.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use ovsdb_sim::{DatabaseLog, FileError, LogEnd};
use patchbay_schemas::nb;

use crate::archive::{Gathered, GatheredZone, Wanted};
use crate::collection_time::{CollectionTime, MAX_TIMESTAMP_BYTES};
use crate::dump::{Dump, DumpError, is_dump, read_dump};
use crate::kind::{BEGIN_BYTES, SourceKind, kind_of_bytes};
use crate::moment::{DatabaseState, StateError, state_at};
use crate::object_path::{Resource, resource_of};
use crate::unpack::{Budget, peek, unpack};
use crate::zone_names::PodNodes;

/// Maximum number of archives inside of each other.
const MAX_DEPTH: usize = 4;
/// Maximum number of files and members that are looked at.
const MAX_MEMBERS: usize = 1_000_000;
/// Maximum length of a file with objects, in bytes. Reading takes about forty times as much memory.
const MAX_OBJECT_FILE_BYTES: u64 = 64 << 20;
/// Maximum length of all files with objects together, in bytes.
const MAX_OBJECT_BYTES: u64 = 1 << 30;
/// Maximum number of problems that are kept.
const MAX_PROBLEMS: usize = 1_000;

/// State of a search.
pub(crate) struct Search<'a> {
    wanted: Wanted<'a>,
    found: Vec<(String, DatabaseState)>,
    time: CollectionTime,
    nodes: PodNodes,
    /// Number of files and members.
    members: usize,
    /// Number of files with objects.
    object_files: usize,
    /// Bytes of files with objects that may still be read.
    object_bytes: u64,
    /// Bytes to which files and members may still unpack, together.
    budget: Budget,
    problems: Vec<String>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(wanted: Wanted<'a>) -> Self {
        Self {
            wanted,
            found: Vec::new(),
            time: CollectionTime::default(),
            nodes: PodNodes::default(),
            members: 0,
            object_files: 0,
            object_bytes: MAX_OBJECT_BYTES,
            budget: Budget::default(),
            problems: Vec::new(),
        }
    }

    /// `true` if nothing was found that is wanted.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.object_files == 0
    }

    /// Number of files and members, and what could not be read.
    pub(crate) fn into_problems(self) -> (usize, Vec<String>) {
        (self.members, self.problems)
    }

    pub(crate) fn into_gathered(self) -> Gathered {
        let zones = self.found.into_iter().map(|(member, state)| GatheredZone {
            zone: self.nodes.zone_of(&member, &state.snapshot),
            member,
            state,
        });
        Gathered { zones: zones.collect(), time: self.time.get(), problems: self.problems }
    }

    /// Notes what cannot be read.
    pub(crate) fn report(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Reads the files below a folder, in the order of their names.
    pub(crate) fn read_folder(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
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
                    self.time.add_file(metadata.modified().ok());
                    let input = Box::new(BufReader::new(File::open(&path)?));
                    self.read_member(&name, input, 0)
                } else {
                    Ok(())
                }
            });
            if let Err(error) = read {
                self.report(format!("{name}: {error}"));
            }
        }
        Ok(())
    }

    /// Reads a file or a member, below `depth` archives.
    pub(crate) fn read_member(
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
            SourceKind::Database if self.wanted.no_databases => Ok(()),
            SourceKind::Database if is_dump(&begin) => match read_dump(input) {
                Ok(Dump { file, lost }) => {
                    for lost in lost {
                        self.report(format!("{name}: {lost}"));
                    }
                    self.read_database(name, Box::new(&*file))
                }
                // As databases of other names.
                Err(DumpError::OtherDatabase { .. }) => Ok(()),
                Err(error) => Err(io::Error::other(error.to_string())),
            },
            SourceKind::Database => self.read_database(name, input),
            SourceKind::Archive => self.read_archive(name, input, depth),
            SourceKind::Other if name.rsplit('/').next() == Some("timestamp") => {
                let mut text = String::new();
                input.take(MAX_TIMESTAMP_BYTES).read_to_string(&mut text)?;
                self.time.read(&text);
                Ok(())
            }
            SourceKind::Other => match resource_of(name) {
                Some(resource) => self.read_objects(name, resource, input),
                None => Ok(()),
            },
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
            self.time.add_member(entry.header().mtime().unwrap_or_default());
            let member = format!("{name}/{}", entry.path()?.display());
            let read = self.read_member(&member, Box::new(BufReader::new(entry)), depth + 1);
            if let Err(error) = read {
                self.report(format!("{member}: {error}"));
            }
        }
        Ok(())
    }

    /// Reads a database file. Databases with another name, such as the southbound, are passed over.
    fn read_database(&mut self, name: &str, input: Box<dyn BufRead + '_>) -> io::Result<()> {
        let mut log = DatabaseLog::read(name, input).map_err(file_error)?;
        if log.schema().name != nb::schema().name {
            return Ok(());
        }
        let state = state_at(&mut log, self.wanted.at).map_err(|error| match error {
            StateError::File(error) => file_error(error),
            other => io::Error::other(other.to_string()),
        })?;
        if let Some(problem) = log.end().and_then(LogEnd::problem) {
            self.report(format!("{name}: {problem}"));
        }
        self.found.push((name.to_owned(), state));
        Ok(())
    }

    /// Reads a file with objects: the nodes of pods, and all that is wanted.
    fn read_objects(
        &mut self,
        name: &str,
        resource: Resource<'_>,
        input: Box<dyn BufRead + '_>,
    ) -> io::Result<()> {
        let names_zones = !self.wanted.no_databases && resource.is_pods();
        let objects = self.wanted.objects.as_deref();
        let is_wanted =
            objects.is_some_and(|objects| objects.has_resource(resource.group, resource.name));
        if !names_zones && !is_wanted {
            return Ok(());
        }
        let limit = MAX_OBJECT_FILE_BYTES.min(self.object_bytes);
        let mut content = Vec::new();
        input.take(limit + 1).read_to_end(&mut content)?;
        let bytes = content.len() as u64;
        self.object_bytes = self.object_bytes.saturating_sub(bytes);
        if bytes > limit {
            let (file, all) = (MAX_OBJECT_FILE_BYTES >> 20, MAX_OBJECT_BYTES >> 20);
            let message =
                format!("objects of more than {file} MiB in a file, or of {all} MiB together");
            return Err(io::Error::other(message));
        }
        let nodes = if names_zones { self.nodes.read(&content) } else { Ok(()) };
        match self.wanted.objects.as_deref_mut() {
            Some(objects) if is_wanted => {
                self.object_files += 1;
                // The reader reports what is wrong with the content.
                objects.read(name, content);
                Ok(())
            }
            _ => nodes,
        }
    }
}

/// The error of a file inside of an archive, whose name is added elsewhere.
fn file_error(error: FileError) -> io::Error {
    match error {
        FileError::Io { source, .. } => source,
        FileError::NotADatabase { problem, .. } => io::Error::other(problem.to_string()),
        FileError::Cluster { problem, .. } => io::Error::other(problem.to_string()),
        other => io::Error::other(other.to_string()),
    }
}
