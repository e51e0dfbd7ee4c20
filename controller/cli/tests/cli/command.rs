//! Runs the command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The example that comes with the project.
pub(crate) fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blue-green")
}

/// The Northbound schema that Patchbay is made for. Older ones lack features that `apply` warns of.
pub(crate) fn nb_schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/ovn-nb.ovsschema")
}

pub(crate) fn patchbay() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    command.env_remove("RUST_LOG");
    command
}

/// Exit status and output of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Standard error without the lines about the ages of sources.
    pub(crate) stderr: String,
    /// Lines about the ages of sources.
    pub(crate) ages: Vec<String>,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        let (ages, rest): (Vec<&str>, Vec<&str>) =
            stderr.split_inclusive('\n').partition(|line| is_age(line));
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: rest.concat(),
            ages: ages.into_iter().map(|line| line.trim_end().to_owned()).collect(),
        }
    }
}

/// `true` for a line about the age of a source.
fn is_age(line: &str) -> bool {
    line.ends_with(" UTC)\n") && line.contains(" old (") || line.ends_with(", of an unknown time\n")
}

impl Run {
    /// The standard output of a run that went well and had nothing to complain about.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }
}

/// Runs `patchbay` with arguments that are separated by spaces, and with files after `-f`.
pub(crate) fn run(arguments: &str, files: &[&Path]) -> Run {
    let mut command = patchbay();
    command.args(arguments.split_whitespace());
    for file in files {
        command.arg("-f").arg(file);
    }
    command.output().unwrap().into()
}

/// Runs `patchbay` on manifests from standard input.
pub(crate) fn run_on(arguments: &str, manifests: &str) -> Run {
    let mut child = patchbay()
        .args(arguments.split_whitespace())
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(manifests.as_bytes()).unwrap();
    drop(stdin);
    patchbay_ovn_programs::testing::output_of(child).into()
}

/// The output of `plan` behind its first line, which has the IP families.
#[track_caller]
pub(crate) fn planned_zones(output: &str) -> &str {
    let (first, zones) = output.split_once('\n').unwrap();
    assert!(first.starts_with("# IP families: IPv"), "{first}");
    zones
}

/// The output of `apply` before its last lines, which have the time that it took.
pub(crate) fn without_summary(output: &str) -> &str {
    let (rows, summary) = output.rsplit_once("\n\n").unwrap();
    assert!(summary.contains(" deleted on "), "{summary}");
    rows
}

/// All manifests of the example as one text.
pub(crate) fn example_text() -> String {
    ["1-cluster.yaml", "2-networks.yaml", "3-connect.yaml"]
        .map(|file| std::fs::read_to_string(example().join(file)).unwrap())
        .join("---\n")
}

/// Text printed for one `ovn-nbctl` command.
pub(crate) fn section<'a>(stdout: &'a str, arguments: &str) -> &'a str {
    let head = format!("$ ovn-nbctl {arguments}\n");
    let (_, rest) =
        stdout.split_once(&head).unwrap_or_else(|| panic!("no {arguments:?} in\n{stdout}"));
    rest.split_once("\n\n").map_or(rest, |(section, _)| {
        // The blank line belongs to what follows.
        &rest[..=section.len()]
    })
}

/// The lines in alphabetical order, UUIDs left out: what does not depend on UUIDs.
pub(crate) fn without_uuids(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| {
            let words = line.split(' ').map(|word| {
                let is_uuid = uuid::Uuid::try_parse(word).is_ok();
                if is_uuid { "<uuid>" } else { word }
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines
}
