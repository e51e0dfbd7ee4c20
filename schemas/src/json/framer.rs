//! Splits a byte stream into JSON texts and validates them.

use super::scanner::{MemberIndices, Scanner, is_space};

/// Buffer capacity in bytes that is retained after a long text, because the next texts are usually
/// shorter.
pub(crate) const RETAINED_BYTES: usize = 1 << 20;

/// Violation of the JSON syntax by a byte stream. Servers and clients close the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON at byte {at}: {problem}")]
pub struct JsonError {
    /// Byte offset in the text.
    pub at: usize,
    /// Description in the words of ovsdb-server.
    pub problem: &'static str,
}

impl JsonError {
    /// The place and the description in the words of ovsdb-server, which counts lines and columns
    /// from 0: `line 0, column 3, byte 3: syntax error parsing object expecting string`. `text` is
    /// the whole text.
    pub fn describe_in(&self, text: &[u8]) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let lines = before.split(|byte| *byte == b'\n');
        let (line, column) = lines.enumerate().last().map_or((0, 0), |(n, l)| (n, l.len()));
        format!("line {line}, column {column}, byte {}: {}", self.at, self.problem)
    }

    /// Adds `removed` to the offset: the number of bytes that were removed from the text before the
    /// violation.
    pub(crate) fn offset_by(self, removed: usize) -> Self {
        Self { at: self.at + removed, ..self }
    }
}

/// Valid JSON object or array that is not decoded, borrowed.
///
/// Only [`Framer`], [`TextBuf`] and the writers of this crate create it, so that a
/// [`Reader`](super::Reader) need not check the syntax.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub(crate) &'a [u8]);

impl<'a> Text<'a> {
    /// Returns the bytes as received.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Valid JSON object or array that is not decoded, owned.
#[derive(Clone, Debug)]
pub struct TextBuf {
    bytes: Vec<u8>,
    /// Index of the text in `bytes`.
    start: usize,
    members: MemberIndices,
}

impl TextBuf {
    /// Returns `bytes` as a text.
    ///
    /// # Errors
    /// The bytes are not exactly one object or one array.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, JsonError> {
        let mut scanner = Scanner::default();
        match scanner.scan(&bytes)? {
            Some(end) if bytes[end..].iter().all(|b| is_space(*b)) => {
                Ok(Self { bytes, start: 0, members: scanner.members })
            }
            Some(end) => Err(JsonError {
                at: end,
                problem: "trailing garbage following end of object or array",
            }),
            None => Err(JsonError { at: bytes.len(), problem: "unexpected end of input" }),
        }
    }

    /// Returns the text, borrowed.
    pub fn as_text(&self) -> Text<'_> {
        Text(&self.bytes[self.start..])
    }

    /// Returns memory for another text: that of this one, unless it is long.
    pub(crate) fn into_buffer(mut self) -> Vec<u8> {
        if self.bytes.capacity() > RETAINED_BYTES {
            return Vec::new();
        }
        self.bytes.clear();
        self.bytes
    }

    /// Wraps bytes that are known to be a valid text from `start` on.
    pub(crate) fn from_valid(bytes: Vec<u8>, start: usize) -> Self {
        Self { bytes, start, members: MemberIndices::default() }
    }

    /// Returns the indices of the names in the outermost object. `None`: it has more members than
    /// are recorded.
    pub(crate) fn member_indices(&self) -> Option<&[usize]> {
        self.members.all()
    }
}

