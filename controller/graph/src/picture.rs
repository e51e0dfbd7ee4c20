//! Formats of pictures.

use super::{dot, html, layout, mermaid, svg, topology};
use layout::{Layout, MAX_CHARACTERS};
use topology::{PlaceKind, Topology};

/// Format of a picture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Scalable Vector Graphics 1.1.
    Svg,
    /// A page with the picture, which zooms and searches. It loads nothing.
    Html,
    /// Flowchart of Mermaid.
    Mermaid,
    /// Graph of Graphviz.
    Dot,
}

/// Picture for a page of its user's, with what the page needs for it.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Element `svg` with the id `picture`. Places have the attribute `data-place`, links `data-from` and
    /// `data-to`, with the numbers of places.
    pub svg: String,
    /// Style, with the colours that the attribute `data-theme` of the page names.
    pub style: String,
    /// Behaviour: it zooms and searches by the elements with the ids `search`, `in`, `out`, `fit` and
    /// `found`.
    pub script: &'static str,
}

impl Topology {
    /// The picture for a page.
    pub fn drawing(&self, title: &str) -> Drawing {
        let svg = html::picture(self, &Layout::new(self), title);
        Drawing { svg, style: svg::themed_style(), script: html::SCRIPT }
    }

    /// The picture. `title`: what it shows, such as the source of the rows.
    pub fn picture(&self, format: Format, title: &str) -> String {
        match format {
            Format::Svg => svg::write(self, &Layout::new(self), title),
            Format::Html => html::write(self, &Layout::new(self), title),
            Format::Mermaid => mermaid::write(self),
            Format::Dot => dot::write(self, title),
        }
    }
}

impl PlaceKind {
    /// Class of a place in a picture, in lower case.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Machine | Self::Machines => "machine",
            Self::Switch => "switch",
            Self::Router => "router",
            Self::Connect => "connect",
            Self::Outside => "outside",
            Self::Network => "network",
        }
    }
}

/// A text for XML: control characters and marks are escaped.
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML has no control characters, and no characters that are none.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text of at most [`MAX_CHARACTERS`] characters.
pub(crate) fn short(text: &str) -> String {
    if text.chars().count() <= MAX_CHARACTERS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_CHARACTERS - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_cut() {
        assert_eq!(
            xml("<a b=\"c\">&'\u{1b}[31m\u{202e}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\u{fffd}[31m\u{202e}"
        );
        let long = "ä".repeat(MAX_CHARACTERS + 1);
        assert_eq!(short(&long).chars().count(), MAX_CHARACTERS);
    }
}
