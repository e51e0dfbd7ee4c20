//! Log lines on standard error.

use std::fmt::{self, Debug};
use std::io::{self, Write};

use patchbay_model::printable::{is_unprintable, printable, push_printable};
use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

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

/// Writes a field of an event, or its message. The text may be from outside, so the colours in it are
/// escaped, too.
pub(super) fn write_field(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn Debug,
) -> fmt::Result {
    let text = format!("{value:?}");
    let text = printable(&text, MAX_LOG_LINE_BYTES);
    match field.name() {
        "message" => writer.write_str(&text),
        name => write!(writer, "{name}={text}"),
    }
}

/// Returns the line of an event. Colours stay, because they are the subscriber's: [`write_field`]
/// escapes those of texts.
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
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::field::MakeExt as _;
    use tracing_subscriber::fmt::format::debug_fn;

    use super::*;

    /// Output of a subscriber.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn texts_from_outside_have_no_colours_of_their_own() {
        let output = Output::default();
        let writer = output.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .with_writer(move || writer.clone())
            .with_ansi(true)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = "\u{1b}[31mred\u{1b}[0m";
            tracing::warn!(%error, text = error, number = 1, "message {error}");
        });
        let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
        let escaped = "\\u001b[31mred\\u001b[0m";
        let expected = format!("message {escaped} error={escaped} text=\"");
        assert!(text.contains(&expected), "{text:?}");
        assert!(text.trim_end().ends_with("\" number=1"), "{text:?}");
        assert!(!text.contains("\u{1b}[31m"), "{text:?}");
    }

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let event = "\u{1b}[33m WARN\u{1b}[0m a: x\ny\u{1b}[2J\u{202e}z\r\n";
        let line = "\u{1b}[33m WARN\u{1b}[0m a: x\\ny\\u001b[2J\\u202ez\\r\n";
        assert_eq!(log_line(event), line);
        let long = log_line(&"x".repeat(100_000));
        assert!(long.len() < 17_000 && long.ends_with("more bytes)\n"));
    }
}
