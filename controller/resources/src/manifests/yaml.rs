//! Parser of YAML streams, which keeps the line of each value.
//!
//! A stream is split at its document markers before it is parsed, so that an error in one document
//! does not hide those of the next. The split is exact, because a line that starts with `---` or
//! `...` ends a document even within a block scalar.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Localizer, Location, Spanned, UserMessageFormatter};

/// A document of a stream.
pub(super) struct YamlDocument {
    /// Number of the document in its stream, from 1. Empty documents count.
    pub(super) number: u32,
    /// Root value, or the first syntax error.
    pub(super) content: Result<YamlNode, YamlSyntaxError>,
}

/// Syntax error of a document.
pub(super) struct YamlSyntaxError {
    /// Line in the stream, from 1.
    pub(super) line: u32,
    pub(super) message: String,
}

/// A value and its line.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) line: u32,
    pub(super) content: YamlContent,
}

/// Content of a [`YamlNode`].
#[derive(Debug)]
pub(super) enum YamlContent {
    Scalar(Value),
    Sequence(Vec<YamlNode>),
    Mapping(Vec<YamlMember>),
}

/// A member of a mapping; `line` is the line of the key.
#[derive(Debug)]
pub(super) struct YamlMember {
    pub(super) key: String,
    pub(super) line: u32,
    pub(super) value: YamlNode,
}

impl YamlNode {
    /// Value of a member. `None`: not a mapping, or no such member.
    pub(super) fn get(&self, key: &str) -> Option<&YamlNode> {
        self.member(key).map(|member| &member.value)
    }

    /// Text of a string. `None`: not a string.
    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Scalar(value) => value.as_str(),
            _ => None,
        }
    }

    fn member(&self, key: &str) -> Option<&YamlMember> {
        match &self.content {
            YamlContent::Mapping(members) => members.iter().find(|member| member.key == key),
            _ => None,
        }
    }

    /// Converts the value to JSON, without lines.
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            YamlContent::Scalar(value) => value.clone(),
            YamlContent::Sequence(items) => items.iter().map(YamlNode::to_json).collect(),
            YamlContent::Mapping(members) => {
                members.iter().map(|member| (member.key.clone(), member.value.to_json())).collect()
            }
        }
    }

    /// Line of the field at a path such as `spec.subnets[0].cidr` or `metadata.labels[a.b/c]`. For
    /// a missing field: line of the innermost value around it.
    pub(super) fn line_of(&self, path: &str) -> u32 {
        let (mut node, mut line) = (self, self.line);
        for step in path_steps(path) {
            let next = match &node.content {
                YamlContent::Sequence(items) => step
                    .parse()
                    .ok()
                    .and_then(|index: usize| items.get(index))
                    .map(|item| (item.line, item)),
                _ => node.member(step).map(|member| (member.line, &member.value)),
            };
            match next {
                Some(found) => (line, node) = found,
                None => break,
            }
        }
        line
    }

    /// Converts lines of the document to lines of the stream. `first_line` is the first line of the
    /// document in the stream.
    fn shift_lines(&mut self, first_line: u32) {
        let shift = |line: &mut u32| *line += first_line - 1;
        shift(&mut self.line);
        match &mut self.content {
            YamlContent::Scalar(_) => {}
            YamlContent::Sequence(items) => {
                for item in items {
                    item.shift_lines(first_line);
                }
            }
            YamlContent::Mapping(members) => {
                for member in members {
                    shift(&mut member.line);
                    member.value.shift_lines(first_line);
                }
            }
        }
    }
}

/// Iterates over the keys and indexes of a field path.
fn path_steps(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let (step, tail) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None if rest.is_empty() => return None,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        rest = tail.strip_prefix('.').unwrap_or(tail);
        Some(step)
    })
}

/// Parses the documents of a stream. Empty documents are left out.
pub(super) fn parse_stream(text: &str) -> Vec<YamlDocument> {
    split_documents(text.strip_prefix('\u{feff}').unwrap_or(text))
        .filter(|(_, _, text)| !is_blank(text))
        .filter_map(|(number, first_line, text)| {
            let content = match parse_document(text) {
                Ok(None) => return None,
                Ok(Some(mut node)) => {
                    node.shift_lines(first_line);
                    Ok(node)
                }
                Err(error) => Err(YamlSyntaxError { line: error.line + first_line - 1, ..error }),
            };
            Some(YamlDocument { number, content })
        })
        .collect()
}

