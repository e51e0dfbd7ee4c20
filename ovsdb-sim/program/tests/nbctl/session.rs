//! Run of a command list on one server.

use std::collections::HashMap;

use patchbay_ovn_programs::testing::nbctl;

use crate::normal::Names;
use crate::script::Step;

/// Normalized output of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None`: a signal ended the program.
    pub(crate) code: Option<i32>,
}

/// Runs the commands one after the other.
pub(crate) fn run(steps: &[Step], remote: &str) -> Vec<Answer> {
    let mut names = Names::default();
    let mut variables = HashMap::new();
    steps
        .iter()
        .map(|step| {
            let words = step.words.iter().map(|word| substitute(word, &variables));
            let output = nbctl(remote).args(words).output().expect("an installed program starts");
            let stdout = String::from_utf8_lossy(&output.stdout);
            let stderr = String::from_utf8_lossy(&output.stderr).replace(remote, "<remote>");
            if let Some(variable) = &step.variable {
                variables.insert(variable.clone(), stdout.trim().to_owned());
            }
            Answer {
                stdout: names.normalise(&stdout, step.unordered),
                stderr: names.normalise(&without_times(&stderr), false),
                code: output.status.code(),
            }
        })
        .collect()
}

fn substitute(word: &str, variables: &HashMap<String, String>) -> String {
    variables
        .iter()
        .fold(word.to_owned(), |word, (name, value)| word.replace(&format!("${name}"), value))
}

/// Removes the time from log lines, `TIME|NUMBER|MODULE|LEVEL|TEXT`.
fn without_times(stderr: &str) -> String {
    stderr
        .split_inclusive('\n')
        .map(|line| match line.split_once("Z|") {
            Some((time, rest)) if time.starts_with("20") => rest,
            _ => line,
        })
        .collect()
}
