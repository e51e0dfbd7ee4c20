//! A folder with the programs of Debian 13 (trixie), made once.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// What is unpacked.
const PACKAGES: &str = "ovn-central,ovn-common,openvswitch-common,openvswitch-switch";

/// The environment's name for a folder that is there already.
const VARIABLE: &str = "PATCHBAY_TRIXIE";

/// The folder; none when there is none and none can be made, which is said once in a process.
pub(super) fn folder() -> Option<PathBuf> {
    static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        if let Some(folder) = env::var_os(VARIABLE) {
            return Some(folder.into());
        }
        match made() {
            Ok(folder) => Some(folder),
            Err(reason) => {
                say(&format!(
                    "NOT COMPARED with OVS 3.5 and OVN 25.03 of Debian trixie: {reason}"
                ));
                None
            }
        }
    });
    FOLDER.clone()
}

/// Says something where it is seen, although output of tests that pass is not: only the macros' output is captured.
fn say(text: &str) {
    // There is nobody to tell when standard error is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

fn made() -> Result<PathBuf, String> {
    let target = target_folder()?;
    let done = target.join("trixie");
    // Tests of several processes may want it at once.
    let lock = File::create(target.join("trixie.lock")).map_err(|error| format!("{error}"))?;
    lock.lock().map_err(|error| format!("{error}"))?;
    if !done.exists() {
        let partial = target.join("trixie.partial");
        make(&partial)?;
        fs::rename(&partial, &done).map_err(|error| format!("{}: {error}", done.display()))?;
    }
    Ok(done)
}

/// Cargo's target folder, where the test itself lies.
fn target_folder() -> Result<PathBuf, String> {
    let test = env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let target = test
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists());
    let target = target.ok_or_else(|| format!("no target folder around {}", test.display()))?;
    Ok(target.to_owned())
}

fn make(folder: &Path) -> Result<(), String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Err(format!(
            "only root can make a folder of them with debootstrap; {VARIABLE} can name one"
        ));
    }
    say(
        "making a folder with OVS 3.5 and OVN 25.03 of Debian trixie, once; it takes a minute or two",
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
        .map_err(|error| format!("debootstrap cannot be run: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let log = fs::read_to_string(&log).unwrap_or_default();
    let last = log.lines().next_back().unwrap_or("it says nothing");
    Err(format!("debootstrap: {status}: {last}"))
}
