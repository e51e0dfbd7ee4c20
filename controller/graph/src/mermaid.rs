//! Pictures as flowcharts of Mermaid.

use std::fmt::Write as _;

use super::topology::{PlaceKind, Topology};

pub(crate) fn write(topology: &Topology) -> String {
    let mut text = String::from("flowchart LR\n");
    for (number, place) in topology.places.iter().enumerate() {
        let detail = if place.detail.is_empty() {
            String::new()
        } else {
            format!("<br/>{}", entities(&place.detail))
        };
        let label = format!("{}{detail}", entities(&place.name));
        let shape = match place.kind {
            PlaceKind::Machine | PlaceKind::Machines => format!("([\"{label}\"])"),
            PlaceKind::Switch | PlaceKind::Network => format!("[\"{label}\"]"),
            PlaceKind::Router => format!("{{{{\"{label}\"}}}}"),
            PlaceKind::Connect => format!("[[\"{label}\"]]"),
            PlaceKind::Outside => format!("((\"{label}\"))"),
        };
        let _ = writeln!(text, "  p{number}{shape}");
    }
    let mut lit = Vec::new();
    for (count, link) in topology.links.iter().enumerate() {
        let line = if topology.is_lit(*link) { "===" } else { "---" };
        if topology.is_lit(*link) {
            lit.push(count.to_string());
        }
        let _ = writeln!(text, "  p{} {line} p{}", link.0, link.1);
    }
    if !lit.is_empty() {
        let _ = writeln!(text, "  linkStyle {} stroke:#0a7d33,stroke-width:4px", lit.join(","));
    }
    if let (Some(last), Some(stop)) = (topology.lit.places.last(), &topology.lit.stopped_by) {
        let _ = writeln!(text, "  stop[\"{}\"]\n  p{last} -.-x stop", entities(stop));
        let _ = writeln!(text, "  style p{last} stroke:#c0232c,stroke-width:4px");
    }
    text
}

/// A text in a label: marks of Mermaid and HTML are entities.
fn entities(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let is_plain = character.is_alphanumeric() || " -_./:,()".contains(character);
        if is_plain {
            escaped.push(character);
        } else if character.is_control() {
            escaped.push('\u{fffd}');
        } else {
            let _ = write!(escaped, "#{};", u32::from(character));
        }
    }
    escaped
}
