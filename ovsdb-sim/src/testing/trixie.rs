//! Folder with the programs of Debian 13 (trixie), created once.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Packages to unpack.
const PACKAGES: &str = "ovn-central,ovn-common,openvswitch-common,openvswitch-switch";

/// Environment variable with the path of an existing folder.
const FOLDER_VARIABLE: &str = "PATCHBAY_TRIXIE";

/// The folder, which is created if it does not exist. `None`: it cannot be created; the reason is
/// on standard error, once per process.
pub(super) fn folder() -> Option<PathBuf> {
    static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        if let Some(folder) = env::var_os(FOLDER_VARIABLE) {
            return Some(folder.into());
        }
        match create_once() {
            Ok(folder) => Some(folder),
            Err(reason) => {
                print_uncaptured(&format!(
                    "NOT COMPARED with OVS 3.5 and OVN 25.03 of Debian trixie: {reason}"
                ));
                None
            }
        }
    });
    FOLDER.clone()
}

/// Prints a line to standard error, also in tests that pass: only the output of macros is captured.
fn print_uncaptured(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{text}");
}

fn create_once() -> Result<PathBuf, String> {
    let target = target_folder()?;
    let done = target.join("trixie");
    // Test processes may create it at the same time.
    let lock = File::create(target.join("trixie.lock")).map_err(|error| format!("{error}"))?;
    lock.lock().map_err(|error| format!("{error}"))?;
    if !done.exists() {
        let partial = target.join("trixie.partial");
        debootstrap(&partial)?;
        fs::rename(&partial, &done).map_err(|error| format!("{}: {error}", done.display()))?;
    }
    Ok(done)
}

/// Cargo's target folder, which contains the test's program.
fn target_folder() -> Result<PathBuf, String> {
    let test = env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let target = test
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists());
    let target = target.ok_or_else(|| format!("no target folder around {}", test.display()))?;
    Ok(target.to_owned())
}

fn debootstrap(folder: &Path) -> Result<(), String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Err(format!(
            "debootstrap needs root; {FOLDER_VARIABLE} can name an existing folder"
        ));
    }
    print_uncaptured(
        "creating a folder with OVS 3.5 and OVN 25.03 of Debian trixie; this takes a minute or two, once",
    );
    let log = folder.with_extension("log");
    let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = output.try_clone().map_err(|error| error.to_string())?;
    let status = Command::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={PACKAGES}")])
        .arg("trixie")
        .arg(folder)
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .map_err(|error| format!("cannot run debootstrap: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let log = fs::read_to_string(&log).unwrap_or_default();
    let last = log.lines().next_back().unwrap_or("no output");
    Err(format!("debootstrap: {status}: {last}"))
}
