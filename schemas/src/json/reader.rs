//! Walks a well-formed text without building a tree.

use std::borrow::Cow;

use super::framer::{Text, TextBuf};
use super::number::Number;
use super::scanner::{hex4, plain_len};

/// What kind of value comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// A position in a well-formed text. Copy it to come back to a value.
///
/// Methods named after a kind of value return none, and do not move, when another kind comes next.
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
/// One that is `PROVING` walks a text that nobody has looked at yet, and proves it on the way: see
/// [`UnprovenMembers`](super::UnprovenMembers).
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a, const PROVING: bool = false> {
    text: &'a [u8],
    at: usize,
    /// Of a proving reader: nothing has come in the innermost container yet.
    is_first: bool,
    /// Of a proving reader: why it is at the end of the text, where nothing comes any more.
    stopped: Option<Stop>,
}

/// Why a proving reader does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The text that is there ends.
    RanOut,
    /// What comes is malformed, or written in a way that is rare.
    GaveUp,
}

impl<'a> Reader<'a> {
    /// At the start of a text.
    pub fn new(text: Text<'a>) -> Self {
        Self {
            text: text.0,
            at: 0,
            is_first: false,
            stopped: None,
        }
    }

    /// The members of the outermost object: their names, and readers that stand at their values.
    pub(crate) fn members(text: &'a TextBuf) -> impl Iterator<Item = (Cow<'a, [u8]>, Self)> {
        let (mut walk, places) = (Self::new(text.as_text()), text.member_places());
        walk.enter_object();
        let mut places = places.map(|places| places.iter());
        std::iter::from_fn(move || {
            if let Some(places) = &mut places {
                walk.at = *places.next()?;
            }
            let name = walk.next_member()?;
            let value = walk;
            if places.is_none() {
                walk.skip();
            }
            Some((name, value))
        })
    }

    /// Whether it has come to a place between elements.
    pub(crate) fn is_at_comma(&mut self, place: usize) -> bool {
        self.peek() == b',' && self.at == place
    }
}

impl<'a> Reader<'a, true> {
    /// Behind the opening bracket of a container, or behind a comma in it.
    pub(super) fn proving(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            is_first: true,
            stopped: None,
        }
    }

    /// Passes a comma: what is before it, is proven. Behind it another element or member follows.
    pub(crate) fn pass_comma(&mut self) -> bool {
        let is_next = self.peek() == b',' && self.stopped.is_none();
        if is_next {
            self.at += 1;
            self.is_first = true;
        }
        is_next
    }

    /// Why it does not go on.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped
    }
}

