//! Reading of objects by member, with errors worded like in ovsdb-server.

use std::collections::BTreeMap;

use crate::error::OvsdbError;
use crate::json::Json;

/// Members of a JSON object that have not been requested yet.
///
/// The first problem is recorded. [`finish`](Self::finish) returns it, or an error about members
/// that were not requested.
#[derive(Debug)]
pub struct Members<'a> {
    context: String,
    object: &'a Json,
    rest: BTreeMap<&'a [u8], &'a Json>,
    error: Option<OvsdbError>,
}

impl<'a> Members<'a> {
    /// Begins reading an object. `context` names it in errors (`schema for column C`).
    pub fn new(object: &'a Json, context: impl Into<String>) -> Self {
        let context = context.into();
        let (rest, error) = if let Json::Object(members) = object {
            (members.iter().map(|(name, value)| (&name[..], value)).collect(), None)
        } else {
            let details = format!("Parsing {context} failed: Object expected.");
            (BTreeMap::new(), Some(OvsdbError::new("syntax error", details)))
        };
        Self { context, object, rest, error }
    }

    /// Returns a required member that satisfies `is`.
    pub fn required(&mut self, name: &str, is: fn(&Json) -> bool) -> Option<&'a Json> {
        let found = self.optional(name, is);
        if found.is_none() && self.object.get(name).is_none() {
            self.fail(&format!("Required '{name}' member is missing."));
        }
        found
    }

    /// Returns an optional member that satisfies `is`.
    pub fn optional(&mut self, name: &str, is: fn(&Json) -> bool) -> Option<&'a Json> {
        let value = self.rest.remove(name.as_bytes())?;
        if is(value) {
            return Some(value);
        }
        self.fail(&format!("Type mismatch for member '{name}'."));
        None
    }

    /// Records a problem. Only the first is kept.
    pub fn fail(&mut self, problem: &str) {
        if self.error.is_none() {
            let details = format!("Parsing {} failed: {problem}", self.context);
            self.error = Some(OvsdbError::syntax(self.object, details));
        }
    }

    /// Ends the parsing.
    ///
    /// # Errors
    /// The recorded problem, or a member that was not requested.
    pub fn finish(mut self) -> Result<(), OvsdbError> {
        if let Some(extra) = self.rest.keys().next() {
            let name = String::from_utf8_lossy(extra).into_owned();
            let problem = unknown_members(&name, self.rest.len());
            self.fail(&problem);
        }
        self.error.map_or(Ok(()), Err)
    }
}

/// Returns the words of ovsdb-server for `count` members that are not allowed, one of which is
/// `name`.
pub(crate) fn unknown_members(name: &str, count: usize) -> String {
    match count {
        1 => format!("Member '{name}' is present but not allowed here."),
        2 => format!("Member '{name}' and 1 other member are present but not allowed here."),
        n => {
            format!("Member '{name}' and {} other members are present but not allowed here.", n - 1)
        }
    }
}

/// Predicates for [`Members::required`] and [`Members::optional`].
impl Json {
    /// `true` for objects.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// `true` for arrays.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// `true` for strings.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// True for `true` and `false`.
    pub fn is_bool(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// `true` for numbers with an integral value.
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Integer(_))
    }

    /// `true` for numbers.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Integer(_) | Self::Real(_))
    }
}
