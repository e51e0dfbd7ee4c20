//! Text laid out as by C's `printf`.

use std::fmt::{self, Write};

/// Buffer for the text of a command.
#[derive(Debug, Default)]
pub(crate) struct Output(String);

impl Output {
    /// Appends to the current line.
    pub(crate) fn put(&mut self, text: fmt::Arguments<'_>) {
        self.0
            .write_fmt(text)
            .expect("writing to a String cannot fail");
    }

    /// Appends the end of the current line and a newline.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        self.put(text);
        self.0.push('\n');
    }

    /// Appends text aligned to the right in a column of `width` bytes, like C's `%*s`.
    pub(crate) fn put_right(&mut self, width: usize, text: &str) {
        self.0
            .extend(std::iter::repeat_n(' ', width.saturating_sub(text.len())));
        self.0.push_str(text);
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
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
