//! The session that the guide shows, and the README's commands.
//!
//! `PATCHBAY_LAB_RECORD=1` writes the session of the guide again.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use patchbay_ovn_programs::testing::create_script;
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

/// Programs in place of apt-get and dpkg, which "unpack" a release that is there already.
const APT_GET: &str = "#!/bin/sh
case \"$*\" in
    *' install '*) echo 'Inst ovn-central (1 Debian:unstable [amd64])' ;;
    *' download '*) : > ovn-central_1_amd64.deb ;;
esac
";
const DPKG: &str = "#!/bin/sh\nmkdir \"$3\" && ln -s \"$RELEASE/usr\" \"$3/usr\"\n";

#[test]
fn the_commands_of_the_readme_end_with_a_ping() {
    let Some(ovn) = ovn() else { return };
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut blocks = readme.split("```").filter(|block| block.contains("lab fetch"));
    let commands: Vec<&str> = blocks.next().unwrap().lines().skip(1).collect();
    let [clone, fetch, ping] = commands[..] else {
        panic!("{commands:?}");
    };
    assert!(clone.starts_with("git clone ") && clone.ends_with(" && cd patchbay"));
    let folder = tempfile::tempdir().unwrap();
    symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for (name, text) in [("apt-get", APT_GET), ("dpkg", DPKG)] {
        create_script(&bin.join(name), text);
    }
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap());
    let run = |line: &str| {
        let program = "cargo patchbay ";
        assert!(line.contains(program), "{line}");
        let line = line.replace(program, &format!("{} ", env!("CARGO_BIN_EXE_patchbay")));
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(folder.path());
        let run = command.env("PATH", &path).env("RELEASE", &ovn).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        String::from_utf8(run.stdout).unwrap()
    };
    let fetched = run(fetch);
    assert!(fetched.ends_with("use it with: patchbay lab --ovn ovn-sid -f PATH\n"), "{fetched}");
    let answer = run(ping);
    assert!(answer.contains("reached through 3 routers"), "{answer}");
}
