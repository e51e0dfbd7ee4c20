//! The `<error>` object of RFC 7047 section 3.1.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Json, Reader};

/// An error in the form of the wire: `{"error": tag, "details": ..., "syntax": ...}`.
///
/// Tags and details are worded like ovsdb-server's, because clients compare them and operators know
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvsdbError {
    /// Kind of the error, e.g. `constraint violation`.
    pub tag: Cow<'static, str>,
    /// Description for operators.
    pub details: Option<Box<str>>,
    /// Compact JSON text of the offending part of the request.
    pub syntax: Option<Box<str>>,
    /// Text of the system's error that is the cause, e.g. `No space left on device`. A member of
    /// ovsdb-server's errors that RFC 7047 does not have.
    pub io_error: Option<Box<str>>,
}

impl OvsdbError {
    /// Returns an error without the offending text.
    pub fn new(tag: &'static str, details: impl Into<String>) -> Self {
        Self {
            tag: Cow::Borrowed(tag),
            details: Some(details.into().into_boxed_str()),
            syntax: None,
            io_error: None,
        }
    }

    /// Returns a `syntax error` about a JSON value.
    pub fn syntax(at: &Json, details: impl Into<String>) -> Self {
        Self::new("syntax error", details).with_syntax(at)
    }

    /// Returns a `syntax error` about the next value of `at`.
    pub fn syntax_at<const VALIDATING: bool>(
        at: Reader<'_, VALIDATING>,
        details: impl Into<String>,
    ) -> Self {
        let error = Self::new("syntax error", details);
        match at.validated() {
            Some(mut at) => error.with_syntax(&Json::read(&mut at)),
            None => error,
        }
    }

    /// Returns a `constraint violation`.
    pub fn constraint(details: impl Into<String>) -> Self {
        Self::new("constraint violation", details)
    }

    /// Adds the offending JSON value.
    #[must_use]
    pub fn with_syntax(mut self, at: &Json) -> Self {
        self.syntax = Some(at.to_text().into());
        self
    }

    /// Reads an `<error>` object. `None`: the value has no string member `error`.
    pub fn from_json(json: &Json) -> Option<Self> {
        let text = |name| json.get(name).and_then(Json::as_str).map(Box::<str>::from);
        Some(Self {
            tag: Cow::Owned(text("error")?.into_string()),
            details: text("details"),
            syntax: text("syntax"),
            io_error: text("io-error"),
        })
    }

    /// Returns the `<error>` object.
    pub fn to_json(&self) -> Json {
        let mut members = vec![(b"error".to_vec(), Json::string(&self.tag))];
        for (name, text) in
            [("details", &self.details), ("syntax", &self.syntax), ("io-error", &self.io_error)]
        {
            members.extend(text.iter().map(|text| (name.into(), Json::string(text))));
        }
        Json::Object(members.into_iter().collect())
    }
}

impl OvsdbError {
    /// The text of the error in ovsdb-server's logs: `syntax "SYNTAX": TAG: DETAILS (IO-ERROR)`.
    ///
    /// ```
    /// use patchbay_schemas::error::OvsdbError;
    ///
    /// let error = OvsdbError::new("syntax error", "expected integer");
    /// assert_eq!(error.with_syntax_first(), "syntax error: expected integer");
    /// ```
    pub fn with_syntax_first(&self) -> String {
        let syntax = self.syntax.as_ref();
        let syntax = syntax.map_or_else(String::new, |syntax| format!("syntax \"{syntax}\": "));
        let details = self.details.as_ref();
        let details = details.map_or_else(String::new, |details| format!(": {details}"));
        let cause = self.io_error.as_ref();
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        format!("{syntax}{}{details}{cause}", self.tag)
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
        if let Some(cause) = &self.io_error {
            write!(f, " ({cause})")?;
        }
        Ok(())
    }
}

impl std::error::Error for OvsdbError {}
