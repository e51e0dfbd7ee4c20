//! Subcommands and flags of the programs, as their help texts list them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// Flags that the documents name and that belong to other programs.
const FOREIGN_FLAGS: [(&str, &str); 7] = [
    ("--enable-network-connect", "OVN-Kubernetes"),
    ("--health-probe-bind-address", "controller-runtime"),
    ("--healthz-bind-address", "OVN-Kubernetes"),
    ("--metrics-bind-address", "controller-runtime"),
    ("--ovsdb-sim-update", "pytest"),
    ("--remote", "ovsdb-server"),
    ("--wait", "ovn-nbctl"),
];

/// Returns `true` for flags of programs that are not of this repository.
pub(crate) fn is_foreign_flag(flag: &str) -> bool {
    FOREIGN_FLAGS.iter().any(|(known, _)| *known == flag)
}

/// A program of this repository.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    flags: BTreeSet<String>,
    subcommands: Vec<Subcommand>,
}

#[derive(Debug)]
struct Subcommand {
    name: String,
    /// Flags of the subcommand and of its own subcommands.
    flags: BTreeSet<String>,
}

impl Program {
    /// The program of this package.
    pub(crate) fn patchbay() -> Self {
        Self::read("patchbay", Path::new(env!("CARGO_BIN_EXE_patchbay")))
    }

    /// The simulator, in the folder of `patchbay`. `cargo test --workspace` builds it; tests of
    /// this package alone build it when it is not there.
    pub(crate) fn ovsdb_sim(root: &Path) -> Self {
        let mut file = PathBuf::from(env!("CARGO_BIN_EXE_patchbay"));
        file.set_file_name("ovsdb-sim");
        if !file.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--workspace", "--bin", "ovsdb-sim"]);
            if !cfg!(debug_assertions) {
                build.arg("--release");
            }
            let status = build.current_dir(root).status();
            assert!(status.expect("cargo runs").success());
        }
        Self::read("ovsdb-sim", &file)
    }

    fn read(name: &'static str, file: &Path) -> Self {
        let help = |arguments: &[&str]| {
            let output = Command::new(file).args(arguments).arg("--help").output();
            String::from_utf8(output.expect("the program runs").stdout).expect("help is text")
        };
        let main = help(&[]);
        let subcommands = names(&main).into_iter().filter(|name| name != "help");
        let program = Self {
            name,
            flags: flags(&main),
            subcommands: subcommands
                .map(|name| {
                    let text = help(&[&name]);
                    let nested = names(&text).into_iter().filter(|name| name != "help");
                    let nested = nested.flat_map(|nested| flags(&help(&[&name, &nested])));
                    Subcommand { flags: flags(&text).into_iter().chain(nested).collect(), name }
                })
                .collect(),
        };
        assert!(program.has_flag("--help"), "{program:?}");
        program
    }

    /// Returns `true` for flags of the program or one of its subcommands.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        let mut subcommands = self.subcommands.iter();
        self.flags.contains(flag) || subcommands.any(|command| command.flags.contains(flag))
    }

    /// Returns what is wrong with a command line; `None`: nothing.
    pub(crate) fn check(&self, arguments: &[String]) -> Option<String> {
        let mut flags = &self.flags;
        let first = arguments.first().filter(|first| !first.starts_with('-'));
        if let Some(first) = first.filter(|_| !self.subcommands.is_empty()) {
            if first == "help" {
                return None;
            }
            let mut subcommands = self.subcommands.iter();
            match subcommands.find(|command| command.name == *first) {
                Some(subcommand) => flags = &subcommand.flags,
                None => return Some(format!("{} has no command {first}", self.name)),
            }
        }
        arguments
            .iter()
            // Behind it is a command of another program.
            .take_while(|word| *word != "--")
            .filter(|word| word.starts_with('-') && word.len() > 1)
            .map(|word| word.split_once('=').map_or(word.as_str(), |(flag, _)| flag))
            .find(|flag| !flags.contains(*flag))
            .map(|flag| format!("there is no flag {flag}"))
    }
}

/// Names in the list of commands.
fn names(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// Flags at the beginnings of lines.
fn flags(help: &str) -> BTreeSet<String> {
    let flag = Regex::new(r"(?m)^ +(?:(-\w), )?(--[\w-]+)|^ +(-\w)\b").expect("a pattern");
    let captures = flag.captures_iter(help);
    captures
        .flat_map(|flag| {
            let all = flag.iter().skip(1).flatten();
            all.map(|flag| flag.as_str().to_owned()).collect::<Vec<_>>()
        })
        .collect()
}
