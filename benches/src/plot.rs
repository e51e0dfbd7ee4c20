//! Growth exponents, and charts with logarithmic axes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Returns the growth exponent of a cost: the slope of the best line through the points in a
/// logarithmic chart, so that the cost is about `size ^ exponent`. A constant cost has exponent 0,
/// a proportional one has 1.
///
/// `None`: there are fewer than two sizes, or a size or cost is not above 0.
///
/// ```
/// use patchbay_benches::plot::growth_exponent;
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

/// Chart of costs over sizes, with logarithmic axes.
///
/// ```
/// use patchbay_benches::plot::Chart;
///
/// let svg = Chart::new("One more port", "ports on the router", "microseconds")
///     .line("engine", [(1_000.0, 12.0), (32_000.0, 13.0)])
///     .svg()?;
/// assert!(svg.contains("engine (exponent 0.02)"));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    x_label: String,
    y_label: String,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Size of the chart in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// Edges of the area between the axes, in pixels.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 380.0;

/// Line colours that remain distinct with colour blindness (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

impl Chart {
    /// Creates a chart without lines.
    #[must_use]
    pub fn new(title: &str, x_label: &str, y_label: &str) -> Self {
        Self {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            lines: Vec::new(),
        }
    }

    /// Adds a line. Its legend has the growth exponent.
    #[must_use]
    pub fn line(mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.lines.push(Line {
            name: name.to_owned(),
            points: points.into_iter().collect(),
        });
        self
    }

    /// Renders the chart as SVG.
    ///
    /// # Errors
    /// The chart has no point, or a coordinate that is not above 0.
    pub fn svg(&self) -> Result<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let drawable = |(x, y): &(f64, f64)| *x > 0.0 && *y > 0.0 && x.is_finite() && y.is_finite();
        ensure!(
            points().next().is_some() && points().all(drawable),
            "{}: a logarithmic chart needs points above 0",
            self.title
        );
        let x_axis = Axis::over(points().map(|point| point.0), LEFT, RIGHT);
        let y_axis = Axis::over(points().map(|point| point.1), BOTTOM, TOP);
        let mut svg = format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="13">"#,
                r##"<rect width="100%" height="100%" fill="#fff"/>"##,
                "\n"
            ),
            WIDTH, HEIGHT
        );
        let middle = f64::midpoint(LEFT, RIGHT);
        write_text(&mut svg, (middle, 28.0), "middle", &self.title);
        write_text(&mut svg, (middle, HEIGHT - 14.0), "middle", &self.x_label);
        write_text(&mut svg, (10.0, TOP - 12.0), "start", &self.y_label);
        for value in x_axis.ticks() {
            let x = x_axis.position(value);
            write_rule(&mut svg, (x, TOP), (x, BOTTOM));
            write_text(&mut svg, (x, BOTTOM + 20.0), "middle", &format_tick(value));
        }
        for value in y_axis.ticks() {
            let y = y_axis.position(value);
            write_rule(&mut svg, (LEFT, y), (RIGHT, y));
            write_text(&mut svg, (LEFT - 8.0, y + 4.0), "end", &format_tick(value));
        }
        for (i, (line, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let places: Vec<(f64, f64)> = line
                .points
                .iter()
                .map(|(x, y)| (x_axis.position(*x), y_axis.position(*y)))
                .collect();
            let path: Vec<String> = places
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = writeln!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
                path.join(" ")
            );
            for (x, y) in places {
                let _ = writeln!(
                    svg,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"/>"#
                );
            }
            let at = (LEFT + 14.0, TOP + 20.0 + 18.0 * i as f64);
            let _ = writeln!(
                svg,
                r#"<circle cx="{}" cy="{}" r="4" fill="{colour}"/>"#,
                at.0,
                at.1 - 4.0
            );
            let exponent = growth_exponent(&line.points)
                .map(|exponent| format!(" (exponent {exponent:.2})"))
                .unwrap_or_default();
            write_text(
                &mut svg,
                (at.0 + 12.0, at.1),
                "start",
                &format!("{}{exponent}", line.name),
            );
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }

    /// Writes the chart into a file, and creates its folder.
    ///
    /// # Errors
    /// Those of [`svg`](Self::svg), or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(path, self.svg()?).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Logarithmic axis over whole decades, between two pixels.
struct Axis {
    first: i32,
    last: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| {
                (low.min(log), high.max(log))
            });
        let first = low.floor() as i32;
        let last = (high.ceil() as i32).max(first + 1);
        Self {
            first,
            last,
            from,
            to,
        }
    }

    fn position(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        self.from + part * (self.to - self.from)
    }

    /// Returns the decades; with at most three of them also their steps of 2 and 5.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = if self.last - self.first <= 3 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let decade = |exponent: i32| steps.iter().map(move |step| step * 10_f64.powi(exponent));
        let mut ticks: Vec<f64> = (self.first..self.last).flat_map(decade).collect();
        ticks.push(10_f64.powi(self.last));
        ticks
    }
}

fn write_rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        r##"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="#ddd"/>"##,
        from.0, from.1, to.0, to.1
    );
}

fn write_text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{escaped}</text>"#
    );
}

/// Formats the label of a tick: `20K` for 20,000.
fn format_tick(value: f64) -> String {
    let (scaled, unit) = match value {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "K"),
        _ => (value, ""),
    };
    // One digit is enough for steps of 1, 2 and 5, and hides rounding errors.
    let digits = if scaled < 1.0 {
        -scaled.log10().floor() as usize
    } else {
        0
    };
    format!("{scaled:.digits$}{unit}")
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

    #[test]
    fn points_lie_between_the_axes_and_grow_upwards() {
        let svg = Chart::new("t & u", "x", "y")
            .line("a", [(1_000.0, 0.2), (128_000.0, 40.0)])
            .svg()
            .unwrap();
        assert!(svg.contains("t &amp; u"));
        let line = svg
            .split("points=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let places: Vec<f64> = line.split([' ', ',']).map(|n| n.parse().unwrap()).collect();
        let [x0, y0, x1, y1] = places[..] else {
            panic!("{line}")
        };
        assert!(LEFT <= x0 && x0 < x1 && x1 <= RIGHT, "{line}");
        assert!(TOP <= y1 && y1 < y0 && y0 <= BOTTOM, "{line}");
    }

    #[test]
    fn ticks_are_short_and_exact() {
        let ticks: Vec<String> = Axis::over([0.02, 3.0].into_iter(), 0.0, 1.0)
            .ticks()
            .into_iter()
            .map(format_tick)
            .collect();
        assert_eq!(
            ticks,
            [
                "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"
            ]
        );
        assert_eq!(format_tick(128_000.0), "128K");
    }

    #[test]
    fn points_without_a_logarithm_are_refused() {
        assert!(Chart::new("t", "x", "y").svg().is_err());
        assert!(
            Chart::new("t", "x", "y")
                .line("a", [(0.0, 1.0)])
                .svg()
                .is_err()
        );
    }
}
