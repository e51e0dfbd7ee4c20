//! YAML streams: documents with the line of each of their values.
//!
//! A stream is cut at its document markers before it is parsed, so that an error in one document hides
//! nothing in the next. That is exact: a line that starts with `---` or `...` ends a document whatever it
//! stands in, block scalars included.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Localizer, Location, Spanned, UserMessageFormatter};

/// A document of a stream.
pub(super) struct Document {
    /// Position in its stream, from 1; empty documents count.
    pub(super) number: u32,
    /// What it holds.
    pub(super) content: Result<Node, SyntaxError>,
}

/// A document that is not YAML.
pub(super) struct SyntaxError {
    pub(super) line: u32,
    pub(super) message: String,
}

/// A value and the line it stands in.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) content: Content,
}

/// What a [`Node`] holds.
#[derive(Debug)]
pub(super) enum Content {
    Scalar(Value),
    Sequence(Vec<Node>),
    Mapping(Vec<Member>),
}

/// A member of a mapping; its line is that of the key.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) line: u32,
    pub(super) value: Node,
}

impl Node {
    /// The value of this member, if this is a mapping that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.member(key).map(|member| &member.value)
    }

    /// The text, if this is one.
    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(value) => value.as_str(),
            _ => None,
        }
    }

    fn member(&self, key: &str) -> Option<&Member> {
        match &self.content {
            Content::Mapping(members) => members.iter().find(|member| member.key == key),
            _ => None,
        }
    }

    /// The value without its lines.
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::Sequence(items) => items.iter().map(Node::to_json).collect(),
            Content::Mapping(members) => members
                .iter()
                .map(|member| (member.key.clone(), member.value.to_json()))
                .collect(),
        }
    }

    /// The line of the field at this path, such as `spec.subnets[0].cidr` or `metadata.labels[a.b/c]`; of a field
    /// that is not there, the line of the nearest value around it.
    pub(super) fn line_of(&self, path: &str) -> u32 {
        let (mut node, mut line) = (self, self.line);
        for step in steps(path) {
            let next = match &node.content {
                Content::Sequence(items) => step
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

    /// Counts every line from the start of the stream, of which the node's document starts at `first_line`.
    fn shift(&mut self, first_line: u32) {
        let shift = |line: &mut u32| *line += first_line - 1;
        shift(&mut self.line);
        match &mut self.content {
            Content::Scalar(_) => {}
            Content::Sequence(items) => items.iter_mut().for_each(|item| item.shift(first_line)),
            Content::Mapping(members) => members.iter_mut().for_each(|member| {
                shift(&mut member.line);
                member.value.shift(first_line);
            }),
        }
    }
}

/// The keys and indexes of a field path.
fn steps(path: &str) -> impl Iterator<Item = &str> {
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

/// The documents of a stream. Documents that hold nothing are left out.
pub(super) fn parse_stream(text: &str) -> Vec<Document> {
    split(text.strip_prefix('\u{feff}').unwrap_or(text))
        .filter(|(_, _, text)| !is_blank(text))
        .filter_map(|(number, first_line, text)| {
            let content = match parse_document(text) {
                Ok(None) => return None,
                Ok(Some(mut node)) => {
                    node.shift(first_line);
                    Ok(node)
                }
                Err(error) => Err(SyntaxError {
                    line: error.line + first_line - 1,
                    ..error
                }),
            };
            Some(Document { number, content })
        })
        .collect()
}

/// Number, first line and text of each document, markers included.
fn split(text: &str) -> impl Iterator<Item = (u32, u32, &str)> {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let mut pieces = vec![];
    let (mut start, mut first_line, mut offset, mut ended) = (0, 1, 0, false);
    for (line, line_number) in text.split_inclusive('\n').zip(1..) {
        if (is_marker(line, "---") || ended) && offset > start {
            pieces.push((first_line, &text[start..offset]));
            (start, first_line) = (offset, line_number);
        }
        ended = is_marker(line, "...");
        offset += line.len();
    }
    pieces.push((first_line, &text[start..]));
    // What stands before the first marker is a document only if there is something.
    let skipped = usize::from(pieces.len() > 1 && is_blank(pieces[0].1));
    pieces
        .into_iter()
        .skip(skipped)
        .zip(1..)
        .map(|((line, text), number)| (number, line, text))
}

/// Nothing but empty lines, comments, directives and markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line
            .strip_prefix("---")
            .or_else(|| line.strip_prefix("..."))
            .unwrap_or(line)
            .trim();
        line.is_empty() || line.starts_with(['#', '%'])
    })
}

fn parse_document(text: &str) -> Result<Option<Node>, SyntaxError> {
    let options = serde_saphyr::options! {
        // One `kubectl get -o yaml` of a large cluster is one document; manifests repeat little by aliases.
        budget: serde_saphyr::budget! {
            max_events: 200_000_000,
            max_nodes: 200_000_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
        with_snippet: false,
        // As kubectl reads them: in YAML 1.1 a number that starts with 0 is an octal one.
        legacy_octal_numbers: true,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Parsed>>(text, options) {
        Ok(Spanned {
            value: Parsed(Content::Scalar(Value::Null)),
            ..
        }) => Ok(None),
        Ok(parsed) => Ok(Some(parsed.into())),
        Err(error) => Err(SyntaxError {
            line: error
                .location()
                .map_or(1, |location| line_number(&location)),
            message: error
                .render_with_formatter(&UserMessageFormatter.with_localizer(&WithoutLocation)),
        }),
    }
}

fn line_number(location: &Location) -> u32 {
    u32::try_from(location.line()).unwrap_or(u32::MAX)
}

/// Leaves the place out of messages: the parser counts from the start of the document, users from that of the file.
struct WithoutLocation;

impl Localizer for WithoutLocation {
    fn attach_location<'a>(&self, base: Cow<'a, str>, _: Location) -> Cow<'a, str> {
        base
    }
}

/// [`Content`] as the parser hands it over, before its lines are counted from the start of the stream.
struct Parsed(Content);

impl From<Spanned<Parsed>> for Node {
    fn from(parsed: Spanned<Parsed>) -> Self {
        Self {
            line: line_number(&parsed.referenced),
            content: parsed.value.0,
        }
    }
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor).map(Self)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        // kubectl hands manifests on as JSON, in which 24.0 is written as 24.
        let whole = (value.fract() == 0.0).then(|| format!("{value:.0}").parse::<i64>().ok());
        Ok(Content::Scalar(match whole.flatten() {
            Some(whole) => whole.into(),
            None => value.into(),
        }))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Content, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut sequence = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Parsed>>()? {
            sequence.push(item.into());
        }
        Ok(Content::Sequence(sequence))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Content, A::Error> {
        let mut mapping = Vec::new();
        while let Some((key, value)) = members.next_entry::<Spanned<String>, Spanned<Parsed>>()? {
            mapping.push(Member {
                line: line_number(&key.referenced),
                key: key.value,
                value: value.into(),
            });
        }
        Ok(Content::Mapping(mapping))
    }
}

#[cfg(test)]
mod tests;
