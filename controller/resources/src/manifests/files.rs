//! Reading of manifest files and state files.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::decode::Decoder;
use super::{Inventory, Origin, Problem};

/// File name of the standard input in messages.
pub(super) const STANDARD_INPUT_NAME: &str = "standard input";

/// Errors of a set of manifests; at least one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct LoadError {
    /// Problems in the order of the manifests.
    pub problems: Vec<Problem>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for problem in &self.problems {
            write!(f, "{separator}{problem}")?;
            separator = "\n";
        }
        Ok(())
    }
}

/// Default of the maximum length of all manifests together, in bytes. The objects of a manifest
/// take about forty times its length while they are read.
pub const DEFAULT_MAX_MANIFEST_BYTES: u64 = 64 << 20;
/// Maximum length of a state file, in bytes. It holds one object, of which an API server accepts at
/// most 3 MiB.
const MAX_STATE_FILE_BYTES: u64 = 16 << 20;

/// Reads manifests of at most [`DEFAULT_MAX_MANIFEST_BYTES`] together: see
/// [`read_manifests_within`].
///
/// # Errors
/// [`LoadError`] with the errors of all files.
pub fn read_manifests(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Inventory, LoadError> {
    read_manifests_within(paths, stdin, DEFAULT_MAX_MANIFEST_BYTES)
}

/// Reads manifests from files, from folders, and from `stdin` for the path `-`, at most `max_bytes`
/// bytes together.
///
/// A folder stands for all its `*.yaml`, `*.yml` and `*.json` files, including those in
/// subfolders, in the order of their names. Hidden entries, pipes, sockets, devices and links to
/// anything but files are skipped.
///
/// # Errors
/// [`LoadError`] with the errors of all files. After the first file that exceeds the limit, no
/// other one is read.
pub fn read_manifests_within(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    max_bytes: u64,
) -> Result<Inventory, LoadError> {
    let mut budget = ByteBudget::new(max_bytes);
    let mut decoder = Decoder::new(Origin::Manifest);
    for path in paths {
        if path.as_os_str() == "-" {
            let read = budget.read(&mut *stdin);
            decoder.read_bytes(STANDARD_INPUT_NAME, read);
        } else if path.is_dir() {
            read_folder(&mut decoder, path, &mut budget);
        } else {
            let read = File::open(path).and_then(|file| budget.read(file));
            decoder.read_bytes(&path.display().to_string(), read);
        }
        if budget.is_exceeded {
            break;
        }
    }
    if decoder.objects == 0 && decoder.errors.is_empty() {
        let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        decoder.errors.push(file_problem(format!("no objects found in {}", names.join(", "))));
    }
    decoder.finish()
}

/// Files that [`read_manifests`] reads at these paths. Folders that cannot be listed are left out.
pub fn manifest_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            // `read_manifests` reports folders that cannot be listed.
            find_manifests(path, &mut files).unwrap_or_default();
        } else {
            files.push(path.clone());
        }
    }
    files
}

/// Reads state files, which an earlier run has written.
///
/// # Errors
/// [`LoadError`] with the errors of all files. A file without an object is an error.
pub fn read_state_files(files: &[PathBuf]) -> Result<Inventory, LoadError> {
    let mut decoder = Decoder::new(Origin::State);
    for file in files {
        let name = file.display().to_string();
        let before = (decoder.objects, decoder.errors.len());
        decoder.read_bytes(&name, read_state_file(file));
        if (decoder.objects, decoder.errors.len()) == before {
            decoder.errors.push(file_problem(format!(
                "no object in state file {name}: restore the file, or remove it to discard the state"
            )));
        }
    }
    decoder.finish()
}

/// Reads a state file. Pipes and devices, which may have no end, are errors.
fn read_state_file(file: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    let limit = MAX_STATE_FILE_BYTES;
    File::open(file)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {} MiB", limit >> 20);
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

/// Bytes of manifests that may still be read.
struct ByteBudget {
    limit: u64,
    left: u64,
    is_exceeded: bool,
}

impl ByteBudget {
    fn new(limit: u64) -> Self {
        Self { limit, left: limit, is_exceeded: false }
    }

    /// Reads until the end, or until the budget is exceeded, which is an error.
    fn read(&mut self, from: impl Read) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        from.take(self.left.saturating_add(1)).read_to_end(&mut bytes)?;
        if let Some(left) = self.left.checked_sub(bytes.len() as u64) {
            self.left = left;
            return Ok(bytes);
        }
        self.is_exceeded = true;
        Err(io::Error::other(format!(
            "the manifests have more than {} MiB together; --manifest-limit sets the limit",
            self.limit >> 20
        )))
    }
}

fn read_folder(decoder: &mut Decoder, folder: &Path, budget: &mut ByteBudget) {
    let mut files = Vec::new();
    if let Err((path, error)) = find_manifests(folder, &mut files) {
        decoder.errors.push(read_problem(&path.display().to_string(), &error));
    } else if files.is_empty() {
        let message = format!("no *.yaml, *.yml or *.json files in folder {}", folder.display());
        decoder.errors.push(file_problem(message));
    }
    for file in files {
        let read = File::open(&file).and_then(|file| budget.read(file));
        decoder.read_bytes(&file.display().to_string(), read);
        if budget.is_exceeded {
            break;
        }
    }
}

/// Appends the manifest files of a folder and its subfolders, in the order of their names.
fn find_manifests(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (folder.to_owned(), error);
    let mut entries =
        fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let entry_type = entry.file_type().map_err(failed)?;
        if entry_type.is_dir() {
            find_manifests(&path, files)?;
        } else if (entry_type.is_file() || entry_type.is_symlink()) && is_manifest(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    let is_other = |metadata: fs::Metadata| !metadata.is_file();
    // A link to nothing stays, so that it is reported.
    matches!(extension, Some("yaml" | "yml" | "json")) && !fs::metadata(path).is_ok_and(is_other)
}

impl Decoder {
    /// Decodes all objects of a file, or notes why it cannot be read.
    pub(super) fn read_bytes(&mut self, name: &str, bytes: io::Result<Vec<u8>>) {
        match bytes.map(String::from_utf8) {
            Ok(Ok(text)) => self.read(name, &text),
            Ok(Err(_)) => {
                self.errors.push(file_problem(format!("cannot read {name}: not UTF-8 text")));
            }
            Err(error) => self.errors.push(read_problem(name, &error)),
        }
    }
}

fn read_problem(name: &str, error: &io::Error) -> Problem {
    file_problem(format!("cannot read {name}: {error}"))
}

fn file_problem(message: String) -> Problem {
    Problem { message, ..Problem::default() }
}
