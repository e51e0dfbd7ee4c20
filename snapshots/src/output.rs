//! Text as C's `printf` lays it out.

use std::fmt::{self, Write};

/// Text under construction.
#[derive(Debug, Default)]
pub(crate) struct Output(String);

impl Output {
    /// Appends to the line under construction.
    pub(crate) fn put(&mut self, text: fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a String takes everything");
    }

    /// Appends a line.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        self.put(text);
        self.0.push('\n');
    }

    /// Appends text set to the right of a column. The width counts bytes, as in C.
    pub(crate) fn right(&mut self, width: usize, text: &str) {
        self.0
            .extend(std::iter::repeat_n(' ', width.saturating_sub(text.len())));
        self.0.push_str(text);
    }

    /// All of it.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn columns_count_bytes_and_never_cut() {
        let mut output = Output::default();
        output.right(4, "ab");
        output.right(4, "é");
        output.right(1, "long");
        assert_eq!(output.finish(), "  ab  élong");
    }
}
