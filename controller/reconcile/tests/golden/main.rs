//! Scenarios recorded from OVN-Kubernetes, replayed step by step and compared.
//!
//! All `*.json` files of a folder are replayed: of `PATCHBAY_GOLDEN_DIR`, or of `cnc` (connects),
//! `udn`, `udn_further`, `udn_cluster` and `udn_full` (networks: zone controller, cluster manager,
//! both) beside this file. The zone controller of networks has connects, too. There is no list of
//! exceptions. A scenario with a `quirk` records an oddity, as do those of [`QUIRKS`]. Each names
//! the rule by which Patchbay differs, and a snapshot has the resulting rows.

mod cluster;
mod quirks;
mod report;
mod rows;
mod scenario;
mod udn;
mod udn_cluster;
mod udn_full;
mod unnamed;
mod zone;

use std::path::{Path, PathBuf};

use quirks::{Purpose, QUIRKS};
use report::{ScenarioResult, Table};
use scenario::{Half, Pace, Scenario};

#[test]
fn scenarios_end_as_recorded() {
    play("cnc", "", |half| !half.is_of_networks());
}

#[test]
fn networks_end_as_recorded() {
    play("udn", "udn_", |half| half == Half::UdnZone);
}

/// Another folder that the environment names is played once, by the test before.
#[test]
fn further_networks_end_as_recorded() {
    if std::env::var_os("PATCHBAY_GOLDEN_DIR").is_none() {
        play("udn_further", "udn_further_", |half| half == Half::UdnZone);
    }
}

#[test]
fn managed_networks_end_as_recorded() {
    play("udn_cluster", "udn_cluster_", |half| half == Half::UdnCluster);
}

#[test]
fn networks_of_both_halves_end_as_recorded() {
    play("udn_full", "udn_full_", |half| half == Half::UdnFull);
}

#[test]
fn interrupted_scenarios_end_as_recorded() {
    interrupt("cnc", Half::Zone, &[]);
}

/// The port to a pod or a node elsewhere keeps the chassis that a running controller has given to
/// it. A new controller gives it that of the node. A running one also remembers that advertising
/// has changed, subnets of advertised networks that have gone, and the last address that it gave to
/// a pod.
#[test]
fn interrupted_networks_end_as_recorded() {
    let remembered =
        ["advertised-at-start-l2", "advertised-at-start-l3", "l2-primary-remote-node-changes"];
    interrupt("udn", Half::UdnZone, &remembered);
    let remembered = [
        "advertised-l3-dual-lgw",
        "advertised-network-gone",
        "l2-evpn-v4",
        "l3-evpn-dual",
        "l3-no-overlay-dual",
        "l3-no-overlay-lgw",
        "l3-nodes-change",
        "l3-pods-complete-v4",
        "l3-pods-made-again-dual",
    ];
    interrupt("udn_further", Half::UdnZone, &remembered);
}

/// Plays the scenarios of a folder with controllers that see one op at a time and are replaced
/// after each transaction. The `remembered` ones end otherwise then, and only they.
fn interrupt(own: &str, half: Half, remembered: &[&str]) {
    let mut played = 0;
    let mut differing = Vec::new();
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(own)) {
        let scenario = Scenario::read(&path).expect("the project's scenarios can be read");
        let is_odd =
            scenario.quirk.is_some() || QUIRKS.iter().any(|one| one.scenario == scenario.name);
        if scenario.half != half || is_odd {
            continue;
        }
        played += 1;
        let result = run(scenario, Pace::Interrupted);
        if !result.passed() {
            differing.push(result.name);
        }
    }
    assert!(played > 0);
    assert_eq!(differing, remembered);
}

/// Plays the scenarios of a folder beside this file, or of the one that the environment names, if
/// they are of these controllers.
fn play(own: &str, snapshots: &str, is_played: impl Fn(Half) -> bool) {
    let (directory, is_own) = directory(own);
    let purposes: Vec<Purpose> =
        QUIRKS.iter().filter(|purpose| purpose.folder == own).copied().collect();
    let is_odd = |result: &ScenarioResult| {
        let mut purposes = purposes.iter();
        result.quirk.is_some() || purposes.any(|purpose| purpose.scenario == result.name)
    };
    let mut table = Table::default();
    let mut quirks = Table::default();
    for path in files(&directory) {
        let scenario = Scenario::read(&path);
        if scenario.as_ref().is_ok_and(|one| !is_played(one.half)) {
            continue;
        }
        let result = match scenario {
            Ok(scenario) => run(scenario, Pace::Steady),
            Err(error) => ScenarioResult::unreadable(&path, error),
        };
        if is_odd(&result) {
            quirks.add(result);
        } else {
            table.add(result);
        }
    }
    let (table_text, quirks_text) =
        (table.render("scenarios", &[]), quirks.render("scenarios with a quirk", &purposes));
    println!("{table_text}\n{quirks_text}");
    assert!(!is_own || table.len() + quirks.len() > 0, "no scenarios in {}", directory.display());
    let mut complaints = table.complaints(&[]);
    complaints.extend(quirks.complaints(&purposes));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    if is_own {
        insta::assert_snapshot!(format!("{snapshots}scenarios"), table_text);
        insta::assert_snapshot!(format!("{snapshots}quirks"), quirks_text);
    }
}

#[test]
fn every_purpose_has_a_scenario_and_a_test() {
    for purpose in QUIRKS {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let scenario = format!("tests/golden/{}/{}.json", purpose.folder, purpose.scenario);
        for file in [scenario.as_str(), purpose.test] {
            assert!(root.join(file).is_file(), "{file}");
        }
    }
}

/// Plays one scenario.
fn run(scenario: Scenario, pace: Pace) -> ScenarioResult {
    let steps = match scenario.half {
        Half::Cluster => cluster::run(&scenario),
        Half::Zone => zone::run(&scenario, pace),
        Half::UdnZone => udn::run(&scenario, pace),
        Half::UdnCluster => udn_cluster::run(&scenario),
        Half::UdnFull => udn_full::run(&scenario),
    };
    ScenarioResult { name: scenario.name, quirk: scenario.quirk, steps }
}

/// Folder of the scenarios, and `true` if they are those of this project.
fn directory(own: &str) -> (PathBuf, bool) {
    std::env::var_os("PATCHBAY_GOLDEN_DIR").map_or_else(
        || {
            let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
            (golden.join(own), true)
        },
        |directory| (directory.into(), false),
    )
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("entries of the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}
