//! Walks a valid text without building a tree.

use std::borrow::Cow;

use super::framer::{Text, TextBuf};
use super::number::Number;
use super::string::{plain_len, unescape};

/// Kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Position in a valid text. A copy of the reader allows returning to a value.
///
/// Methods named after a kind of value return `None` and do not move if the next value is of
/// another kind.
///
/// ```
/// # use patchbay_schemas::json::{Reader, TextBuf};
/// let text = TextBuf::parse(br#"{"set":[1,2]}"#.to_vec())?;
/// let mut reader = Reader::new(text.as_text());
/// assert!(reader.enter_object());
/// assert_eq!(reader.next_member().as_deref(), Some(&b"set"[..]));
/// assert!(reader.enter_array());
/// let mut sum = 0;
/// while reader.next_element() {
///     sum += reader.integer().unwrap();
/// }
/// assert_eq!(sum, 3);
/// assert!(reader.next_member().is_none());
/// # Ok::<(), patchbay_schemas::json::JsonError>(())
/// ```
///
/// A reader that is `VALIDATING` walks a text that has not been scanned, and validates what it
/// reads: see [`UnvalidatedRows`](crate::streaming::UnvalidatedRows).
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a, const VALIDATING: bool = false> {
    text: &'a [u8],
    at: usize,
    /// Validating reader: true before the first element or member of the innermost container.
    is_first: bool,
    /// Validating reader: reason why it has moved to the end of the text and reads no more values.
    stopped: Option<Stop>,
}

/// Reason why a validating reader stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The received part of the text ends.
    EndOfInput,
    /// The next token is malformed, or in a form that this reader does not support.
    Unsupported,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the start of a text.
    pub fn new(text: Text<'a>) -> Self {
        Self { text: text.0, at: 0, is_first: false, stopped: None }
    }

    /// Iterates over the members of the outermost object: names, and readers at the values.
    pub(crate) fn members(text: &'a TextBuf) -> impl Iterator<Item = (Cow<'a, [u8]>, Self)> {
        let (mut walk, indices) = (Self::new(text.as_text()), text.member_indices());
        walk.enter_object();
        let mut indices = indices.map(|indices| indices.iter());
        std::iter::from_fn(move || {
            if let Some(indices) = &mut indices {
                walk.at = *indices.next()?;
            }
            let name = walk.next_member()?;
            let value = walk;
            if indices.is_none() {
                walk.skip();
            }
            Some((name, value))
        })
    }

    /// `true` if the next token is a comma and its index is `index`.
    pub(crate) fn is_at_comma(&mut self, index: usize) -> bool {
        self.peek() == b',' && self.at == index
    }
}

impl<'a> Reader<'a, true> {
    /// Returns a reader behind the opening bracket of a container, or behind a comma in it.
    pub(crate) fn validating(text: &'a [u8]) -> Self {
        Self { text, at: 0, is_first: true, stopped: None }
    }

    /// Passes a comma. Everything before it is valid, and another element or member follows.
    ///
    /// False: the next token is not a comma.
    pub(crate) fn pass_comma(&mut self) -> bool {
        let is_next = self.peek() == b',' && self.stopped.is_none();
        if is_next {
            self.at += 1;
            self.is_first = true;
        }
        is_next
    }

    /// Returns the reason why the reader stopped. `None`: it has not stopped.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped
    }
}

impl<'a, const VALIDATING: bool> Reader<'a, VALIDATING> {
    /// Returns the index of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Moves to the index of a byte between two tokens.
    pub(crate) fn move_to(&mut self, index: usize) {
        self.at = index;
    }

    /// Returns the text behind the position.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the number of bytes behind the position.
    pub(crate) fn rest_len(&self) -> usize {
        self.text.len() - self.at.min(self.text.len())
    }

