//! Members of an operation object, found without building a tree.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::error::OvsdbError;
use crate::json::{Json, Reader, ValueKind};
use crate::schema::{is_id, unknown_members};

/// Number of members above which they are looked up by hash, so that the cost of a hostile object
/// is linear in its length.
const MAX_SCANNED_MEMBERS: usize = 16;

/// Members of an object that have not been requested yet.
///
/// The contract is that of [`Members`](crate::schema::Members), for text instead of a tree. Errors
/// are worded like in ovsdb-server.
pub(super) struct OperationMembers<'a> {
    context: Cow<'static, str>,
    object: Reader<'a>,
    rest: Vec<(Cow<'a, [u8]>, Reader<'a>)>,
    error: Option<OvsdbError>,
}

impl<'a> OperationMembers<'a> {
    /// Reads the next object and moves the reader behind it.
    pub(super) fn new(reader: &mut Reader<'a>, context: impl Into<Cow<'static, str>>) -> Self {
        let context = context.into();
        let object = *reader;
        let mut this = Self { context, object, rest: Vec::with_capacity(6), error: None };
        if !reader.enter_object() {
            reader.skip();
            let details = format!("Parsing {} failed: Object expected.", this.context);
            this.error = Some(OvsdbError::new("syntax error", details));
            return this;
        }
        // Remains empty for objects with as few members as valid operations have.
        let mut index: HashMap<Cow<'a, [u8]>, usize, RandomState> = HashMap::default();
        while let Some(name) = reader.next_member() {
            let at = *reader;
            reader.skip();
            let known = if this.rest.len() <= MAX_SCANNED_MEMBERS {
                this.rest.iter().position(|(known, _)| *known == name)
            } else {
                if index.is_empty() {
                    let names = this.rest.iter().map(|(name, _)| name.clone());
                    index = names.zip(0..).collect();
                }
                index.get(&name).copied()
            };
            if let Some(known) = known {
                this.rest[known].1 = at;
                continue;
            }
            if !index.is_empty() {
                index.insert(name.clone(), this.rest.len());
            }
            this.rest.push((name, at));
        }
        this
    }

    /// Returns a required member of this kind.
    pub(super) fn required(&mut self, name: &'static str, kind: ValueKind) -> Option<Reader<'a>> {
        let exists = self.rest.iter().any(|(known, _)| **known == *name.as_bytes());
        if !exists {
            self.fail(&format!("Required '{name}' member is missing."));
        }
        self.optional(name, kind)
    }

    /// Returns an optional member of this kind.
    pub(super) fn optional(&mut self, name: &'static str, kind: ValueKind) -> Option<Reader<'a>> {
        let at = self.rest.iter().position(|(known, _)| **known == *name.as_bytes())?;
        let (_, mut value) = self.rest.swap_remove(at);
        if value.kind() == kind {
            return Some(value);
        }
        self.mismatch(name);
        None
    }

    /// Returns an optional integer member.
    pub(super) fn optional_integer(&mut self, name: &'static str) -> Option<i64> {
        let integer = self.optional(name, ValueKind::Number)?.integer();
        if integer.is_none() {
            self.mismatch(name);
        }
        integer
    }

    /// Returns a required string member that is an `<id>`.
    pub(super) fn id(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        let text = match self.required(name, ValueKind::String)?.string()? {
            Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
            Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
        };
        let id = text.filter(|text| is_id(text));
        if id.is_none() {
            self.mismatch(name);
        }
        id
    }

    /// Records that a member has the wrong type.
    fn mismatch(&mut self, name: &str) {
        self.fail(&format!("Type mismatch for member '{name}'."));
    }

    /// Records a problem. Only the first is kept.
    pub(super) fn fail(&mut self, problem: &str) {
        if self.error.is_none() {
            let details = format!("Parsing {} failed: {problem}", self.context);
            self.error = Some(OvsdbError::syntax_at(self.object, details));
        }
    }

    /// Returns the found members if no problem was recorded.
    ///
    /// # Errors
    /// The recorded problem. `None` implies one.
    pub(super) fn require<T>(&self, found: Option<T>) -> Result<T, OvsdbError> {
        found.filter(|_| self.error.is_none()).ok_or_else(|| self.error())
    }

    /// Returns the recorded problem.
    pub(super) fn error(&self) -> OvsdbError {
        self.error
            .clone()
            .unwrap_or_else(|| OvsdbError::syntax_at(self.object, "malformed operation"))
    }

    /// Returns the whole object as a tree.
    pub(super) fn to_json(&self) -> Json {
        Json::read(&mut self.object.clone())
    }

    /// Ends the parsing.
    ///
    /// # Errors
    /// The recorded problem, or a member that was not requested.
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
    fn the_last_of_several_equal_members_is_used_among_very_many() {
        let mut text = b"{\"op\":1".to_vec();
        for i in 0..200_000 {
            text.extend_from_slice(format!(",\"x{i}\":0").as_bytes());
        }
        text.extend_from_slice(b",\"op\":2,\"x7\":true}");
        let text = TextBuf::parse(text).unwrap();
        let mut members =
            OperationMembers::new(&mut Reader::new(text.as_text()), "ovsdb operation");
        assert_eq!(members.optional_integer("op"), Some(2));
        assert!(members.optional("x7", ValueKind::Bool).is_some());
        let details = members.finish().unwrap_err().details.unwrap();
        assert!(
            details.ends_with("and 199998 other members are present but not allowed here."),
            "{details}"
        );
    }
}
