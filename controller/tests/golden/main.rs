//! Recorded scenarios: what another implementation left behind, step by step, and what we leave behind.
//!
//! All `*.json` files of a folder are run: of `PATCHBAY_GOLDEN_DIR`, or of `cnc` beside this file. A scenario with a
//! `quirk` records an oddity; such scenarios are reported in a table of their own and decide nothing, except for those
//! that are listed as ours to match.
//!
//! Scenarios that do not pass are listed in `not-yet.txt`, each with the reason. One that passes must not be listed.

mod cluster;
mod report;
mod scenario;
mod zone;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use report::{ScenarioResult, Table};
use scenario::{Half, Scenario};

/// Scenarios with a quirk that we show, too.
const QUIRKS_TO_MATCH: &[&str] = &[];

#[test]
fn scenarios_end_as_recorded() {
    let directory = directory();
    let not_yet = not_yet();
    let mut table = Table::default();
    let mut quirks = Table::default();
    for path in files(&directory) {
        let result = run(&path);
        let decides = result.quirk.is_none() || QUIRKS_TO_MATCH.contains(&result.name.as_str());
        if decides {
            table.add(result);
        } else {
            quirks.add(result);
        }
    }
    println!("{}", table.render("scenarios", Some(&not_yet)));
    println!("{}", quirks.render("scenarios with a quirk", None));

    assert!(
        table.len() + quirks.len() > 0,
        "no scenarios in {}",
        directory.display()
    );
    let complaints = table.complaints(&not_yet);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Reads and plays one scenario.
fn run(path: &Path) -> ScenarioResult {
    let scenario = match Scenario::read(path) {
        Ok(scenario) => scenario,
        Err(error) => return ScenarioResult::unreadable(path, error),
    };
    let steps = match scenario.half {
        Half::Cluster => cluster::run(&scenario),
        Half::Zone => zone::run(&scenario),
    };
    ScenarioResult {
        name: scenario.name,
        quirk: scenario.quirk,
        steps,
    }
}

fn directory() -> PathBuf {
    std::env::var_os("PATCHBAY_GOLDEN_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cnc"),
        PathBuf::from,
    )
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("entries of the folder can be read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    files
}

/// The scenarios that do not pass, with reasons: lines of `<name>: <reason>`, and comments.
fn not_yet() -> BTreeMap<String, String> {
    include_str!("not-yet.txt")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("not-yet.txt: no reason in {line:?}"));
            (name.to_owned(), reason.trim().to_owned())
        })
        .collect()
}
