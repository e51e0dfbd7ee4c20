//! Hostile input: broken bytes to a server, and broken transactions on a database.
//!
//! A run has a fixed seed and takes about ten seconds. `PATCHBAY_FUZZ_CASES` sets another number of
//! cases, `PATCHBAY_FUZZ_SEED` another seed. With `--nocapture` the number of inputs is printed.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod executor;
mod generate;
mod model;
mod mutate;
mod panics;
mod wire;

use std::env;
use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Seeds of a case. The removal of steps does not change the others, so that a failure can be
/// reduced.
#[derive(Clone, Debug)]
struct Seeds {
    schema: u64,
    /// One list per step, with a seed for each of its parts.
    steps: Vec<Vec<u64>>,
}

fn seeds(steps: usize) -> impl Strategy<Value = Seeds> {
    let seed = || any::<u64>().no_shrink();
    (seed(), vec(vec(seed(), 1..6), 1..steps)).prop_map(|(schema, steps)| Seeds { schema, steps })
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}

/// Runs `case` many times.
///
/// # Panics
/// If one fails.
fn run<T: Debug>(
    default_cases: u32,
    strategy: &impl Strategy<Value = T>,
    case: impl Fn(&T) -> Result<(), String>,
) {
    let cases = number("PATCHBAY_FUZZ_CASES").map_or(default_cases, |cases| cases as u32);
    let mut seed = [0; 32];
    let number = number("PATCHBAY_FUZZ_SEED").unwrap_or_default();
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(strategy, |input| case(&input).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => panic!("{reason}\nfor {input:?}"),
        Err(TestError::Abort(reason)) => panic!("no cases: {reason}"),
    }
}
