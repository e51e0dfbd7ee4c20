//! Texts in lines of a terminal.

/// Length of a line, in columns.
pub(super) const COLUMNS: usize = 80;

/// The text in lines of at most [`COLUMNS`], broken between words. Further lines begin with `indent`.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    wrapped_behind("", text, indent)
}

/// As [`wrapped`], with a margin before the first line.
pub(super) fn wrapped_behind(margin: &str, text: &str, indent: &str) -> String {
    let mut lines = margin.to_owned();
    let mut length = margin.chars().count();
    for (number, word) in text.split_whitespace().enumerate() {
        let word_length = word.chars().count();
        if number == 0 {
            length += word_length;
        } else if length + 1 + word_length > COLUMNS {
            lines.push('\n');
            lines.push_str(indent);
            length = indent.chars().count() + word_length;
        } else {
            lines.push(' ');
            length += 1 + word_length;
        }
        lines.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let text = format!("{} {} c", "a".repeat(60), "b".repeat(30));
        let expected = format!("{}\n  {} c", "a".repeat(60), "b".repeat(30));
        assert_eq!(wrapped(&text, "  "), expected);
        assert_eq!(wrapped("", "  "), "");
        let text = format!("{} b", "a".repeat(77));
        assert_eq!(wrapped_behind("  ", &text, "    "), format!("  {}\n    b", "a".repeat(77)));
    }
}
