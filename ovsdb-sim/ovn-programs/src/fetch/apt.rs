//! apt with a folder of its own: one source, no installed packages.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use super::{Cancellation, FetchError, Suite};

/// Debian's archive.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Keys of Debian's archive, from the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Interval in which a running program and the cancellation are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes that a quoted value of apt.conf(5) cannot hold.
const UNQUOTABLE: &[u8] = b"\"\\";

/// Folder in which apt runs. The machine's sources and packages are not touched.
#[derive(Debug)]
pub(super) struct Apt {
    folder: PathBuf,
}

/// `true` if options of apt.conf(5) can hold the path.
pub(super) fn can_hold(path: &Path) -> bool {
    let is_quotable = |byte: u8| !byte.is_ascii_control() && !UNQUOTABLE.contains(&byte);
    path.to_str().is_some_and(|path| path.bytes().all(is_quotable))
}

impl Apt {
    pub(super) fn new(folder: PathBuf, suite: &Suite) -> Result<Self, FetchError> {
        if !Path::new(KEYRING).is_file() {
            return Err(FetchError::NoKeyring(KEYRING));
        }
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
    pub(super) fn run(
        &self,
        arguments: &[&str],
        cancellation: &Cancellation,
    ) -> Result<String, FetchError> {
        let mut command = Command::new("apt-get");
        command.arg("-c").arg(self.folder.join("apt.conf"));
        command.current_dir(self.folder.join("archives"));
        run(command.args(arguments), cancellation)
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

/// Runs a program until it ends or is cancelled, and returns its standard output. Its last line of
/// standard error is the reason of a failure.
pub(super) fn run(
    command: &mut Command,
    cancellation: &Cancellation,
) -> Result<String, FetchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let error = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FetchError::NoProgram(program.clone()),
        _ => FetchError::Run { program: program.clone(), source },
    };
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(error)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (status, output, errors) = thread::scope(|scope| {
        let output = scope.spawn(|| text(output));
        let errors = scope.spawn(|| text(errors));
        let status = wait(&mut child, cancellation);
        (status, output.join(), errors.join())
    });
    let status = status.map_err(error)?;
    if cancellation.is_cancelled() {
        return Err(FetchError::Cancelled);
    }
    if status.success() {
        return Ok(output.unwrap_or_default());
    }
    let errors = errors.unwrap_or_default();
    let last = errors.lines().next_back().unwrap_or("no output");
    let reason = format!("{status}: {last}");
    Err(FetchError::Failed { program, reason })
}

/// Waits for the end of a program. A cancelled one is killed.
fn wait(child: &mut Child, cancellation: &Cancellation) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if cancellation.is_cancelled() {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is kept.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
