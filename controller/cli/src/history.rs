//! `patchbay history`: the transactions of a database file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use patchbay_model::printable::printable;
use serde::Serialize;

use super::args::Format;
use super::console::Console;
use super::failure::Failure;
use super::files::{note_file, open_northbound, warn_of_damage, warn_of_lost};
use super::moment::time_text;
use patchbay_changes::{ChangeKind, ChangedRow, Snapshots};
use patchbay_sources::{Moment, OpenedFile};

/// Maximum number of rows of a table that a line names.
const MAX_NAMED_ROWS: usize = 3;
/// Maximum length of a comment or a name in a line, in bytes.
const MAX_TEXT_BYTES: usize = 200;

#[derive(Debug, Args)]
pub(super) struct History {
    /// A database file of a standalone database or of a member of a clustered database, as it is or
    /// packed with gzip or xz. It is only read, and may be in use.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Leave out transactions before this moment: the number of a record, or a time such as
    /// 2026-11-29T03:00:00Z.
    #[arg(long, value_name = "MOMENT")]
    since: Option<Moment>,
    /// Leave out transactions after this moment.
    #[arg(long, value_name = "MOMENT")]
    until: Option<Moment>,
    /// Print the columns of the rows, too.
    #[arg(long)]
    rows: bool,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    output: Format,
}

/// Transaction of the history.
#[derive(Serialize)]
struct Entry {
    record: u64,
    time: String,
    comment: String,
    /// `false` if the file does not show that its cluster has committed the transaction.
    committed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// `true` if the schema changes here.
    conversion: bool,
    rows: Vec<ChangedRow>,
}

/// Prints the transactions of a file, oldest first.
pub(super) fn history(arguments: &History, console: &mut Console<'_>) -> Result<(), Failure> {
    let OpenedFile { mut log, dumped, lost } = open_northbound(&arguments.file)?;
    warn_of_lost(&arguments.file, &lost, console)?;
    let mut entries = Vec::new();
    let mut before = log.snapshot();
    let (mut last, mut latest) = (None, None);
    loop {
        let next = log.next()?;
        let Some(transaction) = next else { break };
        let after = log.snapshot();
        (last, latest) = (transaction.time, latest.max(transaction.time));
        if arguments.shows(transaction.record, transaction.time) {
            let snapshots = Snapshots { before: &before, after: &after };
            let entry = Entry {
                record: transaction.record,
                time: time_text(transaction.time),
                comment: transaction.comment,
                committed: transaction.is_committed,
                problem: transaction.problem,
                conversion: transaction.is_conversion,
                rows: snapshots.changed_rows(&transaction.changes.rows),
            };
            match arguments.output {
                Format::Text => {
                    console.write_long(|output| entry.write(output, arguments.rows))?;
                }
                Format::Json | Format::Yaml => entries.push(entry),
            }
        }
        before = after;
    }
    warn_of_damage(&arguments.file, log.end(), console)?;
    note_file(&arguments.file, (last.or(dumped), latest), console)?;
    match arguments.output {
        Format::Text => Ok(()),
        format => console.document(&entries, format),
    }
}

impl History {
    fn shows(&self, record: u64, time: Option<std::time::SystemTime>) -> bool {
        let is_before = match (self.since, time) {
            (Some(Moment::Record(first)), _) => record < first,
            (Some(Moment::Time(first)), Some(time)) => time < first,
            (Some(Moment::Time(_)) | None, _) => false,
        };
        !is_before && self.until.is_none_or(|until| until.includes(record, time))
    }
}

impl Entry {
    fn write(&self, output: &mut dyn Write, has_columns: bool) -> io::Result<()> {
        let Self { record, time, comment, committed, problem, conversion, rows } = self;
        let comment = printable(comment, MAX_TEXT_BYTES);
        writeln!(output, "{}", format!("{record}  {time}  {comment}").trim_end())?;
        if !committed {
            writeln!(output, "    not known to be committed")?;
        }
        if let Some(problem) = problem {
            writeln!(output, "    without effect: {}", printable(problem, MAX_TEXT_BYTES))?;
        }
        if *conversion {
            writeln!(output, "    another schema")?;
        }
        if has_columns {
            return rows.iter().try_for_each(|row| write!(output, "{row}"));
        }
        write_counted(output, rows)
    }
}

/// Writes a line for each table and kind of change: the names of the first rows and the number of
/// all others.
pub(super) fn write_counted(output: &mut dyn Write, rows: &[ChangedRow]) -> io::Result<()> {
    let mut groups: BTreeMap<(ChangeKind, &str), Vec<&str>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.change, &row.table)).or_default().push(&row.row);
    }
    for ((kind, table), names) in groups {
        let named = names.iter().take(MAX_NAMED_ROWS);
        let named: Vec<_> = named.map(|name| printable(name, MAX_TEXT_BYTES)).collect();
        let more = match names.len().checked_sub(MAX_NAMED_ROWS) {
            Some(more @ 1..) => format!(" and {more} more"),
            _ => String::new(),
        };
        writeln!(output, "    {} {table} {}{more}", kind.sign(), named.join(", "))?;
    }
    Ok(())
}
