//! A table with a line for each measurement and a column for each size.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use patchbay_benches::connect::ClusterSize;
use patchbay_benches::text::{format_duration, format_goal, growth_exponent};

/// Runs of a measurement, unless they exceed [`RUNS_TIME_MAX`].
const RUNS: usize = 7;
/// Time after which a measurement is not repeated.
const RUNS_TIME_MAX: Duration = Duration::from_secs(5);

/// Table that is printed line by line.
pub(crate) struct Table {
    sizes: Vec<ClusterSize>,
}

impl Table {
    /// Prints the head of a table.
    pub(crate) fn new(title: &str, sizes: &[ClusterSize]) -> Self {
        print!("\n{title:<56}");
        for size in sizes {
            print!("{:>12}", size.links());
        }
        println!("  exponent");
        Self { sizes: sizes.to_vec() }
    }

    /// Prints the times of one measurement. A goal is one for [`ClusterSize::GOAL`].
    pub(crate) fn print_times(&self, name: &str, times: &[Duration], goal: Option<Duration>) {
        print!("{name:<56}");
        for time in times {
            print!("{:>12}", format_duration(*time));
        }
        match growth_exponent(&self.points(times)) {
            Some(exponent) => print!("  {exponent:>8.2}"),
            None => print!("  {:>8}", "-"),
        }
        let is_goal_size = self.sizes.last() == Some(&ClusterSize::GOAL);
        if let (true, Some(goal), Some(largest)) = (is_goal_size, goal, times.last()) {
            let (largest, seconds) = (largest.as_secs_f64(), goal.as_secs_f64());
            print!("  {}", format_goal(largest, seconds, &format_duration(goal)));
        }
        println!();
    }

    /// Prints counts.
    pub(crate) fn print_counts(name: &str, counts: &[usize]) {
        print!("{name:<56}");
        for count in counts {
            print!("{count:>12}");
        }
        println!();
    }

    fn points(&self, times: &[Duration]) -> Vec<(f64, f64)> {
        self.sizes
            .iter()
            .zip(times)
            .map(|(size, time)| (size.links() as f64, time.as_secs_f64() * 1e3))
            .collect()
    }
}

/// Repeats a measurement, and returns the result with the least time.
pub(crate) fn best<T>(
    mut run: impl FnMut() -> Result<T>,
    time: impl Fn(&T) -> Duration,
) -> Result<T> {
    let started = Instant::now();
    let mut results = Vec::with_capacity(RUNS);
    while results.is_empty() || (results.len() < RUNS && started.elapsed() < RUNS_TIME_MAX) {
        results.push(run()?);
    }
    let best = results.into_iter().min_by_key(time);
    best.context("there is a run")
}
