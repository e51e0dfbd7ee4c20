//! Location of programs and schemas: on the system, or below a folder.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::Version;

/// Folders of programs below a folder with unpacked packages, or below the prefix of a build.
const PROGRAM_FOLDERS: [&str; 5] =
    ["usr/bin", "usr/sbin", "usr/lib/openvswitch-switch", "bin", "sbin"];
/// Folders with programs that the `PATH` of users often lacks.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Folders of schemas below a root folder.
const SCHEMA_FOLDERS: [&str; 6] = [
    "usr/share/ovn",
    "usr/share/openvswitch",
    "usr/local/share/ovn",
    "usr/local/share/openvswitch",
    "share/ovn",
    "share/openvswitch",
];

/// Error: a program or schema is missing or unusable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProgramsError {
    /// A program is missing.
    #[error(
        "{program} not found in {place}; OVN and Open vSwitch have to be installed, or fetched into a \
         folder for `--ovn` with: patchbay lab fetch"
    )]
    NoProgram {
        /// Name of the program.
        program: String,
        /// The searched folder or path variable.
        place: String,
    },
    /// The path of the folder cannot be made absolute.
    #[error("{}: {source}", .path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A schema is missing.
    #[error("{schema}.ovsschema not found in {place}")]
    NoSchema {
        /// Name of the schema.
        schema: String,
        /// The searched root folder.
        place: String,
    },
    /// A program does not print its version.
    #[error("cannot read the version of {program}: {reason}")]
    NoVersion {
        /// Path of the program.
        program: String,
        /// Its output, or the error.
        reason: String,
    },
}

/// Programs and schemas of OVN and Open vSwitch.
#[derive(Clone, Debug)]
pub struct Programs(Place);

#[derive(Clone, Debug)]
enum Place {
    /// Folders of the system.
    Installed(Vec<PathBuf>),
    Folder {
        folder: PathBuf,
        /// Dynamic linker and libraries of the folder. `None`: those of the system.
        loader: Option<Loader>,
    },
}

/// Dynamic linker with its libraries. Programs that it starts need no change of the root folder.
#[derive(Clone, Debug)]
struct Loader {
    program: PathBuf,
    libraries: PathBuf,
}

impl Programs {
    /// The programs of the system.
    pub fn installed() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
        Self(Place::Installed(folders.collect()))
    }

    /// The programs below a folder with unpacked packages, or below the prefix of a build.
    ///
    /// # Errors
    /// The path cannot be made absolute, as programs need that run in other folders.
    pub fn below(folder: &Path) -> Result<Self, ProgramsError> {
        let folder = std::path::absolute(folder)
            .map_err(|source| ProgramsError::Folder { path: folder.to_owned(), source })?;
        Ok(Self(Place::Folder { loader: find_loader(&folder), folder }))
    }

    /// Folder with the programs. `None`: those of the system.
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Place::Installed(_) => None,
            Place::Folder { folder, .. } => Some(folder),
        }
    }

    /// Program and first arguments of a command, such as `ovn-trace`.
    ///
    /// # Errors
    /// The program is missing.
    pub fn words(&self, program: &str) -> Result<Vec<OsString>, ProgramsError> {
        let is_file = |path: &PathBuf| path.is_file();
        let (found, loader) = match &self.0 {
            Place::Installed(folders) => {
                (folders.iter().map(|f| f.join(program)).find(is_file), None)
            }
            Place::Folder { folder, loader } => (
                PROGRAM_FOLDERS
                    .iter()
                    .map(|parent| folder.join(parent).join(program))
                    .find(is_file),
                loader.as_ref(),
            ),
        };
        let path = found.ok_or_else(|| ProgramsError::NoProgram {
            program: program.to_owned(),
            place: self.place("PATH"),
        })?;
        Ok(loader
            .into_iter()
            .flat_map(|loader| {
                let libraries = loader.libraries.clone();
                [loader.program.clone().into(), "--library-path".into(), libraries.into()]
            })
            .chain([path.into()])
            .collect())
    }

    /// A command that runs a program, such as `ovsdb-server`, still without arguments.
    ///
    /// # Errors
    /// The program is missing.
    pub fn command(&self, program: &str) -> Result<Command, ProgramsError> {
        let words = self.words(program)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Ok(command)
    }

    /// Version that a program prints.
    ///
    /// # Errors
    /// The program is missing, or prints no version.
    pub fn version_of(&self, program: &str) -> Result<Version, ProgramsError> {
        let words = self.words(program)?;
        let error = |reason: String| ProgramsError::NoVersion {
            program: words
                .last()
                .map_or(program.into(), |path| path.to_string_lossy().into_owned()),
            reason,
        };
        let output = Command::new(&words[0])
            .args(&words[1..])
            .arg("--version")
            // Ctrl-C is for the caller.
            .process_group(0)
            .output()
            .map_err(|source| error(source.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version =
            text.lines().next().and_then(|line| Version::parse(line.split(' ').next_back()?));
        version.ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            error(format!("{text}{errors}").trim().to_owned())
        })
    }

    /// Path of a schema, such as `ovn-nb` or `vswitch`.
    ///
    /// # Errors
    /// The schema is missing.
    pub fn schema_path(&self, schema: &str) -> Result<PathBuf, ProgramsError> {
        let root = self.folder().unwrap_or(Path::new("/"));
        let file = format!("{schema}.ovsschema");
        SCHEMA_FOLDERS
            .iter()
            .map(|folder| root.join(folder).join(&file))
            .find(|path| path.is_file())
            .ok_or_else(|| ProgramsError::NoSchema {
                schema: schema.to_owned(),
                place: self.place("/usr/share"),
            })
    }

    /// Name of the searched place for messages.
    fn place(&self, installed: &str) -> String {
        self.folder().map_or_else(|| installed.to_owned(), |folder| folder.display().to_string())
    }
}

/// Finds the dynamic linker of unpacked packages.
fn find_loader(folder: &Path) -> Option<Loader> {
    let libraries = fs::read_dir(folder.join("usr/lib"))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().ends_with("-linux-gnu"))?;
    let program = fs::read_dir(&libraries)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-linux") || name.starts_with("ld64")
        })?;
    Some(Loader { program, libraries })
}
