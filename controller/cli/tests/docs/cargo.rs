//! Packages, targets, features, profiles and aliases of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Subcommands of cargo that the documents may use.
const SUBCOMMANDS: [&str; 11] =
    ["add", "bench", "build", "check", "clippy", "doc", "fmt", "install", "run", "test", "tree"];

/// Flags that name a target. In the text they may stand without `cargo`.
pub(crate) const TARGET_FLAGS: [&str; 4] = ["--bench", "--bin", "--example", "--test"];

/// Profiles that exist without a manifest.
const PROFILES: [&str; 4] = ["bench", "dev", "release", "test"];

/// Names that commands of cargo can have.
#[derive(Debug)]
pub(crate) struct Workspace {
    packages: BTreeMap<String, BTreeSet<String>>,
    /// Kind and name, as in `--bin patchbay`.
    targets: BTreeSet<(String, String)>,
    /// Folders of packages with a program, below the root.
    installable: BTreeSet<String>,
    profiles: BTreeSet<String>,
    aliases: BTreeMap<String, Vec<String>>,
}

/// A program that `cargo run` starts, with its arguments.
pub(crate) type Started = (String, Vec<String>);

impl Workspace {
    pub(crate) fn read(root: &Path) -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root)
            .output()
            .expect("cargo runs")
            .stdout;
        let metadata: Value = serde_json::from_slice(&output).expect("metadata is JSON");
        let (mut packages, mut targets) = (BTreeMap::new(), BTreeSet::new());
        let mut installable = BTreeSet::new();
        for package in elements(&metadata["packages"]) {
            let features = package["features"].as_object().map(|all| all.keys().cloned().collect());
            packages.insert(text(&package["name"]), features.unwrap_or_default());
            let manifest = text(&package["manifest_path"]);
            let folder = Path::new(&manifest).parent().and_then(|it| it.strip_prefix(root).ok());
            for target in elements(&package["targets"]) {
                if elements(&target["kind"]).contains(&"bin".into()) {
                    installable.extend(folder.map(|folder| folder.display().to_string()));
                }
                let kinds = elements(&target["kind"]).iter().map(text);
                targets.extend(kinds.map(|kind| (kind, text(&target["name"]))));
            }
        }
        let lines_of = |file: &str| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let profiles = lines_of("Cargo.toml").into_iter().filter_map(|line| {
            let name = line.strip_prefix("[profile.")?.strip_suffix(']')?;
            Some(name.to_owned())
        });
        let aliases = lines_of(".cargo/config.toml").into_iter().filter_map(|line| {
            let (name, value) = line.split_once(" = \"")?;
            let words = value.trim_end_matches('"').split_whitespace();
            Some((name.to_owned(), words.map(str::to_owned).collect()))
        });
        Self {
            packages,
            targets,
            installable,
            profiles: profiles.chain(PROFILES.map(str::to_owned)).collect(),
            aliases: aliases.collect(),
        }
    }

    /// Checks a command line, and returns the program of the workspace that it starts.
    pub(crate) fn check(&self, arguments: &[String]) -> Result<Option<Started>, String> {
        let (subcommand, rest) = arguments.split_first().ok_or("there is no subcommand")?;
        if let Some(alias) = self.aliases.get(subcommand) {
            return self.check(&[alias, rest].concat());
        }
        if !SUBCOMMANDS.contains(&&**subcommand) {
            return Err(format!("cargo has no command {subcommand}"));
        }
        let mut own = rest.split(|word| word == "--");
        let flags = own.next().unwrap_or_default();
        let mut package = None;
        let mut binary = None;
        for pair in flags.windows(2) {
            let (flag, value) = (&*pair[0], &pair[1]);
            let is_known = match flag {
                _ if is_placeholder(value) => true,
                "-p" | "--package" => {
                    package = self.packages.get(value);
                    package.is_some()
                }
                "--bin" => {
                    binary = Some(value.clone());
                    self.has_target("bin", value)
                }
                flag if TARGET_FLAGS.contains(&flag) => self.has_target(&flag[2..], value),
                "--path" => self.installable.contains(value),
                "--profile" => self.profiles.contains(value),
                "--features" => value.split(',').all(|feature| {
                    let of_any = || self.packages.values().any(|all| all.contains(feature));
                    package.map_or_else(of_any, |all| all.contains(feature))
                }),
                _ => true,
            };
            if !is_known {
                return Err(format!("there is no {flag} {value}"));
            }
        }
        let program_arguments = own.next().unwrap_or_default().to_vec();
        let is_run = subcommand == "run";
        Ok(binary.filter(|_| is_run).map(|binary| (binary, program_arguments)))
    }

    fn has_target(&self, kind: &str, name: &str) -> bool {
        self.targets.contains(&(kind.to_owned(), name.to_owned()))
    }
}

/// Returns `true` for words in capitals, such as `NAME`.
fn is_placeholder(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_uppercase())
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
