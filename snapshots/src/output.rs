//! Text laid out as by C's `printf`.

use std::fmt::{self, Write};

use patchbay_schemas::hash_order;

/// Buffer for the text of a command.
#[derive(Debug, Default)]
pub(crate) struct Output(String);

impl Output {
    /// Appends to the current line.
    pub(crate) fn put(&mut self, text: fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a String cannot fail");
    }

    /// Appends the end of the current line and a newline.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        self.put(text);
        self.0.push('\n');
    }

    /// Appends text aligned to the right in a column of `width` bytes, like C's `%*s`.
    pub(crate) fn put_right(&mut self, width: usize, text: &str) {
        self.0.extend(std::iter::repeat_n(' ', width.saturating_sub(text.len())));
        self.0.push_str(text);
    }

    /// Appends at most `length` bytes of a text, aligned to the left in a column of `width` bytes,
    /// like C's `%-*.*s`. A character is not cut.
    pub(crate) fn put_left(&mut self, width: usize, length: usize, text: &str) {
        let mut end = length.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        self.0.push_str(text);
        self.0.extend(std::iter::repeat_n(' ', width.saturating_sub(text.len())));
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Pairs sorted by key as `ovn-nbctl` sorts those of a map. Equal keys have the order of its hash
/// table.
pub(crate) fn sorted_pairs<V>(pairs: Vec<(String, V)>) -> Vec<(String, V)> {
    let mut pairs = hash_order::pair_order(pairs);
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    pairs
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn column_widths_count_bytes_and_longer_texts_are_not_cut() {
        let mut output = Output::default();
        output.put_right(4, "ab");
        output.put_right(4, "é");
        output.put_right(1, "long");
        assert_eq!(output.finish(), "  ab  élong");
    }
}
