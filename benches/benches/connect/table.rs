//! Lines of the tables: what was measured, and the goal beside it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use patchbay_benches::connect::Pass;

/// What a figure should be at most.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// So long.
    Time(Duration),
    /// In proportion to the rows that change.
    Rows,
}

/// Prints the head of a table of passes.
pub(crate) fn head(title: &str) {
    println!(
        "\n{title:<56} {:>10} {:>10} {:>10} {:>7} {:>10}  goal",
        "plan", "commit", "together", "rows", "per row"
    );
}

/// Prints a line of such a table: the pass that took the least time of so many.
pub(crate) fn best(
    name: &str,
    goal: Goal,
    runs: usize,
    mut run: impl FnMut() -> Result<Pass>,
) -> Result<()> {
    let passes = (0..runs).map(|_| run()).collect::<Result<Vec<_>>>()?;
    let pass = passes.iter().min_by_key(|pass| pass.total());
    let pass = pass.context("there is a run")?;
    let rows = pass.rows();
    let per_row = u32::try_from(rows)
        .ok()
        .and_then(|rows| pass.total().checked_div(rows));
    let goal = match goal {
        Goal::Time(goal) => against(pass.total().as_secs_f64(), goal.as_secs_f64(), &time(goal)),
        Goal::Rows => "in proportion to the rows".to_owned(),
    };
    println!(
        "{name:<56} {:>10} {:>10} {:>10} {rows:>7} {:>10}  {goal}",
        time(pass.plan),
        time(pass.commit),
        time(pass.total()),
        per_row.map_or_else(|| "-".to_owned(), time),
    );
    Ok(())
}

/// A goal, and whether a figure is within it.
pub(crate) fn against(figure: f64, goal: f64, text: &str) -> String {
    let verdict = if figure <= goal { "met" } else { "missed" };
    format!("{text}: {verdict}")
}

/// `1.25 ms`
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}
