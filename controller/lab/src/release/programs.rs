//! Location of the programs and schemas of a release.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use patchbay_schemas::schema::DatabaseSchema;

use super::{ReleaseError, Version};

/// Folders of programs below a folder with unpacked packages, or below the prefix of a build.
const PROGRAM_FOLDERS: [&str; 5] = [
    "usr/bin",
    "usr/sbin",
    "usr/lib/openvswitch-switch",
    "bin",
    "sbin",
];
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

/// Location of the programs.
#[derive(Clone, Debug)]
pub(super) enum Programs {
    /// Programs of the system.
    Installed(Vec<PathBuf>),
    /// Programs below a folder.
    Folder {
        folder: PathBuf,
        /// Dynamic linker and libraries of the folder. `None`: those of the system.
        loader: Option<Loader>,
    },
}

/// Dynamic linker with its libraries. Programs that it starts need no change of the root folder.
#[derive(Clone, Debug)]
pub(super) struct Loader {
    program: PathBuf,
    libraries: PathBuf,
}

impl Programs {
    /// The programs of the system.
    pub(super) fn installed() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
        Self::Installed(folders.collect())
    }

    /// The programs below a folder.
    pub(super) fn below(folder: PathBuf) -> Self {
        Self::Folder {
            loader: find_loader(&folder),
            folder,
        }
    }

    pub(super) fn command(&self, program: &'static str) -> Result<Vec<OsString>, ReleaseError> {
        let is_file = |path: &PathBuf| path.is_file();
        let found = match self {
            Self::Installed(folders) => folders.iter().map(|f| f.join(program)).find(is_file),
            Self::Folder { folder, .. } => PROGRAM_FOLDERS
                .iter()
                .map(|parent| folder.join(parent).join(program))
                .find(is_file),
        };
        let Some(path) = found else {
            let place = self.place("PATH");
            return Err(ReleaseError::NoProgram { program, place });
        };
        let mut command = Vec::new();
        if let Self::Folder {
            loader: Some(loader),
            ..
        } = self
        {
            command.extend([
                loader.program.clone().into(),
                "--library-path".into(),
                loader.libraries.clone().into(),
            ]);
        }
        command.push(path.into());
        Ok(command)
    }

    pub(super) fn version_of(&self, program: &'static str) -> Result<Version, ReleaseError> {
        let words = self.command(program)?;
        let error = |reason: String| ReleaseError::NoVersion {
            program: words
                .last()
                .map_or(program.into(), |path| path.to_string_lossy().into_owned()),
            reason,
        };
        let output = Command::new(&words[0])
            .args(&words[1..])
            .arg("--version")
            // Ctrl-C is for the lab.
            .process_group(0)
            .output()
            .map_err(|source| error(source.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .lines()
            .next()
            .and_then(|line| Version::parse(line.split(' ').next_back()?));
        version.ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            error(format!("{text}{errors}").trim().to_owned())
        })
    }

    pub(super) fn schema_path(&self, schema: &'static str) -> Result<PathBuf, ReleaseError> {
        let root = match self {
            Self::Installed(_) => Path::new("/"),
            Self::Folder { folder, .. } => folder,
        };
        let file = format!("{schema}.ovsschema");
        let mut files = SCHEMA_FOLDERS.iter().map(|f| root.join(f).join(&file));
        files
            .find(|path| path.is_file())
            .ok_or_else(|| ReleaseError::NoSchema {
                schema,
                place: self.place("/usr/share"),
            })
    }

    pub(super) fn schema(&self, schema: &'static str) -> Result<Arc<DatabaseSchema>, ReleaseError> {
        let path = self.schema_path(schema)?;
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(source) => return Err(ReleaseError::ReadSchema { path, source }),
        };
        match DatabaseSchema::parse(&text) {
            Ok(schema) => Ok(Arc::new(schema)),
            Err(source) => Err(ReleaseError::ParseSchema { path, source }),
        }
    }

    /// Name of the searched place for messages.
    fn place(&self, installed: &str) -> String {
        match self {
            Self::Installed(_) => installed.to_owned(),
            Self::Folder { folder, .. } => folder.display().to_string(),
        }
    }
}

/// Finds the dynamic linker of unpacked packages.
fn find_loader(folder: &Path) -> Option<Loader> {
    let libraries = fs::read_dir(folder.join("usr/lib")).ok()?;
    let mut libraries = libraries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    let libraries = libraries.next()?;
    let program = fs::read_dir(&libraries)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-linux") || name.starts_with("ld64")
        })?;
    Some(Loader { program, libraries })
}
