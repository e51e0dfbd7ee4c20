//! Errors and warnings of manifests, with their location.

use std::fmt;
use std::sync::Arc;

/// Location in a manifest or state file. Locations are ordered as they are read.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SourceLocation {
    /// Number of files that were read before.
    pub place: u32,
    /// Path of the file as given, or `standard input`.
    pub file: Arc<str>,
    /// Number of the document in the file, from 1.
    pub document: u32,
    /// Line in the file, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} (document {})", self.file, self.line, self.document)
    }
}

/// An error or a warning about an object, with its location as far as it is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Problem {
    /// Location of the field or object. `None`: not from a file, or about a whole file.
    pub location: Option<SourceLocation>,
    /// Kind, namespace and name of the object. `None`: not about one object.
    pub object: Option<String>,
    /// Path of the field. `None`: about the whole object.
    pub field: Option<String>,
    /// Message.
    pub message: String,
}

impl Problem {
    /// The problem, as that of a field with this path.
    #[must_use]
    pub fn in_field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// The problem, as that of an annotation.
    #[must_use]
    pub fn in_annotation(self, key: &str) -> Self {
        self.in_field(format!("metadata.annotations[{key}]"))
    }
}

impl From<String> for Problem {
    /// A problem that is not about one object.
    fn from(message: String) -> Self {
        Self { message, ..Self::default() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.message)
    }
}
