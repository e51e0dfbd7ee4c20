//! Cuts a byte stream into JSON texts, proving each well-formed on the way.

use super::scanner::{Places, Scanner, is_space};

/// So much of the memory that a long text took is kept for the next ones.
const SPARE: usize = 1 << 20;

/// Why a byte stream is not OVSDB JSON. A server closes the connection on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON at byte {at}: {problem}")]
pub struct JsonError {
    /// Offset in the text that was being read.
    pub at: usize,
    /// What is wrong.
    pub problem: &'static str,
}

impl JsonError {
    /// The same of a text of which so many bytes were taken out before it.
    pub(super) fn behind(self, taken: usize) -> Self {
        Self {
            at: self.at + taken,
            ..self
        }
    }
}

/// One well-formed JSON text, borrowed. Made only by [`Framer`], [`TextBuf`] and this crate's writers,
/// so a [`Reader`](super::Reader) need not expect broken syntax.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub(super) &'a [u8]);

impl<'a> Text<'a> {
    /// The bytes, as received.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// One well-formed JSON text, owned.
#[derive(Clone, Debug)]
pub struct TextBuf {
    pub(super) bytes: Vec<u8>,
    pub(super) places: Places,
}

impl TextBuf {
    /// Checks that `bytes` are exactly one JSON text (an object or array) and takes them.
    ///
    /// # Errors
    /// Where and why they are not.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, JsonError> {
        let mut scanner = Scanner::default();
        match scanner.scan(&bytes)? {
            Some(end) if bytes[end..].iter().all(|b| is_space(*b)) => Ok(Self {
                bytes,
                places: scanner.places,
            }),
            Some(end) => Err(JsonError {
                at: end,
                problem: "trailing garbage following end of object or array",
            }),
            None => Err(JsonError {
                at: bytes.len(),
                problem: "unexpected end of input",
            }),
        }
    }

    /// Borrows the text.
    pub fn as_text(&self) -> Text<'_> {
        Text(&self.bytes)
    }

    /// Where the names of the outermost object's members begin; none when there are too many to be remembered.
    pub(crate) fn member_places(&self) -> Option<&[usize]> {
        self.places.members()
    }
}

/// Cuts a stream of concatenated JSON texts into its texts.
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
    pub(super) buffer: Vec<u8>,
    pub(super) start: usize,
    pub(super) scanner: Scanner,
    /// How many bytes were taken out of the text that is arriving.
    pub(super) taken: usize,
    /// How many bytes there are, of which the last are only looked at together with what comes next.
    pub(super) awaiting_more_than: Option<usize>,
    max_len: usize,
}

impl Framer {
    /// A framer that refuses texts longer than `max_len` bytes.
    pub fn new(max_len: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanner: Scanner::default(),
            taken: 0,
            awaiting_more_than: None,
            max_len,
        }
    }

    /// Adds bytes as they arrived; any split is fine.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The place to read into directly: append to it, nothing else.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The next complete text, if one has arrived.
    ///
    /// # Errors
    /// The stream is not OVSDB JSON or a text is too long. The framer is unusable afterwards.
    pub fn next_text(&mut self) -> Result<Option<TextBuf>, JsonError> {
        let pending = &self.buffer[self.start..];
        let found = if self.awaiting_more_than == Some(self.buffer.len()) {
            None
        } else {
            self.awaiting_more_than = None;
            let found = self.scanner.scan(pending);
            found.map_err(|error| error.behind(self.taken))?
        };
        let len = found.unwrap_or(pending.len());
        if len + self.taken > self.max_len {
            return Err(JsonError {
                at: self.max_len,
                problem: "message is longer than the limit",
            });
        }
        let Some(end) = found else {
            if self.scanner.is_between_texts() {
                // White space between texts belongs to none.
                self.start = self.buffer.len();
                self.scanner = Scanner::default();
            }
            self.compact();
            return Ok(None);
        };
        let lead = lead(pending);
        let places = std::mem::take(&mut self.scanner).places.after(lead);
        self.taken = 0;
        let is_all = self.start + end == self.buffer.len();
        if self.start + lead == 0 && (is_all || end > SPARE.max(self.buffer.len() / 2)) {
            // Of a first reply of many megabytes the smaller part is copied: what came with its end.
            let rest = self.buffer.split_off(end);
            let bytes = std::mem::replace(&mut self.buffer, rest);
            return Ok(Some(TextBuf { bytes, places }));
        }
        let bytes = pending[lead..end].to_vec();
        self.start += end;
        Ok(Some(TextBuf { bytes, places }))
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
            self.shrink();
        }
    }

    pub(super) fn shrink(&mut self) {
        if self.buffer.len() < SPARE / 2 {
            self.buffer.shrink_to(SPARE);
        }
    }
}

/// How much white space is before a text.
pub(super) fn lead(text: &[u8]) -> usize {
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
    fn white_space_between_texts_takes_no_memory_and_a_long_text_leaves_little() {
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
        assert!(framer.buffer.capacity() <= SPARE);
        framer.push(b"]");
        assert_eq!(
            framer.next_text().unwrap().unwrap().as_text().bytes(),
            b"[]"
        );
    }

    /// Reading it again from its beginning with each byte would take for ever.
    #[test]
    fn a_token_that_comes_byte_by_byte_is_looked_at_once() {
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
}
