//! Proves a text well-formed as it arrives, and remembers where the parts of a message are.

use super::framer::JsonError;
use super::number::Number;

/// Containers may be nested this deep, the outermost included.
const MAX_DEPTH: usize = 1000;

/// Where the parts of a message are.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Where the members of the outermost object begin. No message has more than five, so that few are remembered.
    members: [usize; 6],
    count: usize,
}

impl Places {
    fn push(&mut self, place: usize) {
        if let Some(at) = self.members.get_mut(self.count) {
            *at = place;
        }
        self.count += 1;
    }

    /// Where all members begin, unless there are too many.
    pub(super) fn members(&self) -> Option<&[usize]> {
        self.members.get(..self.count)
    }

    /// The places in a text that begins so many bytes later.
    pub(super) fn after(mut self, lead: usize) -> Self {
        for at in &mut self.members {
            *at = at.saturating_sub(lead);
        }
        self
    }
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// An object of objects, such as a table of rows, that the scanner is in: `{_:{_:OBJECT` or `{_:[.. {_:OBJECT`, as in the
/// messages of monitors.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenObject {
    /// Where its name begins.
    pub(super) name: usize,
    /// Behind its opening brace.
    pub(super) begin: usize,
    /// At the comma behind the last whole member; the same as `begin` where there is none.
    pub(super) end: usize,
    /// How many containers are open in it, itself included.
    pub(super) depth: usize,
}

/// An array that is a member of the outermost object, such as the parameters of a request, that the scanner is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenArray {
    /// Behind the comma behind the first element.
    pub(super) begin: usize,
    /// At the comma behind the last whole element; the same as `begin` where there is only the first.
    pub(super) end: usize,
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
pub(super) struct Scanner {
    pub(super) places: Places,
    at: usize,
    /// Where to go on in a string that was cut by the end of the input; 0 when in none.
    in_string: usize,
    /// Where to go on in a number or word that was cut by the end of the input; 0 when in none.
    in_token: usize,
    expect: Expect,
    /// One entry per open container: true for an object.
    open: Vec<bool>,
    /// Where the name of the last member begins.
    name: usize,
    table: Option<OpenObject>,
    array: Option<OpenArray>,
    /// To stop behind the member of the table that it is in.
    pausing: bool,
}

impl OpenArray {
    /// How many containers are open in it, itself included.
    pub(super) const DEPTH: usize = 2;
}

impl Scanner {
    /// Whether nothing but white space has come yet.
    pub(super) fn is_between_texts(&self) -> bool {
        self.expect == Expect::Start
    }

    /// The object of objects whose members are being scanned.
    pub(super) fn table(&self) -> Option<OpenObject> {
        self.table
    }

    /// Continues, but not farther than behind the comma that follows the member of the table that it is in, or behind
    /// the table if none follows. True when it is between members then.
    pub(super) fn scan_member(&mut self, text: &[u8]) -> Result<bool, JsonError> {
        if self.table.is_some() && !self.is_between_members() {
            self.pausing = true;
            self.scan(text)?;
            self.pausing = false;
        }
        Ok(self.is_between_members())
    }

    fn is_between_members(&self) -> bool {
        let is_next = matches!(self.expect, Expect::Key | Expect::KeyOrEnd);
        let depth = self.table.map(|table| table.depth);
        is_next && depth == Some(self.open.len()) && self.in_string == 0
    }

    /// Where it goes on.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// The array whose elements are being scanned.
    pub(super) fn array(&self) -> Option<OpenArray> {
        self.array
    }

    /// The brackets that close the outermost containers, down to a depth.
    pub(super) fn closing(&self, depth: usize) -> impl Iterator<Item = u8> {
        let open = self.open[..depth].iter().rev();
        open.map(|is_object| if *is_object { b'}' } else { b']' })
    }

