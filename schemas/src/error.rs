//! The `<error>` object of RFC 7047.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Json, Reader};

/// An error as OVSDB puts it on the wire: `{"error": tag, "details": ..., "syntax": ...}`.
///
/// The words are ovsdb-server's own, because clients and people read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvsdbError {
    /// The kind, e.g. `constraint violation`.
    pub tag: Cow<'static, str>,
    /// What happened, for people.
    pub details: Option<String>,
    /// The offending piece of the request as compact JSON text.
    pub syntax: Option<String>,
}

impl OvsdbError {
    /// An error without the offending text.
    pub fn new(tag: &'static str, details: impl Into<String>) -> Self {
        Self {
            tag: Cow::Borrowed(tag),
            details: Some(details.into()),
            syntax: None,
        }
    }

    /// A `syntax error` about a piece of JSON.
    pub fn syntax(at: &Json, details: impl Into<String>) -> Self {
        Self::new("syntax error", details).with_syntax(at)
    }

    /// A `syntax error` about the value that `at` reads next.
    pub fn syntax_at<const PROVING: bool>(
        at: Reader<'_, PROVING>,
        details: impl Into<String>,
    ) -> Self {
        let error = Self::new("syntax error", details);
        match at.proven() {
            Some(mut at) => error.with_syntax(&Json::read(&mut at)),
            None => error,
        }
    }

    /// A `constraint violation`.
    pub fn constraint(details: impl Into<String>) -> Self {
        Self::new("constraint violation", details)
    }

    /// The same error with the offending piece of JSON.
    #[must_use]
    pub fn with_syntax(mut self, at: &Json) -> Self {
        self.syntax = Some(at.to_text());
        self
    }

    /// Reads an `<error>` object that a server sent.
    pub fn from_json(json: &Json) -> Option<Self> {
        let text = |name| json.get(name).and_then(Json::as_str).map(str::to_owned);
        Some(Self {
            tag: Cow::Owned(text("error")?),
            details: text("details"),
            syntax: text("syntax"),
        })
    }

    /// The object.
    pub fn to_json(&self) -> Json {
        let mut members = vec![(b"error".to_vec(), Json::string(&self.tag))];
        let optional = [("details", &self.details), ("syntax", &self.syntax)];
        members.extend(optional.into_iter().filter_map(|(name, text)| {
            Some((name.as_bytes().to_vec(), Json::string(text.as_ref()?)))
        }));
        Json::Object(members.into_iter().collect())
    }
}

impl fmt::Display for OvsdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tag)?;
        if let Some(details) = &self.details {
            write!(f, ": {details}")?;
        }
        if let Some(syntax) = &self.syntax {
            write!(f, " (in {syntax})")?;
        }
        Ok(())
    }
}

impl std::error::Error for OvsdbError {}
