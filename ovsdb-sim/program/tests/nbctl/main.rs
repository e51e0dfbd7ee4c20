//! The real `ovn-nbctl` as a client of two servers: each command must print the same.
//!
//! The commands are in the `*.cmds` files beside this one, one theme each; see [`script`] for their
//! form.

mod normal;
mod script;
mod session;
mod sim;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{fs, thread};

use patchbay_ovn_programs::testing::{RealServer, installed_nb_schema};

use script::Step;
use session::Answer;
use sim::SimServer;

/// List of commands that begins with an empty database.
struct Theme {
    name: String,
    steps: Vec<Step>,
}

fn themes() -> Vec<Theme> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nbctl");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of this test")
        .map(|entry| entry.expect("an entry of it").path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "cmds"))
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| Theme {
            name: file.file_stem().expect("a file has a name").to_string_lossy().into_owned(),
            steps: script::parse(&fs::read_to_string(file).expect("a readable list")),
        })
        .collect()
}

/// Describes the commands with different output on two servers.
fn differences(theme: &Theme, left: &[Answer], right: &[Answer]) -> String {
    let answers = theme.steps.iter().zip(left.iter().zip(right));
    answers
        .filter(|(_, (left, right))| left != right)
        .map(|(step, (left, right))| {
            let (left, right) = (shown(left), shown(right));
            format!("{}: {}\n--- one\n{left}--- other\n{right}\n", theme.name, step.text)
        })
        .collect::<Vec<_>>()
        .concat()
}

fn shown(answer: &Answer) -> String {
    let Answer { stdout, stderr, code } = answer;
    let errors: Vec<_> = stderr.lines().map(|line| format!("stderr: {line}\n")).collect();
    format!("{stdout}{}exit {code:?}\n", errors.concat())
}

fn on_real(theme: &Theme, schema: &Path) -> Vec<Answer> {
    let server = RealServer::start([schema]);
    session::run(&theme.steps, &server.remote())
}

fn on_sim(theme: &Theme, schema: &Path) -> Vec<Answer> {
    let server = SimServer::start(schema);
    session::run(&theme.steps, &server.remote())
}

/// The output on the real server by theme. The tests of this file share one run.
fn expected() -> &'static [(Theme, Vec<Answer>)] {
    static EXPECTED: LazyLock<Vec<(Theme, Vec<Answer>)>> = LazyLock::new(|| {
        let themes = themes();
        let answers = in_parallel(&themes, |theme| on_real(theme, &installed_nb_schema()));
        themes.into_iter().zip(answers).collect()
    });
    &EXPECTED
}

/// Runs `work` on every item, each in its own thread.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no server fails to start")).collect()
    })
}

#[test]
fn the_normalisation_is_deterministic() {
    let reports = in_parallel(expected(), |(theme, answers)| {
        differences(theme, answers, &on_real(theme, &installed_nb_schema()))
    })
    .concat();
    assert!(reports.is_empty(), "\n{reports}");
}

#[test]
fn the_output_is_the_same_as_with_ovsdb_server() {
    let reports = in_parallel(expected(), |(theme, answers)| {
        differences(theme, answers, &on_sim(theme, &installed_nb_schema()))
    })
    .concat();
    assert!(reports.is_empty(), "\n{reports}");
}

#[test]
fn the_output_is_the_same_with_the_newest_schema() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/ovn-nb.ovsschema");
    let reports = in_parallel(&themes(), |theme| {
        differences(theme, &on_real(theme, &schema), &on_sim(theme, &schema))
    })
    .concat();
    assert!(reports.is_empty(), "\n{reports}");
}

#[test]
fn every_difference_is_reported() {
    let theme = Theme { name: "theme".to_owned(), steps: script::parse("show\ninit") };
    let answer = |stdout: &str, stderr: &str, code| Answer {
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        code: Some(code),
    };
    let same = [answer("a\n", "", 0), answer("", "b\n", 1)];
    assert_eq!(differences(&theme, &same, &same), "");
    for other in [answer("", "", 1), answer("", "b\n", 0), answer("c\n", "b\n", 1)] {
        let report = differences(&theme, &same, &[answer("a\n", "", 0), other]);
        assert!(report.starts_with("theme: init\n"), "{report}");
    }
}

#[test]
fn every_command_succeeds_or_fails_as_its_list_expects() {
    let mut reports = Vec::new();
    for (theme, answers) in expected() {
        for (step, answer) in theme.steps.iter().zip(answers) {
            if step.fails == (answer.code == Some(0)) {
                reports.push(format!("{}: {}\n{}", theme.name, step.text, shown(answer)));
            }
        }
    }
    assert!(reports.is_empty(), "\n{}", reports.join("\n"));
}

#[test]
fn the_lists_have_enough_commands() {
    let commands: usize = themes().iter().map(|theme| theme.steps.len()).sum();
    assert!(commands >= 250, "{commands} commands");
}
