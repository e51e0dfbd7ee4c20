//! Positions of the object or array that a scanner is in, for [`streaming`](crate::streaming).

use super::framer::JsonError;
use super::scanner::{Expect, Scanner};

/// Object of objects that has not ended, such as the rows of a table.
///
/// Its position is `{_:{_:OBJECT` or `{_:[.. {_:OBJECT`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenObject {
    /// Index of its name.
    pub(crate) name: usize,
    /// Index behind its opening brace.
    pub(crate) begin: usize,
    /// Index of the comma behind its last complete member; equal to `begin` if there is none.
    pub(crate) end: usize,
    /// Number of open containers, including itself.
    pub(crate) depth: usize,
}

/// Array that has not ended and is a member of the outermost object, such as the parameters of a
/// request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenArray {
    /// Index behind the comma that follows the first element.
    pub(crate) begin: usize,
    /// Index of the comma behind the last complete element; equal to `begin` if only the first is
    /// complete.
    pub(crate) end: usize,
}

impl OpenArray {
    /// Number of open containers, including the array.
    pub(crate) const DEPTH: usize = 2;
}

impl Scanner {
    /// Returns the object of objects whose members are being scanned.
    pub(crate) fn open_object(&self) -> Option<OpenObject> {
        self.object
    }

    /// Scans at most to the end of the current member of the open object, or of the object if this
    /// is its last member.
    ///
    /// `true`: the scanner is now between two members.
    pub(crate) fn scan_member(&mut self, text: &[u8]) -> Result<bool, JsonError> {
        if self.object.is_some() && !self.is_between_members() {
            self.stops_behind_member = true;
            self.scan(text)?;
            self.stops_behind_member = false;
        }
        Ok(self.is_between_members())
    }

    /// `true` if the next token is a name in the open object.
    pub(super) fn is_between_members(&self) -> bool {
        let is_next = matches!(self.expect, Expect::Key | Expect::KeyOrEnd);
        let depth = self.object.map(|object| object.depth);
        is_next && depth == Some(self.open.len()) && self.in_string == 0
    }

    /// Returns the index of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the array whose elements are being scanned.
    pub(crate) fn open_array(&self) -> Option<OpenArray> {
        self.array
    }

    /// Returns the brackets that close the outermost `depth` containers.
    pub(crate) fn closing_brackets(&self, depth: usize) -> impl Iterator<Item = u8> {
        let open = self.open[..depth].iter().rev();
        open.map(|is_object| if *is_object { b'}' } else { b']' })
    }

    /// Adjusts all positions after `len` bytes at `begin` were removed from the text.
    ///
    /// These bytes are complete members of the open object, or complete elements of the open array
    /// except the first, and the comma behind them.
    pub(crate) fn adjust_after_removal(&mut self, begin: usize, len: usize) {
        let moved = |index: usize| {
            if index >= begin + len { index - len } else { index.min(begin) }
        };
        if let Some(OpenObject { name, begin: first, end, .. }) = &mut self.object {
            for index in [name, first, end] {
                *index = moved(*index);
            }
        }
        if let Some(OpenArray { end, .. }) = &mut self.array {
            *end = moved(*end);
        }
        self.at = moved(self.at);
        self.in_string = moved(self.in_string);
        self.in_token = moved(self.in_token);
        self.name = moved(self.name);
    }

    /// Records the comma at the current position, which separates two elements of the open array.
    pub(super) fn enter_next_element(&mut self) {
        if let Some(array) = &mut self.array {
            array.end = self.at;
        } else {
            let behind = self.at + 1;
            self.array = Some(OpenArray { begin: behind, end: behind });
        }
    }
}
