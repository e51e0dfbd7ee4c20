//! Manifests in files.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::decode::Decoder;
use super::{Inventory, Origin, Problem};

/// How messages call the standard input.
const STANDARD_INPUT: &str = "standard input";

/// Everything that is wrong with a set of manifests; there is at least one problem.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct LoadError {
    /// The problems, in the order of the manifests.
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

/// Reads manifests: files as they are named, folders with all `*.yaml`, `*.yml` and `*.json` files in them and in
/// their folders, in the order of names, and `-` for `stdin`. Hidden entries of folders are skipped, as are pipes and
/// sockets in them, and links to folders are not followed.
///
/// # Errors
/// [`LoadError`], with everything that is wrong with any of them.
pub fn read_manifests(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Inventory, LoadError> {
    let mut decoder = Decoder::new(Origin::Manifest);
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let read = stdin.read_to_end(&mut bytes).map(|_| bytes);
            read_text(&mut decoder, STANDARD_INPUT, read);
        } else if path.is_dir() {
            read_folder(&mut decoder, path);
        } else {
            read_text(&mut decoder, &path.display().to_string(), fs::read(path));
        }
    }
    if decoder.objects == 0 && decoder.errors.is_empty() {
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        decoder.errors.push(about_no_object(format!(
            "there is no object in {}",
            names.join(", ")
        )));
    }
    decoder.finish()
}

/// The files that [`read_manifests`] reads at these paths, as far as folders can be listed.
pub fn manifest_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            // What cannot be listed is told by those who read.
            find_manifests(path, &mut files).unwrap_or_default();
        } else {
            files.push(path.clone());
        }
    }
    files
}

/// Reads files that an earlier run has written.
///
/// # Errors
/// [`LoadError`], with everything that is wrong with any of them.
pub fn read_state_files(files: &[PathBuf]) -> Result<Inventory, LoadError> {
    let mut decoder = Decoder::new(Origin::State);
    for file in files {
        let name = file.display().to_string();
        let before = (decoder.objects, decoder.errors.len());
        read_text(&mut decoder, &name, fs::read(file));
        if (decoder.objects, decoder.errors.len()) == before {
            decoder.errors.push(about_no_object(format!(
                "there is no object in {name}: bring it back, or remove it to start anew"
            )));
        }
    }
    decoder.finish()
}

fn read_folder(decoder: &mut Decoder, folder: &Path) {
    let mut files = Vec::new();
    if let Err((path, error)) = find_manifests(folder, &mut files) {
        decoder
            .errors
            .push(cannot_read(&path.display().to_string(), &error));
    } else if files.is_empty() {
        let message = format!(
            "there is no *.yaml, *.yml or *.json file in the folder {}",
            folder.display()
        );
        decoder.errors.push(about_no_object(message));
    }
    for file in files {
        read_text(decoder, &file.display().to_string(), fs::read(&file));
    }
}

fn find_manifests(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (folder.to_owned(), error);
    let mut entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(failed)?;
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
    matches!(extension, Some("yaml" | "yml" | "json")) && !path.is_dir()
}

fn read_text(decoder: &mut Decoder, name: &str, bytes: io::Result<Vec<u8>>) {
    match bytes.map(String::from_utf8) {
        Ok(Ok(text)) => decoder.read(name, &text),
        Ok(Err(_)) => decoder.errors.push(about_no_object(format!(
            "cannot read {name}: it is not UTF-8 text"
        ))),
        Err(error) => decoder.errors.push(cannot_read(name, &error)),
    }
}

fn cannot_read(name: &str, error: &io::Error) -> Problem {
    about_no_object(format!("cannot read {name}: {error}"))
}

fn about_no_object(message: String) -> Problem {
    Problem {
        message,
        ..Problem::default()
    }
}
