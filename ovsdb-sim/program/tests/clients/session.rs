//! Run of a list on one server.
//!
//! Lines are as in the lists for `ovn-nbctl`, but begin with the name of a program. Programs with
//! an option for the server get it. `$db` is the server's address, `$dir` a folder for files,
//! `$lists` the folder of the lists. With a last word `<NAME`, the value of `NAME` is the program's
//! input. There are also:
//!
//! | line | action |
//! |---|---|
//! | `start NAME PROGRAM...` | starts a program in the background |
//! | `until NAME TEXT` | waits until the program's output has the text |
//! | `end NAME` | ends the program; its output is compared |
//! | `keep NAME PROGRAM...` | runs a program; its output is the value of `NAME`, and is not compared |
//! | `southbound` | waits for ovn-northd; the content of both databases is compared |

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{Release, signal};

use crate::lists;
use crate::normal::Names;
use crate::script::Step;
use crate::server::Server;
use crate::southbound;

/// Timeout of a step: far more than it needs, even on a loaded machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Normalized output of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None`: a signal ended the program.
    pub(crate) code: Option<i32>,
}

impl Answer {
    fn done(stdout: String) -> Self {
        Self { stdout, code: Some(0), ..Self::default() }
    }
}

/// Runs the steps one after the other.
pub(crate) fn run(release: &Release, steps: &[Step], server: &Server) -> Vec<Answer> {
    let mut session = Session {
        release,
        server,
        names: Names::default(),
        variables: HashMap::new(),
        running: HashMap::new(),
    };
    steps.iter().map(|step| session.step(step)).collect()
}

struct Session<'a> {
    release: &'a Release,
    server: &'a Server,
    names: Names,
    variables: HashMap<String, String>,
    running: HashMap<String, Running>,
}

/// Program in the background.
struct Running {
    child: Child,
    /// File with its output.
    output: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session<'_> {
    fn step(&mut self, step: &Step) -> Answer {
        let words: Vec<_> = step.words.iter().map(|word| self.filled(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["start", name, program, ref arguments @ ..] => {
                let output = self.server.folder().join(format!("{name}.out"));
                let file = File::create(&output).expect("a file in a fresh folder");
                let errors = file.try_clone().expect("a file can be shared");
                let mut command = self.command(program, arguments);
                let child = command
                    .stdin(Stdio::null())
                    .stdout(file)
                    .stderr(errors)
                    .spawn()
                    .expect("an installed program starts");
                let running = Running { child, output };
                self.running.insert(name.to_owned(), running);
                Answer::done(String::new())
            }
            ["until", name, text] => {
                let output = &self.running[name].output;
                let deadline = Instant::now() + STEP_TIMEOUT;
                loop {
                    let printed = fs::read_to_string(output).unwrap_or_default();
                    if printed.contains(text) {
                        return Answer::done(String::new());
                    }
                    if Instant::now() > deadline {
                        return Answer::done(format!("{text} did not come:\n{printed}"));
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            }
            ["end", name] => {
                let mut running = self.running.remove(name).expect("a program that runs");
                signal(&running.child, "TERM");
                running.child.wait().expect("a child can be waited for");
                let printed = fs::read_to_string(&running.output).expect("its output");
                Answer::done(self.comparable(&printed, step.unordered))
            }
            ["southbound"] => {
                let synced = self.output("ovn-nbctl", &["--wait=sb", "sync"], None);
                Answer {
                    stdout: southbound::content(self.server.socket()),
                    stderr: String::from_utf8_lossy(&synced.stderr).into_owned(),
                    code: synced.status.code(),
                }
            }
            ["keep", name, program, ref arguments @ ..] => {
                let output = self.output(program, arguments, None);
                let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
                self.variables.insert(name.to_owned(), stdout);
                Answer {
                    stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                    code: output.status.code(),
                    ..Answer::default()
                }
            }
            [program, ref arguments @ ..] => {
                let (arguments, input) = match arguments.split_last() {
                    Some((last, rest)) if last.starts_with('<') => (rest, last.get(1..)),
                    _ => (arguments, None),
                };
                let input = input.map(|name| self.variables[name].clone());
                let output = self.output(program, arguments, input);
                let stdout = String::from_utf8_lossy(&output.stdout);
                let stderr = String::from_utf8_lossy(&output.stderr);
                if let Some(variable) = &step.variable {
                    self.variables.insert(variable.clone(), stdout.to_string());
                }
                Answer {
                    stdout: self.comparable(&stdout, step.unordered),
                    stderr: self.comparable(&stderr, false),
                    code: output.status.code(),
                }
            }
            [] => Answer::default(),
        }
    }

    /// A word with the values of variables.
    fn filled(&self, word: &str) -> String {
        let schema = self.release.schema("ovn-nb");
        let word = word
            .replace("$lists", &lists().display().to_string())
            .replace("$nbschema", &schema.display().to_string())
            .replace("$db", &self.server.remote())
            .replace("$dir", &self.server.folder().display().to_string());
        let variables = self.variables.iter();
        variables.fold(word, |word, (name, value)| word.replace(&format!("${name}"), value.trim()))
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = match program {
            // The system's Python, for which python3-openvswitch is packaged.
            "python3" => Command::new("/usr/bin/python3"),
            _ => self.release.command(program),
        };
        for variable in ["OVN_NB_DB", "OVN_SB_DB", "OVN_NB_DAEMON", "OVN_SB_DAEMON"] {
            command.env_remove(variable);
        }
        let remote = self.server.remote();
        let seconds = STEP_TIMEOUT.as_secs();
        match program {
            "ovn-nbctl" if arguments.first() == Some(&"-u") => &mut command,
            "ovn-nbctl" | "ovn-sbctl" | "ovs-vsctl" => {
                command.arg(format!("--db={remote}")).arg(format!("--timeout={seconds}"))
            }
            "ovn-northd" => command
                .arg(format!("--ovnnb-db={remote}"))
                .arg(format!("--ovnsb-db={remote}"))
                .arg(format!("--unixctl={}/northd.ctl", self.server.folder().display()))
                .arg("-vconsole:off"),
            _ => &mut command,
        };
        command.args(arguments).current_dir(self.server.folder());
        command
    }

    fn output(&self, program: &str, arguments: &[&str], input: Option<String>) -> Output {
        let mut command = self.command(program, arguments);
        let stdin = match input {
            None => Stdio::null(),
            Some(text) => {
                let path = self.server.folder().join("input");
                fs::write(&path, text).expect("a file in a fresh folder");
                File::open(&path).expect("a file just written").into()
            }
        };
        let output = command.stdin(stdin).output();
        output.expect("an installed program starts")
    }

    /// Removes the parts of a text that differ from run to run.
    fn comparable(&mut self, text: &str, unordered: bool) -> String {
        let folder = self.server.folder().display().to_string();
        let text = text.replace(&self.server.remote(), "<remote>");
        let text = without_times(&text.replace(&folder, "<folder>"));
        self.names.normalise(&southbound::without_flow_ids(&text), unordered)
    }
}

/// Removes the time from log lines, `TIME|NUMBER|MODULE|LEVEL|TEXT`.
fn without_times(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.split_once("Z|") {
            Some((time, rest)) if time.starts_with("20") => rest,
            _ => line,
        })
        .collect()
}