/// Splits a stream of concatenated JSON texts.
///
/// ```
/// # use patchbay_schemas::json::Framer;
/// let mut framer = Framer::new(usize::MAX);
/// framer.push(b"{\"id\":1}{\"id\"");
/// assert_eq!(framer.next_text()?.unwrap().as_text().bytes(), b"{\"id\":1}");
/// assert!(framer.next_text()?.is_none());
/// framer.push(b":2} ");
/// assert_eq!(framer.next_text()?.unwrap().as_text().bytes(), b"{\"id\":2}");
/// # Ok::<(), patchbay_schemas::json::JsonError>(())
/// ```
#[derive(Debug)]
pub struct Framer {
    pub(crate) buffer: Vec<u8>,
    /// Index in `buffer` of the text that is being received.
    pub(crate) start: usize,
    pub(crate) scanner: Scanner,
    /// Number of bytes that were removed from the text that is being received.
    pub(crate) removed: usize,
    /// Length of `buffer` at which the scanner waits for more bytes instead of scanning the last
    /// ones.
    pub(crate) waits_at_len: Option<usize>,
    max_len: usize,
    max_string: usize,
}

impl Framer {
    /// Returns a framer that refuses texts longer than `max_len` bytes.
    pub fn new(max_len: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanner: Scanner::default(),
            removed: 0,
            waits_at_len: None,
            max_len,
            max_string: usize::MAX,
        }
    }

    /// Refuses strings of which more than `max_string` bytes have arrived without their end.
    ///
    /// A text may be long because it has many rows, which are decoded while they arrive. A string
    /// is held as a whole.
    #[must_use]
    pub fn with_max_string(mut self, max_string: usize) -> Self {
        self.max_string = max_string;
        self
    }

    /// Appends received bytes, split at any point.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the buffer, into which a socket may be read directly. Callers may only append.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Returns the next complete text. `None`: none has been received.
    ///
    /// # Errors
    /// The stream is not valid JSON, or a text is too long. The framer cannot be used afterwards.
    pub fn next_text(&mut self) -> Result<Option<TextBuf>, JsonError> {
        let pending = &self.buffer[self.start..];
        let found = if self.waits_at_len == Some(self.buffer.len()) {
            None
        } else {
            self.waits_at_len = None;
            let found = self.scanner.scan(pending);
            found.map_err(|error| error.offset_by(self.removed))?
        };
        let len = found.unwrap_or(pending.len());
        if len + self.removed > self.max_len {
            return Err(JsonError {
                at: self.max_len,
                problem: "message is longer than the limit",
            });
        }
        let Some(end) = found else {
            if self.scanner.open_string_len() > self.max_string {
                return Err(JsonError {
                    at: self.scanner.at + self.removed,
                    problem: "string is longer than the limit",
                });
            }
            if self.scanner.is_between_texts() {
                // White space between texts belongs to neither.
                self.start = self.buffer.len();
                self.scanner = Scanner::default();
            }
            self.compact();
            return Ok(None);
        };
        let lead = leading_space(pending);
        let members = std::mem::take(&mut self.scanner).members.relative_to(lead);
        self.removed = 0;
        let is_all = self.start + end == self.buffer.len();
        if self.start + lead == 0 && (is_all || end > RETAINED_BYTES.max(self.buffer.len() / 2)) {
            // Copies the smaller part of a reply of many megabytes, which is the bytes behind its
            // end.
            let rest = self.buffer.split_off(end);
            let bytes = std::mem::replace(&mut self.buffer, rest);
            return Ok(Some(TextBuf { bytes, start: 0, members }));
        }
        let bytes = pending[lead..end].to_vec();
        self.start += end;
        Ok(Some(TextBuf { bytes, start: 0, members }))
    }

    /// Removes the texts that were returned.
    fn compact(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
            self.shrink();
        }
    }

    /// Returns the number of white space bytes before the text that is being received.
    pub(crate) fn leading_space(&self) -> usize {
        leading_space(&self.buffer)
    }

    /// Frees the capacity that a long text used.
    pub(crate) fn shrink(&mut self) {
        if self.buffer.len() < RETAINED_BYTES / 2 {
            self.buffer.shrink_to(RETAINED_BYTES);
        }
    }
}

