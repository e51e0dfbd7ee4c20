//! The programs of Open vSwitch and OVN as clients of two servers. Each command must print the
//! same, and ovn-northd must write the same southbound database for the same northbound database.
//!
//! The commands are in the `*.cmds` files beside this one; see [`session`] for their form. Each
//! list runs with the programs and the ovsdb-server of the installed release and with those of
//! Debian trixie. [`libovsdb`] compares a client in Go, and [`packages`] runs
//! the tests of the packages for Python and Go, both with `scripts/test --all`.

mod libovsdb;
#[path = "../nbctl/normal.rs"]
mod normal;
mod packages;
#[path = "../nbctl/script.rs"]
mod script;
mod server;
mod session;
mod southbound;

use std::path::{Path, PathBuf};
use std::{fs, thread};

use patchbay_ovn_programs::testing::Release;

use script::Step;
use server::Server;
use session::Answer;

/// The folder with the lists.
fn lists() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Reads a list.
fn steps(name: &str) -> Vec<Step> {
    let file = lists().join(format!("{name}.cmds"));
    script::parse(&fs::read_to_string(file).expect("a readable list"))
}

/// Runs a list on both servers at the same time. Reports different output, and commands that do not
/// succeed or fail as the list expects.
fn compare(release: &Release, name: &str, schemas: &[&str]) {
    let steps = steps(name);
    let schemas: Vec<_> = schemas.iter().map(|name| release.schema(name)).collect();
    let [real, sim] = thread::scope(|scope| {
        let starts = [Server::real as fn(&_, &_) -> _, Server::sim];
        let runs = starts.map(|start| {
            let (steps, schemas) = (&steps, &schemas);
            scope.spawn(move || session::run(release, steps, &start(release, schemas)))
        });
        runs.map(|run| run.join().expect("no server fails to start"))
    });
    let mut reports = Vec::new();
    for (step, (real, sim)) in steps.iter().zip(real.iter().zip(&sim)) {
        if real != sim {
            let (real, sim) = differing_lines(&shown(real), &shown(sim));
            reports.push(format!("{name}: {}\n--- real\n{real}--- sim\n{sim}\n", step.text));
        } else if step.fails == (real.code == Some(0)) {
            reports.push(format!("{name}: {}\n{}\n", step.text, shown(real)));
        }
    }
    assert!(reports.is_empty(), "\n{}", reports.concat());
}

fn shown(answer: &Answer) -> String {
    let errors: Vec<_> = answer.stderr.lines().map(|line| format!("stderr: {line}\n")).collect();
    let Answer { stdout, code, .. } = answer;
    format!("{stdout}\n{}exit {code:?}\n", errors.concat())
}

/// The first lines of each text that the other does not have.
fn differing_lines(one: &str, other: &str) -> (String, String) {
    let without = |text: &str, other: &str| {
        let mut rest: Vec<&str> = other.lines().collect();
        let mut lines = Vec::new();
        for line in text.lines() {
            match rest.iter().position(|candidate| *candidate == line) {
                Some(at) => drop(rest.swap_remove(at)),
                None => lines.push(line),
            }
        }
        let shown = lines.len().min(20);
        format!("{}\n({} lines)\n", lines[..shown].join("\n"), lines.len())
    };
    let (left, right) = (without(one, other), without(other, one));
    if left == right {
        // Only the order of the lines differs.
        return (one.to_owned(), other.to_owned());
    }
    (left, right)
}

const OVN: [&str; 2] = ["ovn-nb", "ovn-sb"];

macro_rules! lists {
    ($($name:ident: $schemas:expr),* $(,)?) => {
        mod installed {
            use super::*;
            $(
                #[test]
                fn $name() {
                    compare(&Release::installed(), stringify!($name), &$schemas);
                }
            )*
        }

        mod trixie {
            use super::*;
            $(
                #[test]
                fn $name() {
                    if let Some(release) = Release::trixie() {
                        compare(&release, stringify!($name), &$schemas);
                    }
                }
            )*
        }
    };
}

lists! {
    northd: OVN,
    ovsdb_client: OVN,
    sbctl: OVN,
}

/// With programs in a package that the other tests do not need.
#[test]
fn vsctl() {
    if let Some(release) = Release::trixie() {
        compare(&release, "vsctl", &["vswitch"]);
    }
}

/// With the installed release only: the library is packaged for the system's Python.
#[test]
fn python_idl() {
    compare(&Release::installed(), "python_idl", &["ovn-nb"]);
}

#[test]
fn differing_lines_are_found() {
    let (left, right) = differing_lines("a\nb\nb\n", "b\nc\n");
    assert_eq!(left, "a\nb\n(2 lines)\n");
    assert_eq!(right, "c\n(1 lines)\n");
    assert_eq!(differing_lines("a\nb\n", "b\na\n").0, "a\nb\n");
}
