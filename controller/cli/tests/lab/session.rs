//! The session that the guide shows, and the README's commands.
//!
//! `PATCHBAY_LAB_RECORD=1` writes the session of the guide again.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use super::ovn;

/// Beginning and end of the session in the guide.
const BEGIN: &str = "<!-- session -->\n```text\n";
const END: &str = "```\n<!-- end of the session -->\n";
/// Commands of the session.
const COMMANDS: [&str; 6] = [
    "pods",
    "ping blue-1 green-3",
    "matrix",
    "tcp blue-1 203.0.113.1:443",
    "cut ovn-control-plane ovn-worker",
    "ping blue-1 green-3",
];

/// Number of sessions, one of which has to be the shown one.
const ATTEMPTS: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands on the documents' example with their outputs.
fn record(ovn: &Path) -> String {
    let arguments = COMMANDS.iter().flat_map(|command| ["-c", *command]);
    let run = super::lab(ovn, &[]).args(arguments).output().unwrap();
    String::from_utf8(run.stdout).unwrap()
}

/// The text with one value for all times and UUIDs.
fn without_accidents(text: &str) -> String {
    let uuid = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|uuid [0-9a-f]{8}").unwrap();
    let time = Regex::new(r"[0-9.]+ ms").unwrap();
    let text = uuid.replace_all(text, "UUID");
    time.replace_all(&text, "TIME").into_owned()
}

#[test]
fn the_guide_shows_what_the_lab_prints() {
    let Some(ovn) = ovn() else { return };
    let guide = root().join("docs/lab.md");
    let text = fs::read_to_string(&guide).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    if env::var_os("PATCHBAY_LAB_RECORD").is_some() {
        fs::write(&guide, [before, BEGIN, &record(&ovn), END, after].concat()).unwrap();
        return;
    }
    // A busy machine answers so late that a packet is sent again.
    let shown = without_accidents(shown);
    let mut recorded = String::new();
    for _ in 0..ATTEMPTS {
        recorded = without_accidents(&record(&ovn));
        if recorded == shown {
            return;
        }
    }
    assert_eq!(shown, recorded);
}

#[test]
fn the_commands_of_the_readme_end_with_a_ping() {
    let Some(ovn) = ovn() else { return };
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let program = "cargo run --release --bin patchbay -- ";
    let fetch = format!("{program}lab fetch\n");
    let (_, rest) = readme.split_once(&fetch).unwrap();
    let line = rest.lines().next().unwrap();
    let line = line.replace(program, &format!("{} ", env!("CARGO_BIN_EXE_patchbay")));
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&ovn, folder.path().join("ovn-sid")).unwrap();
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    let run = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && output.contains("reached through 3 routers"),
        "{run:?}"
    );
}
