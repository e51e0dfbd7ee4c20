//! Commands in documents.

use std::fmt;

use crate::cargo::TARGET_FLAGS;

/// Programs whose commands in code font are checked.
const PROGRAMS: [&str; 3] = ["patchbay", "ovsdb-sim", "cargo"];

/// One program with its arguments.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Command {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.arguments.join(" "))
    }
}

/// Returns the commands of a block of shell. In a transcript only lines after a `$` are commands.
pub(crate) fn shell_commands(block: &str) -> Vec<Command> {
    let joined = block.replace("\\\n", " ");
    let is_transcript = joined.lines().any(|line| line.starts_with("$ "));
    let lines = joined
        .lines()
        .filter_map(|line| if is_transcript { line.strip_prefix("$ ") } else { Some(line) });
    lines.flat_map(|line| line.split(['|', ';', '&'])).filter_map(command).collect()
}

/// Returns the code spans that are commands, or flags of cargo that name a target.
pub(crate) fn inline_commands(spans: &[String]) -> Vec<Command> {
    spans
        .iter()
        .filter(|span| span.contains(' '))
        .filter_map(|span| {
            let is_target = TARGET_FLAGS.iter().any(|flag| span.starts_with(flag));
            if is_target { command(&format!("cargo test {span}")) } else { command(span) }
        })
        .filter(|command| PROGRAMS.contains(&&*command.program))
        .collect()
}

/// Reads one command: assignments in front of it and the comment behind it are dropped, and so are
/// quotation marks.
fn command(text: &str) -> Option<Command> {
    let mut words = text
        .split_whitespace()
        .take_while(|word| !word.starts_with('#'))
        .map(|word| word.trim_matches(['\'', '"', '[', ']']))
        .skip_while(|word| is_assignment(word));
    Some(Command {
        program: words.next()?.to_owned(),
        arguments: words.map(str::to_owned).collect(),
    })
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let mut letters = name.chars();
        !name.is_empty() && letters.all(|letter| letter.is_ascii_uppercase() || letter == '_')
    })
}

#[test]
fn commands_are_found_in_blocks_and_transcripts() {
    let program = |text| -> Vec<String> {
        let commands = shell_commands(text).into_iter();
        commands.map(|command| command.to_string()).collect()
    };
    assert_eq!(program("RUST_LOG=info a -x \\\n  y  # why\nb | c"), ["a -x y", "b ", "c "]);
    assert_eq!(program("$ a b\nits output\n"), ["a b"]);
}
