//! Pictures as graphs of Graphviz.

use std::fmt::Write as _;

use super::topology::{PlaceKind, Topology};

pub(crate) fn write(topology: &Topology, title: &str) -> String {
    let mut text = String::from("graph northbound {\n");
    let _ = writeln!(
        text,
        "  label={}; rankdir=LR; node [shape=box, fontname=monospace];",
        quoted(title)
    );
    for (number, place) in topology.places.iter().enumerate() {
        let shape = match place.kind {
            PlaceKind::Machine | PlaceKind::Machines => "ellipse",
            PlaceKind::Switch | PlaceKind::Network => "box",
            PlaceKind::Router => "hexagon",
            PlaceKind::Connect => "doubleoctagon",
            PlaceKind::Outside => "cylinder",
        };
        let on_way = topology.lit.places.contains(&number);
        let colour = if on_way { ", color=darkgreen, penwidth=3" } else { "" };
        let label = if place.detail.is_empty() {
            place.name.clone()
        } else {
            format!("{}\n{}", place.name, place.detail)
        };
        let _ = writeln!(text, "  p{number} [label={}, shape={shape}{colour}];", quoted(&label));
    }
    for link in &topology.links {
        let lit = if topology.is_lit(*link) { " [color=darkgreen, penwidth=3]" } else { "" };
        let _ = writeln!(text, "  p{} -- p{}{lit};", link.0, link.1);
    }
    if let (Some(last), Some(stop)) = (topology.lit.places.last(), &topology.lit.stopped_by) {
        let _ = writeln!(text, "  stop [label={}, shape=note, color=red];", quoted(stop));
        let _ = writeln!(text, "  p{last} -- stop [style=dashed, color=red];");
    }
    text.push_str("}\n");
    text
}

/// A quoted text of DOT. A line feed is `\n`; other control characters are replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push('\u{fffd}'),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
