//! Pictures as SVG.

use std::fmt::Write as _;

use super::layout::{ARC, Frame, LINE_HEIGHT, Layout};
use super::picture::{short, xml};
use super::topology::Topology;

/// Colours in light surroundings, as declarations of CSS.
const LIGHT: &str = include_str!("light.css");
/// Colours in dark surroundings.
const DARK: &str = include_str!("dark.css");
/// Boxes and lines with these colours.
const BOXES: &str = include_str!("picture.css");

/// Style of a picture, with the colours of its surroundings.
pub(crate) fn style() -> String {
    format!("svg {{ {LIGHT}}}\n@media (prefers-color-scheme: dark) {{ svg {{ {DARK}}} }}\n{BOXES}")
}

/// Style of a picture in a page with the attribute `data-theme`: `light`, `dark`, or the colours of the
/// surroundings without it.
pub(crate) fn themed_style() -> String {
    let themes = [("light", LIGHT), ("dark", DARK)];
    let themes =
        themes.map(|(theme, colours)| format!(":root[data-theme={theme}] svg {{ {colours}}}\n"));
    format!("{}{}", style(), themes.concat())
}

/// Writes a picture with its own style.
pub(crate) fn write(topology: &Topology, layout: &Layout, title: &str) -> String {
    let mut svg = String::new();
    let (width, height) = (layout.width, layout.height);
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">",
        xml(title)
    );
    let _ = writeln!(svg, "<title>{}</title>\n<style>\n{}</style>", xml(title), style());
    let _ = writeln!(svg, "<rect class=\"ground\" width=\"{width:.0}\" height=\"{height:.0}\"/>");
    write_body(&mut svg, topology, layout);
    svg.push_str("</svg>\n");
    svg
}

/// Writes links and places.
pub(crate) fn write_body(svg: &mut String, topology: &Topology, layout: &Layout) {
    for link in &topology.links {
        let (one, other) = (&layout.frames[link.0], &layout.frames[link.1]);
        let lit = if topology.is_lit(*link) { " lit" } else { "" };
        let _ = writeln!(
            svg,
            "<path class=\"link{lit}\" data-from=\"{}\" data-to=\"{}\" d=\"{}\"/>",
            link.0,
            link.1,
            curve(one, other)
        );
    }
    for (number, (place, frame)) in topology.places.iter().zip(&layout.frames).enumerate() {
        let on_way = topology.lit.places.contains(&number);
        let is_end = topology.lit.places.last() == Some(&number);
        let stop = topology.lit.stopped_by.as_ref().filter(|_| is_end);
        let state = match (on_way, stop) {
            (_, Some(_)) => " lit stop",
            (true, None) => " lit",
            (false, None) => "",
        };
        let kind = place.kind.class();
        let full = format!("{kind} {} {}", place.name, place.detail);
        let _ = writeln!(
            svg,
            "<g class=\"place {kind}{state}\" data-place=\"{number}\" tabindex=\"0\" role=\"img\" \
             aria-label=\"{0}\"><title>{0}</title>",
            xml(full.trim())
        );
        let Frame { x, y, width, height, .. } = frame;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\"/>"
        );
        let middle = x + width / 2.0;
        for ((class, text), row) in topology.lines(number).into_iter().zip(1..) {
            let baseline = y + LINE_HEIGHT * f64::from(row);
            let _ = writeln!(
                svg,
                "<text class=\"{class}\" x=\"{middle:.1}\" y=\"{baseline:.1}\">{}</text>",
                xml(&short(text))
            );
        }
        svg.push_str("</g>\n");
    }
}

/// Line between two boxes: straight to the next column, or an arc in one column.
fn curve(one: &Frame, other: &Frame) -> String {
    let (left, right) = if one.x <= other.x { (one, other) } else { (other, one) };
    let middle = |frame: &Frame| frame.y + frame.height / 2.0;
    let (y1, y2) = (middle(left), middle(right));
    let x1 = left.x + left.width;
    if left.column == right.column {
        let far = x1 + ARC;
        return format!("M{x1:.1} {y1:.1}C{far:.1} {y1:.1} {far:.1} {y2:.1} {x1:.1} {y2:.1}");
    }
    let x2 = right.x;
    let half = f64::midpoint(x1, x2);
    format!("M{x1:.1} {y1:.1}C{half:.1} {y1:.1} {half:.1} {y2:.1} {x2:.1} {y2:.1}")
}
