//! Random questions, answered by `reach` and by ovn-northd with ovn-trace: numbers and differences.
//!
//! `PATCHBAY_REACH_QUESTIONS` is the number of questions of each kind, or of tenants with VPCs.
//! `PATCHBAY_REACH_SEED` is the seed, which is the time without it. `PATCHBAY_REACH_KIND` leaves one
//! kind. With `PATCHBAY_GOLDEN_DIR` the questions are about the recordings in that folder only.

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use patchbay_oracle::{
    Random, RecordedState, Tally, ask_clouds, ask_clusters, ask_free_topologies, ask_recorded,
    ask_vpcs,
};
use patchbay_ovn_programs::testing::Release;

/// Number of questions of each kind.
const QUESTIONS: usize = 10_000;
/// Environment variable with another number.
const QUESTIONS_VARIABLE: &str = "PATCHBAY_REACH_QUESTIONS";
/// Environment variable with the seed.
const SEED_VARIABLE: &str = "PATCHBAY_REACH_SEED";
/// Environment variable with the kind of questions, if it is to be one only.
const KIND_VARIABLE: &str = "PATCHBAY_REACH_KIND";
/// Environment variable with a folder of recordings, which are the only kind then.
const RECORDINGS_VARIABLE: &str = "PATCHBAY_GOLDEN_DIR";

fn main() -> ExitCode {
    // `cargo test --benches` only checks that the program starts.
    if !env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let Some(release) = Release::newest() else {
        return ExitCode::FAILURE;
    };
    let number = |variable: &str| env::var(variable).ok().and_then(|text| text.parse().ok());
    let wanted = number(QUESTIONS_VARIABLE).map_or(QUESTIONS, |number: u64| number as usize);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = number(SEED_VARIABLE).unwrap_or(now.map_or(1, |time| time.as_secs()));
    println!("{SEED_VARIABLE}={seed}");
    let recordings = |kind: &str, folder: &Path| {
        let states = RecordedState::read_folder(folder);
        report(kind, || ask_recorded(&release, &states, wanted, &mut Random::new(seed)))
    };
    if let Some(folder) = env::var_os(RECORDINGS_VARIABLE) {
        let is_same = recordings("recordings", Path::new(&folder));
        return ExitCode::from(u8::from(!is_same));
    }
    let only = env::var(KIND_VARIABLE).ok();
    let is_wanted = |kind: &str| only.as_deref().is_none_or(|only| only == kind);
    let mut kinds = Vec::new();
    if is_wanted("free") {
        kinds.push(report("free topologies", || {
            ask_free_topologies(&release, wanted, &mut Random::new(seed))
        }));
    }
    if is_wanted("clouds") {
        kinds.push(report("clouds of Neutron", || {
            ask_clouds(&release, wanted, &mut Random::new(seed))
        }));
    }
    if is_wanted("clusters") {
        kinds.push(report("clusters of manifests", || {
            ask_clusters(&release, wanted, &mut Random::new(seed))
        }));
    }
    if is_wanted("vpcs") {
        kinds.push(report("VPCs", || {
            ask_vpcs(&release, wanted, &mut Random::new(seed), |count, tally| {
                println!("{count} tenants: {}", tally.summary());
            })
        }));
    }
    for folder in ["udn", "udn_full"].into_iter().filter(|kind| is_wanted(kind)) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reconcile/tests/golden");
        kinds.push(recordings(folder, &golden.join(folder)));
    }
    ExitCode::from(u8::from(kinds.contains(&false)))
}

/// Asks, and prints numbers and differences. Returns `true` if there are none.
fn report(kind: &str, ask: impl FnOnce() -> Tally) -> bool {
    let start = Instant::now();
    let tally = ask();
    let seconds = start.elapsed().as_secs_f64();
    println!("{kind}: {} ({seconds:.0} s)", tally.summary());
    println!("{}", tally.differences());
    tally.wrong.is_empty()
}
