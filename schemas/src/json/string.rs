//! Strings in JSON text: their plain parts and their escapes.

/// `true` if JSON escapes no character of the string.
pub(crate) fn is_plain(text: &str) -> bool {
    plain_len(text.as_bytes()) == text.len()
}

/// Returns the number of leading bytes that are neither quote, backslash nor control character.
#[inline]
pub(super) fn plain_len(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks();
    for (i, word) in words.iter().enumerate() {
        let special = special_bytes(*word);
        if special != 0 {
            return i * 8 + (special.trailing_zeros() / 8) as usize;
        }
    }
    // Checks the last eight bytes at once, although some of them for the second time, instead of
    // the rest byte by byte.
    if let Some(last) = text.last_chunk()
        && special_bytes(*last) == 0
    {
        return text.len();
    }
    let is_special = |byte: &u8| matches!(byte, ..0x20 | b'"' | b'\\');
    let in_rest = rest.iter().position(is_special).unwrap_or(rest.len());
    words.len() * 8 + in_rest
}

/// Marks the highest bit of each byte that is a quote, a backslash or a control character.
///
/// Only the lowest mark is reliable, because a borrow may mark later bytes wrongly.
fn special_bytes(word: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const QUOTES: u64 = b'"' as u64 * ONES;
    const BACKSLASHES: u64 = b'\\' as u64 * ONES;
    let word = u64::from_le_bytes(word);
    let control = word.wrapping_sub(0x20 * ONES);
    let quote = (word ^ QUOTES).wrapping_sub(ONES);
    let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES);
    // Bytes that are not ASCII are never special.
    (control | quote | backslash) & !word & HIGH
}

/// Returns the length of the escape sequence at the start of `text`. `None`: the text ends within
/// the sequence.
pub(super) fn escape_len(text: &[u8]) -> Result<Option<usize>, &'static str> {
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

/// Parses four hexadecimal digits at `at`. `None`: the text ends within them.
fn hex4(text: &[u8], at: usize) -> Result<Option<u32>, &'static str> {
    let mut unit = 0;
    for i in at..at + 4 {
        let Some(&byte) = text.get(i) else {
            return Ok(None);
        };
        let digit = char::from(byte).to_digit(16).ok_or("malformed \\u escape")?;
        unit = unit * 16 + digit;
    }
    Ok(Some(unit))
}

/// Decodes the string whose content starts at `start`. Returns its bytes and the index behind the
/// closing quote.
#[cold]
pub(super) fn unescape(text: &[u8], start: usize) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut at = start;
    loop {
        let plain = plain_len(&text[at.min(text.len())..]);
        out.extend_from_slice(&text[at..at + plain]);
        at += plain;
        let (Some(b'\\'), Some(&kind)) = (text.get(at), text.get(at + 1)) else {
            return (out, at + 1);
        };
        at += 2;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => at += unescape_unicode(text, at, &mut out),
            other => out.push(other),
        }
    }
}

/// Decodes the characters behind `\u`, including the second half of a surrogate pair. Returns the
/// number of bytes read.
fn unescape_unicode(text: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let unit = |at| hex4(text, at).ok().flatten().unwrap_or(0xfffd);
    let first = unit(at);
    let (code, len) = match first {
        0xd800..=0xdbff => (0x1_0000 + ((first - 0xd800) << 10) + (unit(at + 6) & 0x3ff), 10),
        _ => (first, 4),
    };
    match char::from_u32(code) {
        Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        // Three bytes for a lone trailing surrogate, which are not UTF-8 and are refused as a
        // column's value.
        None => out.extend_from_slice(&[
            0xe0 | (code >> 12) as u8,
            0x80 | (code >> 6 & 0x3f) as u8,
            0x80 | (code & 0x3f) as u8,
        ]),
    }
    len
}

#[cfg(test)]
mod tests {
    use super::super::{Reader, TextBuf};
    use super::*;

    #[test]
    fn plain_text_ends_at_the_first_special_byte() {
        for byte in 0..=u8::MAX {
            for index in 0..20 {
                let mut text = [b'a'; 24];
                text[index] = byte;
                text[index + 2] = b'"';
                let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                assert_eq!(plain_len(&text), if special { index } else { index + 2 });
            }
        }
    }

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
}
