//! `patchbay apply --watch`: files are applied as they are saved.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::command::{example_text, patchbay, run_on};

/// A watching command, and what it prints.
struct Watching {
    child: Child,
    stdout: BufReader<Box<dyn Read>>,
    stderr: BufReader<Box<dyn Read>>,
}

impl Watching {
    fn start(path: &Path) -> Self {
        let mut child = patchbay()
            .args(["apply", "--watch", "-o", "json", "--zone", "ovn-worker2"])
            .arg("-f")
            .arg(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout: Box<dyn Read> = Box::new(child.stdout.take().unwrap());
        let stderr: Box<dyn Read> = Box::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout: BufReader::new(stdout),
            stderr: BufReader::new(stderr),
        }
    }

    /// The next document, which ends with a brace at the start of a line.
    fn document(&mut self) -> serde_json::Value {
        let mut text = String::new();
        while !text.ends_with("\n}\n") {
            assert_ne!(self.stdout.read_line(&mut text).unwrap(), 0, "{text}");
        }
        serde_json::from_str(&text).unwrap()
    }

    fn error(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    fn stop(mut self) {
        ovsdb_sim::testing::signal(&self.child, "TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn ports(document: &serde_json::Value) -> usize {
    let ports = &document["zones"][0]["connects"][0]["router"]["ports"];
    ports.as_array().unwrap().len()
}

#[test]
fn what_is_saved_is_applied_and_mistakes_leave_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, example_text()).unwrap();
    let mut watching = Watching::start(folder.path());
    let first = watching.document();
    assert_eq!(ports(&first), 6);

    fs::write(&file, "a: [").unwrap();
    let error = watching.error();
    assert!(
        error.starts_with("error: ") && error.contains("all.yaml"),
        "{error}"
    );
    assert_eq!(
        watching.error(),
        "what was applied stays; waiting for the files to change\n"
    );

    // A node more, and first among the nodes: the others keep their ids, and only its rows are new.
    let more = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: new}}\n---\n{}",
        example_text()
    );
    let other = folder.path().join("other.tmp");
    fs::write(&other, more).unwrap();
    fs::rename(&other, &file).unwrap();
    let second = watching.document();
    assert_eq!(ports(&second), 8);
    let connect = &second["zones"][0]["connects"][0];
    assert_eq!(connect["inserted"], 4, "{connect}");
    assert_eq!(connect["deleted"], 0);
    let annotations =
        |document: &serde_json::Value| document["connects"][0]["metadata"]["annotations"].clone();
    assert_eq!(annotations(&second), annotations(&first));
    watching.stop();
}

#[test]
fn standard_input_cannot_be_watched() {
    let run = run_on("apply --watch", "");
    assert_eq!(run.code, Some(1));
    assert_eq!(
        run.stderr,
        "error: --watch is for files and folders: standard input does not change\n"
    );
}
