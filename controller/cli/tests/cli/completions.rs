//! Names of a source in completions of shells.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use ovsdb_sim::Sim;
use patchbay_schemas::nb::LogicalSwitch;

use crate::collected::Collected;
use crate::command::{Run, patchbay};

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

/// Names that follow a word on a command line.
fn names(folder: &Path, previous: &str, line: &str) -> Vec<String> {
    let mut command = patchbay();
    command.current_dir(folder).args(["complete-names", previous, line]);
    let run: Run = command.output().unwrap().into();
    run.succeeded().lines().map(str::to_owned).collect()
}

#[test]
fn names_are_those_of_the_source_on_the_line() {
    let collected = Collected::of(&shop());
    let folder = collected.folder.path();
    let pods = ["partner/client", "shop/db", "shop/web"];
    let archive = "patchbay reach --must-gather must-gather --from ";
    let found = names(folder, "--from", archive);
    assert!(pods.iter().all(|pod| found.contains(&(*pod).to_owned())), "{found:?}");
    assert_eq!(names(folder, "--zone", archive), ["node-1", "node-2"]);
    let manifests = format!("patchbay explain -f {} --zone ", shop().display());
    assert_eq!(names(folder, "--zone", &manifests), ["node-1", "node-2"]);
    assert_eq!(names(folder, "pod", &manifests), pods);
    assert_eq!(names(folder, "cudn", &manifests), ["partner", "shop"]);
    let to = names(folder, "--to", &manifests);
    assert!(to.contains(&"service/shop/web".to_owned()), "{to:?}");
    let database = collected.database("node-1");
    let file = format!("patchbay acls '--file={}' --switch ", database.display());
    assert!(names(folder, "--switch", &file).iter().any(|name| name.contains("shop")));
    // Other words, and sources that cannot be read.
    assert!(names(folder, "--proto", archive).is_empty());
    assert!(names(folder, "--from", "patchbay reach --file missing.db --from ").is_empty());
    assert!(names(folder, "--from", "patchbay reach --at nonsense --from ").is_empty());
    assert!(names(folder, "--from", "").is_empty());
}

#[test]
fn a_server_that_does_not_answer_leaves_the_shell_alone() {
    let folder = tempfile::tempdir().unwrap();
    // It accepts connections, and sends no reply.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("patchbay ports --nb tcp:{} --switch ", listener.local_addr().unwrap());
    assert!(names(folder.path(), "--switch", &line).is_empty());
}

/// Completions that bash offers for a line.
fn in_bash(folder: &Path, words: &[&str]) -> Vec<String> {
    let script = patchbay().args(["completions", "bash"]).output().unwrap().stdout;
    fs::write(folder.join("completions.bash"), script).unwrap();
    let program = env!("CARGO_BIN_EXE_patchbay");
    let mut quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    program.clone_into(&mut quoted[0]);
    let last = words.len() - 1;
    let script = format!(
        "source completions.bash\nCOMP_WORDS=({})\nCOMP_CWORD={last}\nCOMP_LINE='{}'\n\
         _patchbay_names {program} '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted.join(" "),
        words.join(" "),
        words[last],
        words[last - 1],
    );
    let output = Command::new("bash").current_dir(folder).args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_offers_names_and_obeys_none() {
    let folder = tempfile::tempdir().unwrap();
    let sim = Sim::builder().journal(folder.path().join("nb.db")).build().unwrap();
    let northbound = sim.database("OVN_Northbound").unwrap();
    let mut txn = northbound.txn();
    for name in ["blue", "black", "$(touch obeyed)", "bl`touch obeyed`", "bl\u{1b}[31m", "-rf"] {
        let switch = LogicalSwitch { name: name.to_owned(), ..LogicalSwitch::default() };
        txn.insert(&switch).unwrap();
    }
    northbound.transact(&txn.finish()).unwrap();
    drop(sim);
    let line = ["patchbay", "ports", "--file", "nb.db", "--switch"];
    let all = in_bash(folder.path(), &[&line[..], &[""]].concat());
    assert_eq!(all, ["black", "blue"]);
    assert_eq!(in_bash(folder.path(), &[&line[..], &["blu"]].concat()), ["blue"]);
    assert!(!folder.path().join("obeyed").exists());
    // Flags are completed as before.
    let flags = in_bash(folder.path(), &["patchbay", "ports", "--switc"]);
    assert_eq!(flags, ["--switch"]);
}
