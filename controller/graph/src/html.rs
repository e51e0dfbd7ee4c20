//! Pictures as pages, which zoom, search, and light a place with its links.

use std::fmt::Write as _;

use super::layout::Layout;
use super::picture::xml;
use super::svg::{style, write_body};
use super::topology::Topology;

/// Layout of the page.
const PAGE_STYLE: &str = include_str!("page.css");
/// Behaviour of the page: it reads the picture only, and loads nothing.
pub(crate) const SCRIPT: &str = include_str!("page.js");

pub(crate) fn write(topology: &Topology, layout: &Layout, title: &str) -> String {
    let mut page = String::new();
    let (name, style) = (xml(title), style());
    let _ = writeln!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>{name}</title>\n\
         <style>\n{style}{PAGE_STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{name}</h1>\n\
         <label>Search <input id=\"search\" type=\"search\"></label>\n\
         <button id=\"in\">Zoom in</button><button id=\"out\">Zoom out</button>\
         <button id=\"fit\">Fit</button>\n<output id=\"found\" aria-live=\"polite\"></output>\n\
         </header>\n<main>"
    );
    page.push_str(&picture(topology, layout, title));
    let _ = writeln!(page, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>");
    page
}

/// The element of the picture.
pub(crate) fn picture(topology: &Topology, layout: &Layout, title: &str) -> String {
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg id=\"picture\" viewBox=\"0 0 {:.0} {:.0}\" role=\"group\" aria-label=\"{}\">",
        layout.width,
        layout.height,
        xml(title)
    );
    write_body(&mut svg, topology, layout);
    svg.push_str("</svg>\n");
    svg
}
