//! Folders with the programs of a Debian suite, each created once.
//!
//! Packages are downloaded and unpacked, not installed, so that neither root nor a complete system
//! is needed. apt gets a folder of its own, and the machine's sources and packages are not touched.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Packages with the programs and schemas of Open vSwitch and OVN.
const PACKAGES: [&str; 3] = ["ovn-central", "ovn-host", "openvswitch-switch"];

/// Beginnings of the names of the packages to unpack: programs, and the libraries that they need.
const UNPACKED: [&str; 4] = ["ovn-", "openvswitch-", "lib", "zlib1g"];

const MIRROR: &str = "http://deb.debian.org/debian";

/// Keys of Debian's archive, from the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Debian suite with a release of Open vSwitch and OVN.
#[derive(Debug)]
pub(super) struct Suite {
    /// Name in the archive.
    name: &'static str,
    /// Environment variable with the path of an existing folder.
    variable: &'static str,
    /// `None` inside: the folder cannot be created.
    folder: OnceLock<Option<PathBuf>>,
}

/// Debian 13.
pub(super) static TRIXIE: Suite = Suite::new("trixie", "PATCHBAY_TRIXIE");

/// Debian's unstable suite, which has the newest release.
pub(super) static SID: Suite = Suite::new("sid", "PATCHBAY_SID");

/// Error: a suite cannot be unpacked.
#[derive(Debug, thiserror::Error)]
enum UnpackError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no target folder around {}", .0.display())]
    NoTargetFolder(PathBuf),
    #[error("there is no {KEYRING}; Debian and Ubuntu: apt-get install debian-archive-keyring")]
    NoKeyring,
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program}: {reason}")]
    Failed { program: String, reason: String },
}

impl UnpackError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl Suite {
    const fn new(name: &'static str, variable: &'static str) -> Self {
        Self {
            name,
            variable,
            folder: OnceLock::new(),
        }
    }

    /// The folder, which is created if it does not exist. `None`: it cannot be created; the reason
    /// is on standard error, once per process.
    pub(super) fn folder(&self) -> Option<&Path> {
        let open = || {
            if let Some(folder) = env::var_os(self.variable) {
                return Some(folder.into());
            }
            self.unpack_once()
                .inspect_err(|error| {
                    let name = self.name;
                    print_uncaptured(&format!("NOT COMPARED with Debian {name}: {error}"));
                })
                .ok()
        };
        self.folder.get_or_init(open).as_deref()
    }

    fn unpack_once(&self) -> Result<PathBuf, UnpackError> {
        let target = target_folder()?;
        let done = target.join(self.name);
        // Test processes may create it at the same time.
        let lock_path = target.join(format!("{}.lock", self.name));
        let lock = File::create(&lock_path).map_err(UnpackError::io(&lock_path))?;
        lock.lock().map_err(UnpackError::io(&lock_path))?;
        if !done.exists() {
            self.unpack(&target, &done)?;
        }
        Ok(done)
    }

    /// Downloads and unpacks the packages, and gives the folder its name when it is complete.
    fn unpack(&self, target: &Path, done: &Path) -> Result<(), UnpackError> {
        if !Path::new(KEYRING).is_file() {
            return Err(UnpackError::NoKeyring);
        }
        let name = self.name;
        let apt = Apt::new(target.join(format!("{name}.apt")), name)?;
        print_uncaptured(&format!(
            "downloading Open vSwitch and OVN of Debian {name}, once"
        ));
        apt.run(&["update"])?;
        let plan = apt.run(&[&["-s", "install"], &PACKAGES[..]].concat())?;
        let packages = plan
            .lines()
            .filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next())
            .filter(|package| UNPACKED.iter().any(|begin| package.starts_with(begin)));
        let mut download = vec!["download"];
        download.extend(packages);
        apt.run(&download)?;

        let partial = target.join(format!("{name}.partial"));
        remove_folder(&partial)?;
        for package in apt.downloaded()? {
            run(Command::new("dpkg").arg("-x").args([&package, &partial]))?;
        }
        fs::rename(&partial, done).map_err(UnpackError::io(done))?;
        remove_folder(&apt.folder)
    }
}

/// apt with a folder of its own: one source, no installed packages.
#[derive(Debug)]
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: PathBuf, suite: &str) -> Result<Self, UnpackError> {
        remove_folder(&folder)?;
        for name in ["lists/partial", "archives/partial", "none"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(UnpackError::io(&path))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {MIRROR} {suite} main\n");
        let files = [
            ("status", String::new()),
            ("sources.list", source),
            ("apt.conf", apt_options(&folder)),
        ];
        for (name, content) in files {
            let path = folder.join(name);
            fs::write(&path, content).map_err(UnpackError::io(&path))?;
        }
        Ok(Self { folder })
    }

    /// Runs `apt-get` and returns its standard output.
    fn run(&self, arguments: &[&str]) -> Result<String, UnpackError> {
        let mut command = Command::new("apt-get");
        command.arg("-c").arg(self.folder.join("apt.conf"));
        command.current_dir(self.folder.join("archives"));
        run(command.args(arguments))
    }

    /// The files of the downloaded packages.
    fn downloaded(&self) -> Result<Vec<PathBuf>, UnpackError> {
        let folder = self.folder.join("archives");
        let entries = fs::read_dir(&folder)
            .and_then(Iterator::collect::<io::Result<Vec<_>>>)
            .map_err(UnpackError::io(&folder))?;
        let paths = entries.into_iter().map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect())
    }
}

/// Options in the notation of apt.conf(5). The machine's own options are read before them, because
/// they may name a proxy. Its hooks are removed, because they maintain the machine.
fn apt_options(folder: &Path) -> String {
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

/// Prints a line to standard error, also in tests that pass: only the output of macros is captured.
fn print_uncaptured(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Cargo's target folder, which contains the test's program as `PROFILE/deps/NAME`.
fn target_folder() -> Result<PathBuf, UnpackError> {
    let test = env::current_exe().map_err(UnpackError::io(Path::new("this program")))?;
    // Cargo does not mark a target folder that existed before, such as a restored cache.
    let marked = test
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists());
    let target = marked.or_else(|| {
        let dependencies = test
            .ancestors()
            .find(|folder| folder.ends_with("deps") || folder.ends_with("examples"));
        dependencies?.parent()?.parent()
    });
    let target = target.map(Path::to_owned);
    target.ok_or(UnpackError::NoTargetFolder(test))
}

fn remove_folder(folder: &Path) -> Result<(), UnpackError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(UnpackError::io(folder)(error))
        }
        _ => Ok(()),
    }
}

/// Runs a program and returns its standard output. Its last line of standard error is the reason of
/// a failure.
fn run(command: &mut Command) -> Result<String, UnpackError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    let output = command.output();
    let output = output.map_err(|source| UnpackError::Start {
        program: program.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().next_back().unwrap_or("no output");
    let reason = format!("{}: {last}", output.status);
    Err(UnpackError::Failed { program, reason })
}
