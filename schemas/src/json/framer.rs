//! Cuts a byte stream into JSON texts, proving each well-formed on the way.

use super::number::Number;

/// Containers may be nested this deep, the outermost included.
const MAX_DEPTH: usize = 1000;
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
pub struct TextBuf(Vec<u8>);

impl TextBuf {
    /// Checks that `bytes` are exactly one JSON text (an object or array) and takes them.
    ///
    /// # Errors
    /// Where and why they are not.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, JsonError> {
        let mut scanner = Scanner::default();
        match scanner.scan(&bytes)? {
            Some(end) if bytes[end..].iter().all(|b| is_space(*b)) => Ok(Self(bytes)),
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
        Text(&self.0)
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
    buffer: Vec<u8>,
    start: usize,
    scanner: Scanner,
    max_len: usize,
}

impl Framer {
    /// A framer that refuses texts longer than `max_len` bytes.
    pub fn new(max_len: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanner: Scanner::default(),
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
        let found = self.scanner.scan(pending)?;
        let len = found.unwrap_or(pending.len());
        if len > self.max_len {
            return Err(JsonError {
                at: self.max_len,
                problem: "message is longer than the limit",
            });
        }
        let Some(end) = found else {
            if self.scanner.expect == Expect::Start {
                // White space between texts belongs to none.
                self.start = self.buffer.len();
                self.scanner = Scanner::default();
            }
            self.compact();
            return Ok(None);
        };
        self.scanner = Scanner::default();
        let lead = pending.iter().take_while(|b| is_space(**b)).count();
        if self.start + end == self.buffer.len() && self.start + lead == 0 {
            return Ok(Some(TextBuf(std::mem::take(&mut self.buffer))));
        }
        let text = TextBuf(pending[lead..end].to_vec());
        self.start += end;
        Ok(Some(text))
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
            if self.buffer.len() < SPARE / 2 {
                self.buffer.shrink_to(SPARE);
            }
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// What may come next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Expect {
    /// The outermost value.
    #[default]
    Start,
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// An incremental validator: remembers where it stopped, so that each byte is looked at once
/// (but for an escape that was cut by the end of the input).
#[derive(Debug, Default)]
struct Scanner {
    at: usize,
    /// Where to go on in a string that was cut by the end of the input; 0 when in none.
    in_string: usize,
    /// Where to go on in a number or word that was cut by the end of the input; 0 when in none.
    in_token: usize,
    expect: Expect,
    /// One entry per open container: true for an object.
    open: Vec<bool>,
}

impl Scanner {
    /// Continues over `text`, which begins with what was scanned before. Returns the end of the first text.
    fn scan(&mut self, text: &[u8]) -> Result<Option<usize>, JsonError> {
        while let Some(&byte) = text.get(self.at) {
            if is_space(byte) {
                self.at += 1;
                continue;
            }
            match self.expect {
                Expect::Start if byte != b'{' && byte != b'[' => {
                    return self.fail("syntax error at beginning of input");
                }
                Expect::ValueOrEnd if byte == b']' => {
                    if let Some(end) = self.close() {
                        return Ok(Some(end));
                    }
                }
                Expect::Start | Expect::Value | Expect::ValueOrEnd => {
                    if !self.value(text, byte)? {
                        return Ok(None);
                    }
                }
                Expect::KeyOrEnd if byte == b'}' => {
                    if let Some(end) = self.close() {
                        return Ok(Some(end));
                    }
                }
                Expect::Key | Expect::KeyOrEnd => {
                    if byte != b'"' {
                        return self.fail("syntax error parsing object expecting string");
                    }
                    let Some(end) = self.string(text)? else {
                        return Ok(None);
                    };
                    self.at = end;
                    self.expect = Expect::Colon;
                }
                Expect::Colon => {
                    if byte != b':' {
                        return self.fail("syntax error parsing object expecting ':'");
                    }
                    self.at += 1;
                    self.expect = Expect::Value;
                }
                Expect::CommaOrEnd => {
                    let in_object = self.open.last() == Some(&true);
                    match byte {
                        b',' => {
                            self.at += 1;
                            self.expect = if in_object {
                                Expect::Key
                            } else {
                                Expect::Value
                            };
                        }
                        b'}' if in_object => {
                            if let Some(end) = self.close() {
                                return Ok(Some(end));
                            }
                        }
                        b']' if !in_object => {
                            if let Some(end) = self.close() {
                                return Ok(Some(end));
                            }
                        }
                        _ => {
                            return self
                                .fail("syntax error expecting ',' or end of object or array");
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    /// Passes one value or opens a container; false when the token is not complete yet.
    fn value(&mut self, text: &[u8], byte: u8) -> Result<bool, JsonError> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    self.fail("input exceeds maximum nesting depth")?;
                }
                self.open.push(byte == b'{');
                self.at += 1;
                self.expect = if byte == b'{' {
                    Expect::KeyOrEnd
                } else {
                    Expect::ValueOrEnd
                };
                return Ok(true);
            }
            b'"' => {
                let Some(end) = self.string(text)? else {
                    return Ok(false);
                };
                self.at = end;
            }
            _ => {
                let seen = self.in_token.max(self.at);
                let end = seen
                    + text[seen..]
                        .iter()
                        .take_while(|b| {
                            b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')
                        })
                        .count();
                if end == text.len() {
                    self.in_token = end;
                    return Ok(false);
                }
                self.in_token = 0;
                match &text[self.at..end] {
                    b"true" | b"false" | b"null" => {}
                    token => {
                        Number::parse(token).map_err(|problem| JsonError {
                            at: self.at,
                            problem,
                        })?;
                    }
                }
                self.at = end;
            }
        }
        self.expect = Expect::CommaOrEnd;
        Ok(true)
    }

    fn close(&mut self) -> Option<usize> {
        self.at += 1;
        self.open.pop();
        self.expect = Expect::CommaOrEnd;
        self.open.is_empty().then_some(self.at)
    }

    /// The end of the string that begins at `self.at`, or none when it is not complete.
    fn string(&mut self, text: &[u8]) -> Result<Option<usize>, JsonError> {
        let mut at = self.in_string.max(self.at + 1);
        loop {
            at += text.get(at..).map_or(0, plain_len);
            self.in_string = at;
            let Some(&byte) = text.get(at) else {
                return Ok(None);
            };
            match byte {
                b'"' => {
                    self.in_string = 0;
                    return Ok(Some(at + 1));
                }
                b'\\' => match escape_len(&text[at..]) {
                    Ok(Some(len)) => at += len,
                    Ok(None) => return Ok(None),
                    Err(problem) => return Err(JsonError { at, problem }),
                },
                _ => {
                    return Err(JsonError {
                        at,
                        problem: "unescaped control character in string",
                    });
                }
            }
        }
    }

    fn fail<T>(&self, problem: &'static str) -> Result<T, JsonError> {
        Err(JsonError {
            at: self.at,
            problem,
        })
    }
}

/// Which bytes end a run of plain string content.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    special[b'"' as usize] = true;
    special[b'\\' as usize] = true;
    special
};

/// How many bytes from the start of `text` are neither quote, backslash nor control character.
pub(super) fn plain_len(text: &[u8]) -> usize {
    text.iter()
        .position(|b| SPECIAL[usize::from(*b)])
        .unwrap_or(text.len())
}

/// Length of the escape sequence that begins `text`; none when it is cut short.
fn escape_len(text: &[u8]) -> Result<Option<usize>, &'static str> {
    let Some(kind) = text.get(1) else {
        return Ok(None);
    };
    match kind {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(Some(2)),
        b'u' => {
            let Some(unit) = hex4(text, 2)? else {
                return Ok(None);
            };
            match unit {
                0 => Err("null bytes not supported in quoted strings"),
                0xd800..=0xdbff => {
                    match (text.get(6), text.get(7)) {
                        (Some(b'\\'), Some(b'u')) => {}
                        (None, _) | (Some(b'\\'), None) => return Ok(None),
                        _ => return Err("malformed escaped surrogate pair"),
                    }
                    match hex4(text, 8)? {
                        None => Ok(None),
                        Some(0xdc00..=0xdfff) => Ok(Some(12)),
                        Some(_) => {
                            Err("second half of escaped surrogate pair is not trailing surrogate")
                        }
                    }
                }
                _ => Ok(Some(6)),
            }
        }
        _ => Err("bad escape in string"),
    }
}

/// The four hexadecimal digits at `at`; none when they have not all arrived.
pub(super) fn hex4(text: &[u8], at: usize) -> Result<Option<u32>, &'static str> {
    let mut unit = 0;
    for i in at..at + 4 {
        let Some(&byte) = text.get(i) else {
            return Ok(None);
        };
        let digit = char::from(byte)
            .to_digit(16)
            .ok_or("malformed \\u escape")?;
        unit = unit * 16 + digit;
    }
    Ok(Some(unit))
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
        assert_eq!(framer.next_text().unwrap().unwrap().0, b"[]");
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
