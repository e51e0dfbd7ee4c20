//! Text of figures in tables.

use std::time::Duration;

/// Formats a duration with three significant digits or so: `12.5 us`, `1.25 ms`, `1.25 s`.
pub fn format_duration(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Formats the text of a goal, followed by `met` if the figure is at most the goal, by `missed`
/// otherwise.
pub fn format_goal(figure: f64, goal: f64, text: &str) -> String {
    let verdict = if figure <= goal { "met" } else { "missed" };
    format!("{text}: {verdict}")
}
