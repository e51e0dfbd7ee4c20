//! apt with a folder of its own: one source, no installed packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{FetchError, Suite};

/// Debian's archive.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Keys of Debian's archive, from the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Folder in which apt runs. The machine's sources and packages are not touched. The folder is
/// removed with the value.
#[derive(Debug)]
pub(super) struct Apt {
    folder: PathBuf,
}

impl Apt {
    pub(super) fn new(folder: PathBuf, suite: &Suite) -> Result<Self, FetchError> {
        if !Path::new(KEYRING).is_file() {
            return Err(FetchError::NoKeyring(KEYRING));
        }
        remove_folder(&folder)?;
        let apt = Self { folder };
        for name in ["lists/partial", "archives/partial", "none"] {
            let path = apt.folder.join(name);
            fs::create_dir_all(&path).map_err(FetchError::io(&path))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {MIRROR} {suite} main\n");
        let files = [
            ("status", String::new()),
            ("sources.list", source),
            ("apt.conf", options(&apt.folder)),
        ];
        for (name, content) in files {
            let path = apt.folder.join(name);
            fs::write(&path, content).map_err(FetchError::io(&path))?;
        }
        Ok(apt)
    }

    /// Runs `apt-get` and returns its standard output.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String, FetchError> {
        let mut command = Command::new("apt-get");
        command.arg("-c").arg(self.folder.join("apt.conf"));
        command.current_dir(self.folder.join("archives"));
        run(command.args(arguments))
    }

    /// The files of the downloaded packages.
    pub(super) fn downloaded(&self) -> Result<Vec<PathBuf>, FetchError> {
        let folder = self.folder.join("archives");
        let entries = fs::read_dir(&folder)
            .and_then(Iterator::collect::<io::Result<Vec<_>>>)
            .map_err(FetchError::io(&folder))?;
        let paths = entries.into_iter().map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect())
    }
}

impl Drop for Apt {
    fn drop(&mut self) {
        // A folder that stays is removed by the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Options in the notation of apt.conf(5). The machine's own options are read before them, because
/// they may name a proxy. Its hooks are removed, because they maintain the machine.
fn options(folder: &Path) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    let options = [
        ("Dir::State", path("")),
        ("Dir::State::lists", path("lists")),
        ("Dir::State::status", path("status")),
        ("Dir::Cache", path("")),
        ("Dir::Cache::archives", path("archives")),
        ("Dir::Etc::sourcelist", path("sources.list")),
        ("Dir::Etc::sourceparts", path("none")),
        ("Dir::Etc::preferences", path("none/preferences")),
        ("Dir::Etc::preferencesparts", path("none")),
        ("APT::Default-Release", String::new()),
        ("APT::Install-Recommends", "false".into()),
        // The user _apt cannot write to this folder.
        ("APT::Sandbox::User", "root".into()),
        ("APT::Update::Error-Mode", "any".into()),
        ("Acquire::Languages", "none".into()),
        ("Acquire::Retries", "2".into()),
        ("Acquire::http::Timeout", "20".into()),
        // Locks and the simulated installation are about installed packages.
        ("Debug::NoLocking", "true".into()),
    ];
    let cleared = ["APT::Update::Pre-Invoke", "APT::Update::Post-Invoke"].map(str::to_owned);
    cleared
        .iter()
        .flat_map(|hook| [hook.clone(), format!("{hook}-Success")])
        .map(|hook| format!("#clear {hook};\n"))
        .chain(options.map(|(name, value)| format!("{name} \"{value}\";\n")))
        .collect()
}

pub(super) fn remove_folder(folder: &Path) -> Result<(), FetchError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FetchError::io(folder)(error)),
        _ => Ok(()),
    }
}

/// Runs a program and returns its standard output. Its last line of standard error is the reason of
/// a failure.
pub(super) fn run(command: &mut Command) -> Result<String, FetchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    let output = command.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => FetchError::NoProgram(program.clone()),
        _ => FetchError::Start {
            program: program.clone(),
            source,
        },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().next_back().unwrap_or("no output");
    let reason = format!("{}: {last}", output.status);
    Err(FetchError::Failed { program, reason })
}
