//! The members of an operation object, found without building a tree.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::error::OvsdbError;
use crate::json::{Json, Kind, Reader};
use crate::schema::{is_id, unknown_members};

/// More members than this are looked up by hash, so that a hostile object costs no more than its length.
const MANY: usize = 16;

/// The members of an object that have not been asked for yet, with ovsdb-server's complaints.
///
/// The same contract as [`Members`](crate::schema::Members), over text instead of a tree.
pub(super) struct OperationMembers<'a> {
    context: Cow<'static, str>,
    object: Reader<'a>,
    rest: Vec<(Cow<'a, [u8]>, Reader<'a>)>,
    error: Option<OvsdbError>,
}

impl<'a> OperationMembers<'a> {
    /// Takes the object that comes next apart; the reader moves behind it.
    pub(super) fn new(reader: &mut Reader<'a>, context: impl Into<Cow<'static, str>>) -> Self {
        let context = context.into();
        let object = *reader;
        let mut this = Self {
            context,
            object,
            rest: Vec::with_capacity(6),
            error: None,
        };
        if !reader.enter_object() {
            reader.skip();
            let details = format!("Parsing {} failed: Object expected.", this.context);
            this.error = Some(OvsdbError::new("syntax error", details));
            return this;
        }
        // Only objects with more members than any operation has are worth an index.
        let mut places: HashMap<Cow<'a, [u8]>, usize, RandomState> = HashMap::default();
        while let Some(name) = reader.next_member() {
            let at = *reader;
            reader.skip();
            let place = if this.rest.len() <= MANY {
                this.rest.iter().position(|(have, _)| *have == name)
            } else {
                if places.is_empty() {
                    let names = this.rest.iter().map(|(name, _)| name.clone());
                    places = names.zip(0..).collect();
                }
                places.get(&name).copied()
            };
            if let Some(place) = place {
                this.rest[place].1 = at;
                continue;
            }
            if !places.is_empty() {
                places.insert(name.clone(), this.rest.len());
            }
            this.rest.push((name, at));
        }
        this
    }

    /// A member that must be there and be of this kind.
    pub(super) fn required(&mut self, name: &'static str, kind: Kind) -> Option<Reader<'a>> {
        let there = self.rest.iter().any(|(have, _)| **have == *name.as_bytes());
        if !there {
            self.fail(&format!("Required '{name}' member is missing."));
        }
        self.optional(name, kind)
    }

    /// A member that, if there, must be of this kind.
    pub(super) fn optional(&mut self, name: &'static str, kind: Kind) -> Option<Reader<'a>> {
        let at = self
            .rest
            .iter()
            .position(|(have, _)| **have == *name.as_bytes())?;
        let (_, mut value) = self.rest.swap_remove(at);
        if value.kind() == kind {
            return Some(value);
        }
        self.mismatch(name);
        None
    }

    /// A member that, if there, must be an integer.
    pub(super) fn optional_integer(&mut self, name: &'static str) -> Option<i64> {
        let integer = self.optional(name, Kind::Number)?.integer();
        if integer.is_none() {
            self.mismatch(name);
        }
        integer
    }

    /// A required string member that is an `<id>`.
    pub(super) fn id(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        let text = match self.required(name, Kind::String)?.string()? {
            Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
            Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
        };
        let id = text.filter(|text| is_id(text));
        if id.is_none() {
            self.mismatch(name);
        }
        id
    }

    fn mismatch(&mut self, name: &str) {
        self.fail(&format!("Type mismatch for member '{name}'."));
    }

    /// Notes a problem, unless there was one before.
    pub(super) fn fail(&mut self, problem: &str) {
        if self.error.is_none() {
            let details = format!("Parsing {} failed: {problem}", self.context);
            self.error = Some(OvsdbError::syntax_at(self.object, details));
        }
    }

    /// Whether a problem was noted.
    pub(super) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// The problem that was noted.
    pub(super) fn error(&self) -> OvsdbError {
        self.error
            .clone()
            .unwrap_or_else(|| OvsdbError::syntax_at(self.object, "malformed operation"))
    }

    /// The whole object.
    pub(super) fn to_json(&self) -> Json {
        Json::read(&mut self.object.clone())
    }

    /// Ends the parsing.
    ///
    /// # Errors
    /// The first problem; members that were not asked for are one.
    pub(super) fn finish(mut self) -> Result<(), OvsdbError> {
        if let Some((extra, _)) = self.rest.first() {
            let problem = unknown_members(&String::from_utf8_lossy(extra), self.rest.len());
            self.fail(&problem);
        }
        self.error.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::TextBuf;

    #[test]
    fn of_very_many_members_the_last_of_a_name_counts() {
        let mut text = b"{\"op\":1".to_vec();
        for i in 0..200_000 {
            text.extend_from_slice(format!(",\"x{i}\":0").as_bytes());
        }
        text.extend_from_slice(b",\"op\":2,\"x7\":true}");
        let text = TextBuf::parse(text).unwrap();
        let mut members =
            OperationMembers::new(&mut Reader::new(text.as_text()), "ovsdb operation");
        assert_eq!(members.optional_integer("op"), Some(2));
        assert!(members.optional("x7", Kind::Bool).is_some());
        let details = members.finish().unwrap_err().details.unwrap();
        assert!(
            details.ends_with("and 199998 other members are present but not allowed here."),
            "{details}"
        );
    }
}