    /// Something was taken out of the text: the whole members of the table, or the whole elements of the array but for
    /// the first, and the comma behind them.
    pub(super) fn taken_out(&mut self, begin: usize, len: usize) {
        let moved = |place: usize| {
            if place >= begin + len {
                place - len
            } else {
                place.min(begin)
            }
        };
        if let Some(OpenObject {
            name,
            begin: first,
            end,
            ..
        }) = &mut self.table
        {
            for place in [name, first, end] {
                *place = moved(*place);
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

    /// Continues over `text`, which begins with what was scanned before. Returns the end of the first text.
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
                        self.places.push(self.at);
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
                                let behind = self.at + 1;
                                let array = OpenArray {
                                    begin: behind,
                                    end: behind,
                                };
                                match &mut self.array {
                                    Some(array) => array.end = self.at,
                                    none => *none = Some(array),
                                }
                            }
                            if let Some(table) = &mut self.table
                                && table.depth == self.open.len()
                            {
                                table.end = self.at;
                            }
                            self.at += 1;
                            self.expect = if in_object {
                                Expect::Key
                            } else {
                                Expect::Value
                            };
                            if self.pausing && self.is_between_members() {
                                return Ok(None);
                            }
                        }
                        b'}' if in_object => {
                            if let Some(end) = self.close() {
                                return Ok(Some(end));
                            }
                            if self.pausing && self.table.is_none() {
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

    /// Passes one value or opens a container; false when the token is not complete yet.
    fn value(&mut self, text: &[u8], byte: u8) -> Result<bool, JsonError> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    self.fail("input exceeds maximum nesting depth")?;
                }
                self.open.push(byte == b'{');
                self.at += 1;
                if let [true, true, true] | [true, false, true, true] = self.open[..] {
                    self.table = Some(OpenObject {
                        name: self.name,
                        begin: self.at,
                        end: self.at,
                        depth: self.open.len(),
                    });
                }
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
        if self
            .table
            .is_some_and(|table| table.depth == self.open.len())
        {
            self.table = None;
        }
        if self.open.len() == OpenArray::DEPTH {
            self.array = None;
        }
        self.open.pop();
        self.expect = Expect::CommaOrEnd;
        self.open.is_empty().then_some(self.at)
    }

    /// The end of the string that begins at `self.at`, or none when it is not complete.
    #[allow(
        clippy::inline_always,
        reason = "a call for each string takes a sixth more instructions for the whole text"
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

    /// The same of a string with escapes or that did not arrive at once.
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

/// Whether a string stands in JSON as it is, without escapes.
pub(crate) fn is_plain(text: &str) -> bool {
    plain_len(text.as_bytes()) == text.len()
}

/// How many bytes from the start of `text` are neither quote, backslash nor control character.
#[inline]
pub(super) fn plain_len(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks();
    for (i, word) in words.iter().enumerate() {
        let special = special_bytes(*word);
        if special != 0 {
            return i * 8 + (special.trailing_zeros() / 8) as usize;
        }
    }
    // The last eight bytes, some of them for the second time, instead of the rest byte by byte.
    if let Some(last) = text.last_chunk()
        && special_bytes(*last) == 0
    {
        return text.len();
    }
    let is_special = |byte: &u8| matches!(byte, ..0x20 | b'"' | b'\\');
    let in_rest = rest.iter().position(is_special).unwrap_or(rest.len());
    words.len() * 8 + in_rest
}

/// The highest bit of each byte that is a quote, a backslash or a control character, of the first of eight at least:
/// a borrow may mark bytes behind it wrongly.
fn special_bytes(word: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const QUOTES: u64 = b'"' as u64 * ONES;
    const BACKSLASHES: u64 = b'\\' as u64 * ONES;
    let word = u64::from_le_bytes(word);
    let control = word.wrapping_sub(0x20 * ONES);
    let quote = (word ^ QUOTES).wrapping_sub(ONES);
    let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES);
    // What is not ASCII is none of them.
    (control | quote | backslash) & !word & HIGH
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

    #[test]
    fn plain_text_ends_at_the_first_special_byte() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut text = [b'a'; 24];
                text[place] = byte;
                text[place + 2] = b'"';
                let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                assert_eq!(plain_len(&text), if special { place } else { place + 2 });
            }
        }
    }
}
