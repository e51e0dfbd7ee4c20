//! What is wrong, or odd, and where.

use std::fmt;
use std::sync::Arc;

/// A place in a manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The file as it was named, or `standard input`.
    pub file: Arc<str>,
    /// The document in the file, from 1.
    pub document: u32,
    /// The line in the file, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{} (document {})",
            self.file, self.line, self.document
        )
    }
}

/// Something that is wrong, or worth a warning, with as much of its whereabouts as is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Problem {
    /// Where it stands.
    pub place: Option<Place>,
    /// Kind and name of the object concerned.
    pub object: Option<String>,
    /// The field concerned.
    pub field: Option<String>,
    /// What it is.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.message)
    }
}
