//! Random questions, answered by `reach` and by ovn-northd with ovn-trace: numbers and differences.
//!
//! `PATCHBAY_REACH_QUESTIONS` is the number of questions of each kind, and `PATCHBAY_REACH_SEED` the
//! seed, which is the time without it.

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ovsdb_sim::testing::Release;
use patchbay_comparison::{
    Random, RecordedState, Tally, ask_clusters, ask_free_topologies, ask_recorded,
};

/// Number of questions of each kind.
const QUESTIONS: usize = 10_000;
/// Environment variable with another number.
const QUESTIONS_VARIABLE: &str = "PATCHBAY_REACH_QUESTIONS";
/// Environment variable with the seed.
const SEED_VARIABLE: &str = "PATCHBAY_REACH_SEED";

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
    let mut random = Random::new(seed);
    let mut kinds = vec![
        report("free topologies", || {
            ask_free_topologies(&release, wanted, &mut random)
        }),
        report("clusters of manifests", || {
            ask_clusters(&release, wanted, &mut Random::new(seed))
        }),
    ];
    for folder in ["udn", "udn_full"] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/tests/golden");
        let states = RecordedState::read_folder(&golden.join(folder));
        kinds.push(report(folder, || {
            ask_recorded(&release, &states, wanted, &mut Random::new(seed))
        }));
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
