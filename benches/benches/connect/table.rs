//! Lines of tables: the costs of passes, and their goals.

use std::time::Duration;

use anyhow::{Context as _, Result};
use patchbay_benches::connect::ConnectPass;
use patchbay_benches::text::{format_duration, format_goal};

/// Upper bound of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Time.
    Time(Duration),
    /// Time proportional to the changed rows.
    Rows,
}

/// Prints the head of a table of passes.
pub(crate) fn head(title: &str) {
    println!(
        "\n{title:<56} {:>10} {:>10} {:>10} {:>7} {:>10}  goal",
        "plan", "commit", "total", "rows", "per row"
    );
}

/// Prints a line of the table: the fastest of `runs` passes.
pub(crate) fn best(
    name: &str,
    goal: Goal,
    runs: usize,
    mut run: impl FnMut() -> Result<ConnectPass>,
) -> Result<()> {
    let passes = (0..runs).map(|_| run()).collect::<Result<Vec<_>>>()?;
    let pass = passes.iter().min_by_key(|pass| pass.total()).context("there is a run")?;
    let rows = pass.rows();
    let per_row = u32::try_from(rows).ok().and_then(|rows| pass.total().checked_div(rows));
    let goal = match goal {
        Goal::Time(goal) => {
            format_goal(pass.total().as_secs_f64(), goal.as_secs_f64(), &format_duration(goal))
        }
        Goal::Rows => "proportional to the rows".to_owned(),
    };
    println!(
        "{name:<56} {:>10} {:>10} {:>10} {rows:>7} {:>10}  {goal}",
        format_duration(pass.plan),
        format_duration(pass.commit),
        format_duration(pass.total()),
        per_row.map_or_else(|| "-".to_owned(), format_duration),
    );
    Ok(())
}
