//! Incremental validation of a text, which also records where the members of the message are.

use super::framer::JsonError;
use super::number::Number;
use super::open_parts::{OpenArray, OpenObject};
use super::string::{escape_len, plain_len};

/// Maximum number of nested containers, including the outermost. The limit of ovsdb-server.
const MAX_DEPTH: usize = 1000;

/// Indices of the members of the outermost object.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberIndices {
    /// Indices of the names. Valid messages have at most five members.
    members: [usize; 6],
    count: usize,
}

impl MemberIndices {
    fn push(&mut self, index: usize) {
        if let Some(slot) = self.members.get_mut(self.count) {
            *slot = index;
        }
        self.count += 1;
    }

    /// Returns the indices of all members. `None`: there are more than are recorded.
    pub(super) fn all(&self) -> Option<&[usize]> {
        self.members.get(..self.count)
    }

    /// Returns the indices relative to a text that starts `lead` bytes later.
    pub(super) fn relative_to(mut self, lead: usize) -> Self {
        for at in &mut self.members {
            *at = at.saturating_sub(lead);
        }
        self
    }
}

/// `true` for JSON white space.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Grammar state: the tokens that are valid next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Expect {
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

/// Incremental validator.
///
/// It continues where it stopped, so that each byte is read once, except for an escape that the end
/// of the input cut.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    pub(super) members: MemberIndices,
    /// Index of the next byte.
    pub(super) at: usize,
    /// Index at which to continue within a string that the end of the input cut; 0 outside of
    /// strings.
    pub(super) in_string: usize,
    /// Index at which to continue within a number or word that the end of the input cut; 0 outside
    /// of them.
    pub(super) in_token: usize,
    pub(super) expect: Expect,
    /// One entry per open container: true for an object.
    pub(super) open: Vec<bool>,
    /// Index of the last name.
    pub(super) name: usize,
    pub(super) object: Option<OpenObject>,
    pub(super) array: Option<OpenArray>,
    /// `true` to stop behind the current member of `object`.
    pub(super) stops_behind_member: bool,
}

impl Scanner {
    /// `true` if the input has contained only white space so far.
    pub(super) fn is_between_texts(&self) -> bool {
        self.expect == Expect::Start
    }

    /// Length of the string that the end of the input cut; 0 outside of strings.
    pub(super) fn open_string_len(&self) -> usize {
        match self.in_string {
            0 => 0,
            scanned => scanned.saturating_sub(self.at),
        }
    }

    /// Scans `text`, which starts with the bytes scanned before. Returns the end of the first
    /// complete text.
    ///
    /// `None`: the text is not complete.
    pub(super) fn scan(&mut self, text: &[u8]) -> Result<Option<usize>, JsonError> {
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
                    if self.open.len() == 1 {
                        self.members.push(self.at);
                    }
                    self.name = self.at;
                    self.at = end;
                    self.expect = Expect::Colon;
                    if text.get(end) == Some(&b':') {
                        self.at += 1;
                        self.expect = Expect::Value;
                    }
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
                            if self.open.len() == OpenArray::DEPTH && !in_object {
                                self.enter_next_element();
                            }
                            if let Some(object) = &mut self.object
                                && object.depth == self.open.len()
                            {
                                object.end = self.at;
                            }
                            self.at += 1;
                            self.expect = if in_object { Expect::Key } else { Expect::Value };
                            if self.stops_behind_member && self.is_between_members() {
                                return Ok(None);
                            }
                        }
                        b'}' if in_object => {
                            if let Some(end) = self.close() {
                                return Ok(Some(end));
                            }
                            if self.stops_behind_member && self.object.is_none() {
                                return Ok(None);
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

    /// Scans one scalar or opens a container. False: the token is not complete.
    fn value(&mut self, text: &[u8], byte: u8) -> Result<bool, JsonError> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    self.fail("input exceeds maximum nesting depth")?;
                }
                self.open.push(byte == b'{');
                self.at += 1;
                if let [true, true, true] | [true, false, true, true] = self.open[..] {
                    self.object = Some(OpenObject {
                        name: self.name,
                        begin: self.at,
                        end: self.at,
                        depth: self.open.len(),
                    });
                }
                self.expect = if byte == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
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
                        Number::parse(token)
                            .map_err(|problem| JsonError { at: self.at, problem })?;
                    }
                }
                self.at = end;
            }
        }
        self.expect = Expect::CommaOrEnd;
        Ok(true)
    }

    /// Closes a container. Returns the end of the text if this was the outermost.
    fn close(&mut self) -> Option<usize> {
        self.at += 1;
        if self.object.is_some_and(|object| object.depth == self.open.len()) {
            self.object = None;
        }
        if self.open.len() == OpenArray::DEPTH {
            self.array = None;
        }
        self.open.pop();
        self.expect = Expect::CommaOrEnd;
        self.open.is_empty().then_some(self.at)
    }

    /// Returns the end of the string that starts at `self.at`. `None`: the string is not complete.
    #[allow(
        clippy::inline_always,
        reason = "a call per string costs one sixth more instructions for the whole text"
    )]
    #[inline(always)]
    fn string(&mut self, text: &[u8]) -> Result<Option<usize>, JsonError> {
        let start = self.at + 1;
        if self.in_string == 0
            && let Some(rest) = text.get(start..)
        {
            let end = start + plain_len(rest);
            if text.get(end) == Some(&b'"') {
                return Ok(Some(end + 1));
            }
            self.in_string = end;
        }
        self.string_from(self.in_string.max(start), text)
    }

    /// Like [`string`](Self::string), for strings with escapes and strings received in several
    /// parts.
    #[cold]
    fn string_from(&mut self, mut at: usize, text: &[u8]) -> Result<Option<usize>, JsonError> {
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
                    return Err(JsonError { at, problem: "unescaped control character in string" });
                }
            }
        }
    }

    fn fail<T>(&self, problem: &'static str) -> Result<T, JsonError> {
        Err(JsonError { at: self.at, problem })
    }
}