impl<'a, const PROVING: bool> Reader<'a, PROVING> {
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// The same of a text that is known to be well-formed.
    pub(crate) fn proven(self) -> Option<Reader<'a>> {
        let Self { text, at, .. } = self;
        (!PROVING).then_some(Reader {
            text,
            at,
            is_first: false,
            stopped: None,
        })
    }

    /// The kind of the next value.
    pub fn kind(&mut self) -> Kind {
        match self.peek() {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Passes the next value and returns its text. A proving reader leaves values that nobody reads to others.
    pub fn skip(&mut self) -> Text<'a> {
        if PROVING {
            self.stop(Stop::GaveUp);
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

    /// Enters an array; follow with [`next_element`](Self::next_element) until it returns false.
    pub fn enter_array(&mut self) -> bool {
        self.enter(b'[')
    }

    /// Moves to the next element of the array; false at its end, which is passed.
    pub fn next_element(&mut self) -> bool {
        let is_first = self.leave_first();
        match self.peek() {
            b']' => {
                self.at += 1;
                false
            }
            b',' if !(PROVING && is_first) => {
                self.at += 1;
                true
            }
            _ if PROVING => {
                if !is_first {
                    self.stop(Stop::GaveUp);
                }
                is_first
            }
            _ => self.at < self.text.len(),
        }
    }

    /// Enters an object; follow with [`next_member`](Self::next_member) until it returns none.
    pub fn enter_object(&mut self) -> bool {
        self.enter(b'{')
    }

    /// The name of the next member, its value coming next; none at the object's end, which is passed.
    pub fn next_member(&mut self) -> Option<Cow<'a, [u8]>> {
        let is_first = self.leave_first();
        match self.peek() {
            b'}' => {
                self.at += 1;
                return None;
            }
            b',' if !(PROVING && is_first) => self.at += 1,
            _ if PROVING && !is_first => self.stop(Stop::GaveUp),
            _ => {}
        }
        let name = self.string();
        if PROVING && name.is_none() {
            self.stop(Stop::GaveUp);
        }
        name.filter(|_| self.pass_colon())
    }

    /// Passes the name of the next member if it is this one, which must be [plain](super::is_plain), written as it is.
    #[inline]
    pub(crate) fn is_plain_member(&mut self, name: &str) -> bool {
        let mut ahead = *self;
        let is_first = ahead.leave_first();
        let is_behind_comma = ahead.peek() == b',';
        if is_behind_comma {
            ahead.at += 1;
        }
        let is_separated = !PROVING || is_first != is_behind_comma;
        let is_next = is_separated && ahead.is_plain_string(name) && ahead.pass_colon();
        if is_next {
            *self = ahead;
        }
        is_next
    }

    /// A string's bytes, unescaped. They are UTF-8 unless the sender broke the rules of JSON.
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
        if PROVING {
            let is_all = plain == rest.len();
            self.stop(if is_all { Stop::RanOut } else { Stop::GaveUp });
            return None;
        }
        Some(Cow::Owned(self.unescape(start)))
    }

    /// Passes the next value if it is this string, which must be [plain](super::is_plain), written as it is.
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

    /// A number.
    pub fn number(&mut self) -> Option<Number> {
        if self.kind() != Kind::Number {
            return None;
        }
        let start = self.at;
        self.skip_token();
        let token = &self.text[start..self.at];
        let is_short = token.len() <= 18 && token.iter().all(u8::is_ascii_digit);
        if is_short && !(PROVING && token.starts_with(b"0")) {
            let value = token
                .iter()
                .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
            return Some(Number::Integer(value));
        }
        if PROVING && self.at == self.text.len() {
            self.stop(Stop::RanOut);
            return None;
        }
        Number::parse(token).ok()
    }

    /// A number whose value is an integer.
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

    /// `true` or `false`.
    pub fn boolean(&mut self) -> Option<bool> {
        self.peek();
        let rest = &self.text[self.at..];
        let (value, word) = if rest.starts_with(b"t") {
            (true, &b"true"[..])
        } else {
            (false, &b"false"[..])
        };
        if rest.starts_with(word) {
            self.at += word.len();
            return Some(value);
        }
        if PROVING && word.starts_with(rest) {
            self.stop(Stop::RanOut);
        }
        None
    }

    fn enter(&mut self, open: u8) -> bool {
        let entered = self.peek() == open;
        if entered {
            self.at += 1;
            self.is_first = true;
        }
        entered
    }

    /// What `is_first` was.
    #[inline]
    fn leave_first(&mut self) -> bool {
        std::mem::take(&mut self.is_first)
    }

    /// Passes the colon behind a name.
    #[inline]
    fn pass_colon(&mut self) -> bool {
        let is_next = self.peek() == b':';
        if PROVING && !is_next {
            self.stop(Stop::GaveUp);
            return false;
        }
        self.at += 1;
        true
    }

    /// Does not go on, unless it has stopped before.
    #[cold]
    fn stop(&mut self, why: Stop) {
        self.stopped.get_or_insert(why);
        self.at = self.text.len();
    }

    /// The next byte that is not white space; 0 at the end.
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
                    if PROVING {
                        self.stop(Stop::RanOut);
                    }
                    return 0;
                }
            }
        }
    }

    fn skip_token(&mut self) {
        let rest = &self.text[self.at..];
        let len = rest
            .iter()
            .position(|b| matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
        let end = self.at + len.unwrap_or(rest.len()).max(1);
        self.at = end.min(self.text.len());
    }

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

    #[cold]
    fn unescape(&mut self, start: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = start;
        loop {
            let plain = plain_len(&self.text[at.min(self.text.len())..]);
            out.extend_from_slice(&self.text[at..at + plain]);
            at += plain;
            let (Some(b'\\'), Some(&kind)) = (self.text.get(at), self.text.get(at + 1)) else {
                self.at = at + 1;
                return out;
            };
            at += 2;
            match kind {
                b'b' => out.push(8),
                b'f' => out.push(12),
                b'n' => out.push(b'\n'),
                b'r' => out.push(b'\r'),
                b't' => out.push(b'\t'),
                b'u' => at += self.unescape_unicode(at, &mut out),
                other => out.push(other),
            }
        }
    }

    /// Decodes what follows `\u` and returns how many bytes it took.
    fn unescape_unicode(&self, at: usize, out: &mut Vec<u8>) -> usize {
        let unit = |at| hex4(self.text, at).ok().flatten().unwrap_or(0xfffd);
        let first = unit(at);
        let (code, len) = match first {
            0xd800..=0xdbff => (
                0x1_0000 + ((first - 0xd800) << 10) + (unit(at + 6) & 0x3ff),
                10,
            ),
            _ => (first, 4),
        };
        match char::from_u32(code) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            // A lone trailing surrogate: its three bytes, which no column accepts as UTF-8.
            None => out.extend_from_slice(&[
                0xe0 | (code >> 12) as u8,
                0x80 | (code >> 6 & 0x3f) as u8,
                0x80 | (code & 0x3f) as u8,
            ]),
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::super::framer::TextBuf;
    use super::*;

    #[test]
    fn strings_are_unescaped() {
        let text = TextBuf::parse(
            br#"["a\"\\\/\b\f\n\r\t","\u00e9\ud83d\ude00","plain","\udc00"]"#.to_vec(),
        )
        .unwrap();
        let mut reader = Reader::new(text.as_text());
        assert!(reader.enter_array());
        let mut strings = Vec::new();
        while reader.next_element() {
            strings.push(reader.string().unwrap().into_owned());
        }
        assert_eq!(strings[0], b"a\"\\/\x08\x0c\n\r\t");
        assert_eq!(strings[1], "é😀".as_bytes());
        assert_eq!(strings[2], b"plain");
        assert_eq!(strings[3], [0xed, 0xb0, 0x80]);
    }

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
    fn other_kinds_do_not_move_the_reader() {
        let text = TextBuf::parse(b"[1.5]".to_vec()).unwrap();
        let mut reader = Reader::new(text.as_text());
        assert!(reader.enter_array() && reader.next_element());
        assert_eq!(reader.integer(), None);
        assert_eq!(reader.string(), None);
        assert_eq!(reader.boolean(), None);
        assert_eq!(reader.number(), Some(Number::Real(1.5)));
    }
}
