//! Commands with packets of the README of `examples/tenants`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::ovn;

/// Number of runs of a command, one of which has to print what the README shows.
const ATTEMPTS: usize = 3;

/// Commands of a README that run a lab on manifests, each with the lines that the README shows.
fn shown(readme: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks: Vec<&str> = readme.split("\n```").skip(1).step_by(2).collect();
    let pairs = blocks.windows(2).filter_map(|pair| {
        let command = pair[0].strip_prefix("sh\n")?;
        let output = pair[1].strip_prefix("text\n")?.lines().collect();
        let lab = command.lines().find(|line| line.contains("patchbay lab -f "))?;
        Some((lab, output))
    });
    pairs.collect()
}

#[test]
fn packets_do_what_the_readme_of_the_tenants_shows() {
    let Some(ovn) = ovn() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("examples/tenants/README.md")).unwrap();
    let commands = shown(&readme);
    assert!(commands.len() >= 5, "{commands:?}");
    for (command, lines) in commands {
        assert!(!lines.is_empty(), "{command}");
        let line = command.replace("cargo patchbay ", "\"$PATCHBAY\" ");
        let line = line.replace("--ovn ovn-sid", "--ovn \"$OVN\"");
        let is_lost = lines.iter().any(|line| line.contains("lost"));
        let run = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).current_dir(&root).env("OVN", &ovn);
            let run = shell.env("PATCHBAY", env!("CARGO_BIN_EXE_patchbay")).output().unwrap();
            (run.status.code(), String::from_utf8(run.stdout).unwrap())
        };
        let is_shown = |(code, output): &(Option<i32>, String)| {
            let code_is_right = *code == Some(if is_lost { 2 } else { 0 });
            code_is_right && lines.iter().all(|line| output.contains(line))
        };
        let mut last = run();
        for _ in 1..ATTEMPTS {
            if is_shown(&last) {
                break;
            }
            last = run();
        }
        assert!(is_shown(&last), "{command}\n{last:?}");
    }
}
