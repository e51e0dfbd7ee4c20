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

/// Returns the growth exponent of a cost: the slope of the best line through the points in a
/// logarithmic chart, so that the cost is about `size ^ exponent`. A constant cost has exponent 0,
/// a proportional one has 1.
///
/// `None`: there are fewer than two sizes, or a size or cost is not above 0.
///
/// ```
/// use patchbay_benches::text::growth_exponent;
///
/// let square = [(1.0, 3.0), (2.0, 12.0), (4.0, 48.0)];
/// assert!((growth_exponent(&square).unwrap() - 2.0).abs() < 1e-9);
/// ```
pub fn growth_exponent(points: &[(f64, f64)]) -> Option<f64> {
    if !points.iter().all(|(x, y)| *x > 0.0 && *y > 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| {
        logs.iter().map(values).sum::<f64>() / logs.len() as f64
    };
    let (x_mean, y_mean) = (mean(&|log| log.0), mean(&|log| log.1));
    let spread: f64 = logs.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let product: f64 = logs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (spread > 0.0).then(|| product / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_cost_has_exponent_zero_and_one_point_has_no_exponent() {
        let flat = [(1e3, 7.0), (1e4, 7.0), (1e5, 7.0)];
        assert!(growth_exponent(&flat).unwrap().abs() < 1e-12);
        assert_eq!(growth_exponent(&flat[..1]), None);
        assert_eq!(growth_exponent(&[(1.0, 1.0), (2.0, 0.0)]), None);
    }
}
