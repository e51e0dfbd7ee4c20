//! Log lines on standard error.

use std::io::{self, Write};

use patchbay_model::printable::{is_unprintable, printable, push_printable};

/// Maximum length of a log line, in bytes. The problems of a ClusterNetworkConnect are one line.
const MAX_LOG_LINE_BYTES: usize = 16 << 10;

/// Writer of one log event, which is one line whatever texts from outside are in it.
#[derive(Debug, Default)]
pub(super) struct LogWriter;

impl LogWriter {
    pub(super) fn new() -> Self {
        Self
    }
}

impl Write for LogWriter {
    /// Writes an event, which the subscriber formats as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = log_line(&String::from_utf8_lossy(event));
        io::stderr().write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Returns the line of an event. Colours stay; the subscriber escapes those of texts from outside.
fn log_line(event: &str) -> String {
    let text = event.strip_suffix('\n').unwrap_or(event);
    let mut line = String::with_capacity(text.len() + 1);
    let mut rest = text;
    while let Some(at) = rest.find(is_unprintable) {
        let (before, from) = rest.split_at(at);
        line.push_str(before);
        let length = colour_len(from);
        if length > 0 {
            line.push_str(&from[..length]);
            rest = &from[length..];
        } else {
            let mut characters = from.chars();
            if let Some(character) = characters.next() {
                push_printable(&mut line, character);
            }
            rest = characters.as_str();
        }
    }
    line.push_str(rest);
    if line.len() > MAX_LOG_LINE_BYTES {
        line = printable(&line, MAX_LOG_LINE_BYTES).into_owned();
    }
    line.push('\n');
    line
}

/// Length of the colour sequence (`ESC [ digits and ; m`) at the start of a text; 0 if there is
/// none.
fn colour_len(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let is_parameter = |character: char| character.is_ascii_digit() || character == ';';
    let end = parameters.find(|character| !is_parameter(character));
    match end {
        Some(end) if parameters[end..].starts_with('m') => text.len() - parameters.len() + end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let event = "\u{1b}[33m WARN\u{1b}[0m a: x\ny\u{1b}[2J\u{202e}z\r\n";
        let line = "\u{1b}[33m WARN\u{1b}[0m a: x\\ny\\u001b[2J\\u202ez\\r\n";
        assert_eq!(log_line(event), line);
        let long = log_line(&"x".repeat(100_000));
        assert!(long.len() < 17_000 && long.ends_with("more bytes)\n"));
    }
}
