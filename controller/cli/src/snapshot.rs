//! `patchbay snapshot`: all rows of a Northbound database as a text that is equal for equal content.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use patchbay_nbctl_text::northbound;

use super::console::Console;
use super::failure::Failure;
use super::one_database::OneDatabase;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("database").required(true).multiple(false))]
pub(super) struct Snapshot {
    #[command(flatten)]
    database: OneDatabase,
    /// Compare the text with this file, and print what differs.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Write the file instead.
    #[arg(long, requires = "check")]
    update: bool,
}

/// Prints the text, compares it with a file, or writes the file. Returns `true` unless it differs.
pub(super) async fn snapshot(
    arguments: &Snapshot,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let (_, content) = arguments.database.read(console).await?;
    let text = northbound(&content);
    let Some(path) = &arguments.check else {
        console.write_long(|output| output.write_all(text.as_bytes()))?;
        return Ok(true);
    };
    let failure =
        |error: std::io::Error| Failure::Arguments(format!("{}: {error}", path.display()));
    if arguments.update {
        fs::write(path, text).map_err(failure)?;
        return Ok(true);
    }
    let wanted = match fs::read_to_string(path) {
        Ok(wanted) => wanted,
        // A new test, whose first file `--update` writes.
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failure(error)),
    };
    if wanted == text {
        return Ok(true);
    }
    let lines = differing_lines(&wanted, &text);
    console.write_long(|output| {
        writeln!(output, "{} differs; --update writes it", path.display())?;
        lines.iter().try_for_each(|line| writeln!(output, "{line}"))
    })?;
    Ok(false)
}

/// The lines between the common beginning and the common end of two texts: `-` those of the first,
/// `+` those of the second.
fn differing_lines(first: &str, second: &str) -> Vec<String> {
    let (first, second): (Vec<_>, Vec<_>) = (first.lines().collect(), second.lines().collect());
    let common = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
    let (first, second) = (&first[common..], &second[common..]);
    let end = first.iter().rev().zip(second.iter().rev()).take_while(|(a, b)| a == b).count();
    let lines = |lines: &[&str], sign: char| {
        let differing = lines[..lines.len() - end].iter();
        differing.map(|line| format!("{sign} {line}")).collect::<Vec<_>>()
    };
    [lines(first, '-'), lines(second, '+')].concat()
}