/// Iterates over number, first line and text of each document. The text includes the markers.
fn split_documents(text: &str) -> impl Iterator<Item = (u32, u32, &str)> {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let mut documents = vec![];
    let (mut start, mut first_line, mut offset, mut ended) = (0, 1, 0, false);
    for (line, line_number) in text.split_inclusive('\n').zip(1..) {
        if (is_marker(line, "---") || ended) && offset > start {
            documents.push((first_line, &text[start..offset]));
            (start, first_line) = (offset, line_number);
        }
        ended = is_marker(line, "...");
        offset += line.len();
    }
    documents.push((first_line, &text[start..]));
    // Blank text before the first marker is not a document.
    let skipped = usize::from(documents.len() > 1 && is_blank(documents[0].1));
    documents.into_iter().skip(skipped).zip(1..).map(|((line, text), number)| (number, line, text))
}

/// `true` when the text has only empty lines, comments, directives and markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line =
            line.strip_prefix("---").or_else(|| line.strip_prefix("...")).unwrap_or(line).trim();
        line.is_empty() || line.starts_with(['#', '%'])
    })
}

/// Parses the text of one document. `None`: the document is empty.
fn parse_document(text: &str) -> Result<Option<YamlNode>, YamlSyntaxError> {
    let options = serde_saphyr::options! {
        // `kubectl get -o yaml` writes all objects of a large cluster into one document. Manifests
        // use few aliases.
        budget: serde_saphyr::budget! {
            max_events: 200_000_000,
            max_nodes: 200_000_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
        with_snippet: false,
        // kubectl reads YAML 1.1, in which a number with a leading 0 is octal.
        legacy_octal_numbers: true,
    };
    match serde_saphyr::from_str_with_options::<Spanned<ParsedContent>>(text, options) {
        Ok(Spanned { value: ParsedContent(YamlContent::Scalar(Value::Null)), .. }) => Ok(None),
        Ok(parsed) => Ok(Some(parsed.into())),
        Err(error) => Err(YamlSyntaxError {
            line: error.location().map_or(1, |location| line_number(&location)),
            message: error
                .render_with_formatter(&UserMessageFormatter.with_localizer(&WithoutLocation)),
        }),
    }
}

fn line_number(location: &Location) -> u32 {
    u32::try_from(location.line()).unwrap_or(u32::MAX)
}

/// Leaves locations out of messages, because the parser counts lines from the start of the
/// document, and users count them from the start of the file.
struct WithoutLocation;

impl Localizer for WithoutLocation {
    fn attach_location<'a>(&self, base: Cow<'a, str>, _: Location) -> Cow<'a, str> {
        base
    }
}

/// Content with the lines of the parser, which count from the start of the document.
struct ParsedContent(YamlContent);

impl From<Spanned<ParsedContent>> for YamlNode {
    fn from(parsed: Spanned<ParsedContent>) -> Self {
        Self { line: line_number(&parsed.referenced), content: parsed.value.0 }
    }
}

impl<'de> Deserialize<'de> for ParsedContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlContentVisitor).map(Self)
    }
}

struct YamlContentVisitor;

impl<'de> Visitor<'de> for YamlContentVisitor {
    type Value = YamlContent;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<YamlContent, E> {
        Ok(YamlContent::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<YamlContent, E> {
        Ok(YamlContent::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<YamlContent, E> {
        Ok(YamlContent::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<YamlContent, E> {
        // kubectl converts manifests to JSON, in which 24.0 is written as 24.
        let whole = (value.fract() == 0.0).then(|| format!("{value:.0}").parse::<i64>().ok());
        Ok(YamlContent::Scalar(match whole.flatten() {
            Some(whole) => whole.into(),
            None => value.into(),
        }))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<YamlContent, E> {
        Ok(YamlContent::Scalar(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<YamlContent, E> {
        Ok(YamlContent::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<YamlContent, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlContent, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlContent, A::Error> {
        let mut sequence = Vec::new();
        while let Some(item) = items.next_element::<Spanned<ParsedContent>>()? {
            sequence.push(item.into());
        }
        Ok(YamlContent::Sequence(sequence))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<YamlContent, A::Error> {
        let mut mapping = Vec::new();
        while let Some((key, value)) =
            members.next_entry::<Spanned<String>, Spanned<ParsedContent>>()?
        {
            mapping.push(YamlMember {
                line: line_number(&key.referenced),
                key: key.value,
                value: value.into(),
            });
        }
        Ok(YamlContent::Mapping(mapping))
    }
}

#[cfg(test)]
mod tests;
