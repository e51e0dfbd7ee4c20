//! Texts from outside as one line of a terminal or a log.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns a text that is one line wherever it is printed, and at most `max_bytes` long plus a
/// count.
///
/// Control characters, line separators, and marks that change the direction of text are written as
/// JSON does (`\n`, `\u001b`), which is how `ovn-nbctl list` writes them. Other text stays as it
/// is.
///
/// ```
/// use patchbay_model::printable::printable;
///
/// assert_eq!(printable("blue-network", 80), "blue-network");
/// assert_eq!(printable("blue\nerror: \u{1b}[31mred", 80), r"blue\nerror: \u001b[31mred");
/// assert_eq!(printable("aaaaaaaa", 4), "aaaa... (4 more bytes)");
/// ```
pub fn printable(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes && !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len().min(max_bytes) + 32);
    for (at, character) in text.char_indices() {
        let before = line.len();
        push_printable(&mut line, character);
        if line.len() > max_bytes {
            line.truncate(before);
            // Writing to a string cannot fail.
            let _ = write!(line, "... ({} more bytes)", text.len() - at);
            break;
        }
    }
    Cow::Owned(line)
}

/// `true` for characters that move the cursor, end a line, or change how the text around is shown.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

/// Appends a character, or its escape.
pub fn push_printable(line: &mut String, character: char) {
    match character {
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        // All of these are in the Basic Multilingual Plane, so four digits suffice.
        other if is_unprintable(other) => {
            // Writing to a string cannot fail.
            let _ = write!(line, "\\u{:04x}", u32::from(other));
        }
        other => line.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_interprets_is_left() {
        let hostile = "a\u{1b}]0;t\u{7}\r\n\u{9b}2J\u{202e}b\u{2028}c\u{7f}";
        let line = printable(hostile, 1_000);
        assert_eq!(line, r"a\u001b]0;t\u0007\r\n\u009b2J\u202eb\u2028c\u007f");
        assert!(!line.contains(is_unprintable));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(printable("gr\u{fc}n", 3), "gr... (3 more bytes)");
        assert_eq!(printable("a\n", 2), "a... (1 more bytes)");
        assert_eq!(printable("gr\u{fc}n", 5), "gr\u{fc}n");
    }
}
