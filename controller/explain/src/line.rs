//! Lines of the texts.

/// Maximum length of a line, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 2_000;

/// Writes one line, whatever texts from outside are in it.
macro_rules! line {
    ($f:expr, $($arguments:tt)+) => {
        writeln!(
            $f,
            "{}",
            patchbay_model::printable::printable(&format!($($arguments)+), $crate::line::MAX_LINE_BYTES)
        )
    };
}

pub(crate) use line;
