//! The page: its frame, and the contents as data.

use std::fmt::Write as _;

use patchbay_graph::escape_xml;

use super::Report;

/// Layout of the page.
const STYLE: &str = include_str!("page.css");
/// Frame of the page: sections, which the script fills or hides.
const BODY: &str = include_str!("page.html");
/// Behaviour of the page. It loads nothing, and sets names as text.
const SCRIPT: &str = include_str!("page.js");

/// Behaviour of the page of a server.
const LIVE_SCRIPT: &str = include_str!("live.js");

/// Writes the page. `version`: that of a server's page.
pub(super) fn write(report: &Report, version: Option<u64>) -> serde_json::Result<String> {
    let drawing = report.topology.drawing("topology");
    let title = escape_xml(&report.title);
    let live = version.map_or_else(String::new, |version| {
        format!("<script>\nconst version = {version};\n{LIVE_SCRIPT}</script>\n")
    });
    let mut page = String::new();
    let _ = writeln!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'\">\n\
         <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>",
        drawing.style
    );
    let body = BODY.replacen("<!-- picture -->", &drawing.svg, 1);
    let _ = writeln!(
        page,
        "{body}<script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>\n{}</script>\n<script>\n{SCRIPT}</script>\n{live}</body>\n</html>",
        json(report)?,
        drawing.script
    );
    Ok(page)
}

/// The contents as JSON without characters that HTML knows.
fn json(report: &Report) -> serde_json::Result<String> {
    let text = serde_json::to_string(report)?;
    Ok(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}