    /// Passes the next value if it is an array of the string `tag` and another string, written
    /// without escapes and white space. Returns the other string. `None`: it is not, or the reader
    /// is validating. `tag` must be [plain](super::is_plain).
    #[inline]
    pub(crate) fn compact_pair(&mut self, tag: &str) -> Option<&'a [u8]> {
        if VALIDATING {
            return None;
        }
        let pair = self.text.get(self.at..)?.strip_prefix(b"[\"")?;
        let rest = pair.strip_prefix(tag.as_bytes())?.strip_prefix(b"\",\"")?;
        let (string, rest) = rest.split_at_checked(plain_len(rest))?;
        let rest = rest.strip_prefix(b"\"]")?;
        self.at = self.text.len() - rest.len();
        Some(string)
    }

    /// Returns the reader if its text is valid. `None`: the reader is validating.
    pub(crate) fn validated(self) -> Option<Reader<'a>> {
        let Self { text, at, .. } = self;
        (!VALIDATING).then_some(Reader { text, at, is_first: false, stopped: None })
    }

    /// Returns the kind of the next value.
    pub fn kind(&mut self) -> ValueKind {
        match self.peek() {
            b'{' => ValueKind::Object,
            b'[' => ValueKind::Array,
            b'"' => ValueKind::String,
            b't' | b'f' => ValueKind::Bool,
            b'n' => ValueKind::Null,
            _ => ValueKind::Number,
        }
    }

    /// Passes the next value and returns its text.
    ///
    /// A validating reader stops instead, because it would not validate the value.
    pub fn skip(&mut self) -> Text<'a> {
        if VALIDATING {
            self.stop(Stop::Unsupported);
            return Text(&[]);
        }
        self.peek();
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b'"' => self.skip_string(),
                b',' | b':' => {
                    self.at += 1;
                    continue;
                }
                _ => self.skip_token(),
            }
            if depth == 0 || self.at >= self.text.len() {
                return Text(&self.text[start..self.at.min(self.text.len())]);
            }
        }
    }

    /// Enters an array. Call [`next_element`](Self::next_element) until it returns `false`.
    pub fn enter_array(&mut self) -> bool {
        self.enter(b'[')
    }

    /// Moves to the next element of the array. False: the array has ended, and its end was passed.
    pub fn next_element(&mut self) -> bool {
        let is_first = self.leave_first();
        match self.peek() {
            b']' => {
                self.at += 1;
                false
            }
            b',' if !(VALIDATING && is_first) => {
                self.at += 1;
                true
            }
            _ if VALIDATING => {
                if !is_first {
                    self.stop(Stop::Unsupported);
                }
                is_first
            }
            _ => self.at < self.text.len(),
        }
    }

    /// Enters an object. Call [`next_member`](Self::next_member) until it returns `None`.
    pub fn enter_object(&mut self) -> bool {
        self.enter(b'{')
    }

    /// Returns the name of the next member and moves to its value. `None`: the object has ended,
    /// and its end was passed.
    pub fn next_member(&mut self) -> Option<Cow<'a, [u8]>> {
        let is_first = self.leave_first();
        match self.peek() {
            b'}' => {
                self.at += 1;
                return None;
            }
            b',' if !(VALIDATING && is_first) => self.at += 1,
            _ if VALIDATING && !is_first => self.stop(Stop::Unsupported),
            _ => {}
        }
        let name = self.string();
        if VALIDATING && name.is_none() {
            self.stop(Stop::Unsupported);
        }
        name.filter(|_| self.pass_colon())
    }

    /// Passes the name of the next member if it equals `name` and is written without escapes.
    /// `name` must be [plain](super::is_plain).
    #[inline]
    pub(crate) fn is_plain_member(&mut self, name: &str) -> bool {
        let mut ahead = *self;
        let is_first = ahead.leave_first();
        let is_behind_comma = ahead.peek() == b',';
        if is_behind_comma {
            ahead.at += 1;
        }
        let is_separated = !VALIDATING || is_first != is_behind_comma;
        let is_next = is_separated && ahead.is_plain_string(name) && ahead.pass_colon();
        if is_next {
            *self = ahead;
        }
        is_next
    }

    /// Returns the unescaped bytes of a string. They are UTF-8 unless the sender violates the JSON
    /// standard.
    #[inline]
    pub fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        if self.peek() != b'"' {
            return None;
        }
        let start = self.at + 1;
        let rest = &self.text[start..];
        let plain = plain_len(rest);
        if let Some((string, [b'"', ..])) = rest.split_at_checked(plain) {
            self.at = start + plain + 1;
            return Some(Cow::Borrowed(string));
        }
        if VALIDATING {
            let is_all = plain == rest.len();
            self.stop(if is_all { Stop::EndOfInput } else { Stop::Unsupported });
            return None;
        }
        let (string, end) = unescape(self.text, start);
        self.at = end;
        Some(Cow::Owned(string))
    }

    /// Passes the next value if it is the string `text`, written without escapes. `text` must be
    /// [plain](super::is_plain).
    #[inline]
    pub(crate) fn is_plain_string(&mut self, text: &str) -> bool {
        let is_next = self.peek() == b'"'
            && self.text[self.at + 1..]
                .strip_prefix(text.as_bytes())
                .is_some_and(|rest| rest.first() == Some(&b'"'));
        if is_next {
            self.at += text.len() + 2;
        }
        is_next
    }

    /// Returns a number.
    pub fn number(&mut self) -> Option<Number> {
        if self.kind() != ValueKind::Number {
            return None;
        }
        let start = self.at;
        self.skip_token();
        let token = &self.text[start..self.at];
        let is_short = token.len() <= 18 && token.iter().all(u8::is_ascii_digit);
        if is_short && !(VALIDATING && token.starts_with(b"0")) {
            let value = token.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
            return Some(Number::Integer(value));
        }
        if VALIDATING && self.at == self.text.len() {
            self.stop(Stop::EndOfInput);
            return None;
        }
        Number::parse(token).ok()
    }

    /// Returns a number whose value is an integer.
    pub fn integer(&mut self) -> Option<i64> {
        let before = self.at;
        if let Some(Number::Integer(integer)) = self.number() {
            return Some(integer);
        }
        if self.stopped.is_none() {
            self.at = before;
        }
        None
    }

    /// Returns `true` or `false`.
    pub fn boolean(&mut self) -> Option<bool> {
        self.peek();
        let rest = &self.text[self.at..];
        let (value, word) =
            if rest.starts_with(b"t") { (true, &b"true"[..]) } else { (false, &b"false"[..]) };
        if rest.starts_with(word) {
            self.at += word.len();
            return Some(value);
        }
        if VALIDATING && word.starts_with(rest) {
            self.stop(Stop::EndOfInput);
        }
        None
    }

    /// Passes an opening bracket.
    fn enter(&mut self, open: u8) -> bool {
        let entered = self.peek() == open;
        if entered {
            self.at += 1;
            self.is_first = true;
        }
        entered
    }

    /// Resets `is_first` and returns its previous value.
    #[inline]
    fn leave_first(&mut self) -> bool {
        std::mem::take(&mut self.is_first)
    }

    /// Passes the colon that follows a name.
    #[inline]
    fn pass_colon(&mut self) -> bool {
        let is_next = self.peek() == b':';
        if VALIDATING && !is_next {
            self.stop(Stop::Unsupported);
            return false;
        }
        self.at += 1;
        true
    }

    /// Stops a validating reader. The first reason is kept.
    #[cold]
    fn stop(&mut self, reason: Stop) {
        self.stopped.get_or_insert(reason);
        self.at = self.text.len();
    }

    /// Returns the next byte that is not white space; 0 at the end.
    #[inline]
    fn peek(&mut self) -> u8 {
        match self.text.get(self.at) {
            Some(&byte) if byte > b' ' => byte,
            _ => self.peek_behind_space(),
        }
    }

    fn peek_behind_space(&mut self) -> u8 {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(&byte) => return byte,
                None => {
                    if VALIDATING {
                        self.stop(Stop::EndOfInput);
                    }
                    return 0;
                }
            }
        }
    }

    /// Passes a number, `true`, `false` or `null`.
    fn skip_token(&mut self) {
        let rest = &self.text[self.at..];
        let len = rest
            .iter()
            .position(|b| matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
        let end = self.at + len.unwrap_or(rest.len()).max(1);
        self.at = end.min(self.text.len());
    }

    /// Passes a string.
    fn skip_string(&mut self) {
        self.at += 1;
        loop {
            self.at += plain_len(&self.text[self.at.min(self.text.len())..]);
            if self.text.get(self.at) == Some(&b'\\') {
                self.at += 2;
            } else {
                self.at += 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::framer::TextBuf;
    use super::*;

    #[test]
    fn skip_returns_exactly_the_value() {
        let text = TextBuf::parse(br#"{"a": {"b":[1,"]}\"",{}]} , "c" :-1.5}"#.to_vec()).unwrap();
        let mut reader = Reader::new(text.as_text());
        assert!(reader.enter_object());
        assert_eq!(reader.next_member().as_deref(), Some(&b"a"[..]));
        assert_eq!(reader.skip().bytes(), br#"{"b":[1,"]}\"",{}]}"#);
        assert_eq!(reader.next_member().as_deref(), Some(&b"c"[..]));
        assert_eq!(reader.skip().bytes(), b"-1.5");
        assert!(reader.next_member().is_none());
    }

    #[test]
    fn a_value_of_another_kind_does_not_move_the_reader() {
        let text = TextBuf::parse(b"[1.5]".to_vec()).unwrap();
        let mut reader = Reader::new(text.as_text());
        assert!(reader.enter_array() && reader.next_element());
        assert_eq!(reader.integer(), None);
        assert_eq!(reader.string(), None);
        assert_eq!(reader.boolean(), None);
        assert_eq!(reader.number(), Some(Number::Real(1.5)));
    }
}