/// Returns the number of leading white space bytes.
fn leading_space(text: &[u8]) -> usize {
    text.iter().take_while(|b| is_space(**b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str) -> bool {
        TextBuf::parse(text.as_bytes().to_vec()).is_ok()
    }

    #[test]
    fn well_formed_texts_pass() {
        for text in [
            "{}",
            "[]",
            " {\"a\" : [1, -2.5e3, true, false, null, \"x\\u00e9\\n\"] } ",
            "[[],{}]",
            "[\"\\ud83d\\ude00\"]",
            "[\"\\udc00\"]",
        ] {
            assert!(accepts(text), "{text}");
        }
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "",
            "5",
            "\"x\"",
            "{",
            "{]",
            "[}",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{1:2}",
            "[1 2]",
            "['a']",
            "[NaN]",
            "[+1]",
            "[.5]",
            "[1.]",
            "[01]",
            "[0x1]",
            "[-]",
            "[tru]",
            "[\"\\u0000\"]",
            "[\"\\ud800\"]",
            "[\"\\ud800\\u0041\"]",
            "[\"\\x\"]",
            "[\"\n\"]",
            "[1e400]",
            "{} x",
            "[/**/]",
        ] {
            assert!(!accepts(text), "{text}");
        }
    }

    #[test]
    fn nesting_ends_at_a_thousand() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(accepts(&nested(1000)));
        assert!(!accepts(&nested(1001)));
    }

    #[test]
    fn white_space_between_texts_and_long_texts_do_not_retain_memory() {
        let mut framer = Framer::new(1 << 24);
        for _ in 0..100 {
            framer.push(&vec![b' '; 1 << 20]);
            assert!(framer.next_text().unwrap().is_none());
        }
        assert!(framer.buffer.is_empty());
        framer.push(format!("[\"{}\"] [", "x".repeat(1 << 23)).as_bytes());
        assert!(framer.next_text().unwrap().is_some());
        assert!(framer.next_text().unwrap().is_none());
        assert_eq!(framer.buffer, b" [");
        assert!(framer.buffer.capacity() <= RETAINED_BYTES);
        framer.push(b"]");
        assert_eq!(framer.next_text().unwrap().unwrap().as_text().bytes(), b"[]");
    }

    /// Scanning the token from its start for each byte would be quadratic.
    #[test]
    fn each_byte_of_a_token_received_byte_by_byte_is_scanned_once() {
        for (start, byte, end) in [("[0.", b"1", "]"), ("[\"", b"x", "\"]")] {
            let mut framer = Framer::new(usize::MAX);
            framer.push(start.as_bytes());
            for _ in 0..1_000_000 {
                framer.push(byte);
                assert!(framer.next_text().unwrap().is_none());
            }
            framer.push(end.as_bytes());
            assert!(framer.next_text().unwrap().is_some());
        }
    }

    #[test]
    fn any_split_gives_the_same_texts() {
        let stream = b" {\"a\":\"q\\\"\\ud83d\\ude00\"}\n[12,true]{} ";
        for cut in 0..stream.len() {
            let mut framer = Framer::new(usize::MAX);
            let mut texts = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                framer.push(part);
                while let Some(text) = framer.next_text().unwrap() {
                    texts.push(text.as_text().bytes().to_vec());
                }
            }
            assert_eq!(texts, [&stream[1..24], b"[12,true]", b"{}"], "cut at {cut}");
        }
    }

    #[test]
    fn long_messages_are_refused() {
        let mut framer = Framer::new(10);
        framer.push(b"[1,2,3,4,5,6");
        assert!(framer.next_text().is_err());
    }

    #[test]
    fn long_strings_are_refused_before_their_end() {
        let mut framer = Framer::new(usize::MAX).with_max_string(10);
        framer.push(br#"["0123456789", "01234","#);
        assert!(framer.next_text().unwrap().is_none());
        framer.push(br#""012\"56"#);
        assert!(framer.next_text().unwrap().is_none());
        framer.push(b"789012");
        let error = framer.next_text().unwrap_err();
        assert_eq!(error.problem, "string is longer than the limit");
        assert_eq!(error.at, 23);
    }
}
