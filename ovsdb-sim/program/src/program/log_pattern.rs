//! Patterns of log messages (ovs-appctl(8), "Log Patterns").

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// Format of `%d` and `%D` without a format of their own.
const DEFAULT_TIME: &str = "%Y-%m-%d %H:%M:%S.###";
/// Facility of messages in `%B` (RFC 5424): local0.
const FACILITY: u32 = 16;

/// Pattern of the messages of a destination.
#[derive(Clone, Debug)]
pub(crate) struct LogPattern(String);

/// Facts of one message that a pattern can contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// UTC as `2026-01-31T12:00:00.123456`.
    pub(crate) time: &'a str,
    /// Serial number, from 1.
    pub(crate) number: u32,
    pub(crate) program: &'a str,
    pub(crate) module: &'a str,
    pub(crate) level: &'a str,
    /// Severity of RFC 5424.
    pub(crate) severity: u32,
    /// Time since the program started.
    pub(crate) uptime: Duration,
    pub(crate) text: &'a str,
}

/// Alignment of a field: `%-8p`, `%05N`.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    is_left: bool,
    has_zeros: bool,
    width: usize,
}

impl LogPattern {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Formats a message, without the newline at its end.
    pub(crate) fn format(&self, message: &Message<'_>) -> String {
        let mut line = String::new();
        let mut rest = self.0.as_str();
        while let Some((text, conversion)) = rest.split_once('%') {
            line += text;
            let (field, conversion) = Field::parse(conversion);
            let mut characters = conversion.chars();
            let Some(letter) = characters.next() else {
                return line;
            };
            rest = characters.as_str();
            let value = if matches!(letter, 'd' | 'D') {
                let (format, after) = rest
                    .strip_prefix('{')
                    .and_then(|format| format.split_once('}'))
                    .unwrap_or((DEFAULT_TIME, rest));
                rest = after;
                format_time(format, message.time)
            } else {
                message.value(letter)
            };
            field.append(&mut line, &value);
        }
        line + rest
    }
}

impl Message<'_> {
    /// The value of a conversion. An unknown one stands for its letter.
    fn value(&self, letter: char) -> String {
        match letter {
            'A' => self.program.to_owned(),
            'B' => (FACILITY * 8 + self.severity).to_string(),
            'c' => self.module.to_owned(),
            'E' => host_name(),
            'm' => self.text.to_owned(),
            'N' => self.number.to_string(),
            'n' => "\n".to_owned(),
            'P' => std::process::id().to_string(),
            'p' => self.level.to_owned(),
            'r' => self.uptime.as_millis().to_string(),
            // Tasks are not the threads of ovsdb-server: all messages are those of its main one.
            't' => "main".to_owned(),
            'T' => String::new(),
            other => other.to_string(),
        }
    }
}

impl Field {
    /// Reads the flags and the width of a conversion. Returns what follows them.
    fn parse(text: &str) -> (Self, &str) {
        let flags = text.trim_start_matches(['-', '0']);
        let (flags, rest) = (&text[..text.len() - flags.len()], flags);
        let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let width = rest[..rest.len() - after.len()].parse().unwrap_or(0);
        let field = Self {
            is_left: flags.contains('-'),
            has_zeros: flags.contains('0'),
            // Nobody reads longer fields.
            width: usize::min(width, 1000),
        };
        (field, after)
    }

    fn append(self, line: &mut String, value: &str) {
        let width = self.width;
        // Writing to a string does not fail.
        let _ = match (self.is_left, self.has_zeros) {
            (true, _) => write!(line, "{value:<width$}"),
            (false, true) => write!(line, "{value:0>width$}"),
            (false, false) => write!(line, "{value:>width$}"),
        };
    }
}

/// Formats a time as strftime(3) does, with a digit of the second's fraction for each `#`.
fn format_time(format: &str, time: &str) -> String {
    let part = |range: std::ops::Range<usize>| time.get(range).unwrap_or_default();
    let mut text = String::new();
    let mut fraction = part(20..26).chars();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character == '#' {
            text.push(fraction.next().unwrap_or('0'));
            continue;
        }
        if character != '%' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => text += part(0..4),
            Some('m') => text += part(5..7),
            Some('d') => text += part(8..10),
            Some('H') => text += part(11..13),
            Some('M') => text += part(14..16),
            Some('S') => text += part(17..19),
            Some('F') => text += part(0..10),
            Some('T') => text += part(11..19),
            Some('%') => text.push('%'),
            Some(other) => text.extend(['%', other]),
            None => {}
        }
    }
    text
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use ovsdb_sim::LogDestination;

    use super::*;

    fn format(pattern: &str) -> String {
        LogPattern::new(pattern).format(&Message {
            time: "2026-01-31T12:34:56.987654",
            number: 7,
            program: "ovsdb-server",
            module: "vlog",
            level: "INFO",
            severity: 6,
            uptime: Duration::from_millis(42),
            text: "opened",
        })
    }

    #[test]
    fn the_default_patterns_are_those_of_ovsdb_server() {
        let [console, file] = [LogDestination::Console, LogDestination::File]
            .map(|destination| LogPattern::new(destination.default_pattern()));
        assert_eq!(format(&console.0), "2026-01-31T12:34:56Z|00007|vlog|INFO|opened");
        assert_eq!(format(&file.0), "2026-01-31T12:34:56.987Z|00007|vlog|INFO|opened");
    }

    /// Lines that ovsdb-server 3.1 printed for the same patterns.
    #[test]
    fn conversions_have_flags_and_a_width() {
        for (pattern, line) in [
            ("%p|%m", "INFO|opened"),
            (
                "%-8p|%8c|%05N|%3N|%N%%%n%t|%T|%A",
                "INFO    |    vlog|00007|  7|7%\nmain||ovsdb-server",
            ),
            ("%D|%m", "2026-01-31 12:34:56.987|opened"),
            ("%D{%F %T ###}|%m", "2026-01-31 12:34:56 987|opened"),
            ("%d{%H:%M:%S.##}%m", "12:34:56.98opened"),
            ("%010r|%q|", "0000000042|q|"),
            ("%-5c.%2p", "vlog .INFO"),
            ("%10m|%-10m|", "    opened|opened    |"),
            ("%3%|%4n|", "  %|   \n|"),
            ("%B", "134"),
            ("", ""),
            ("%", ""),
            ("%D{", "2026-01-31 12:34:56.987{"),
        ] {
            assert_eq!(format(pattern), line, "{pattern}");
        }
    }
}
