//! `patchbay watch`: changes of a Northbound database as they commit.

use std::time::SystemTime;

use patchbay_engine::db::RowChange;
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::northbound::Northbound as _;

use super::args::WatchRows;
use crate::console::Console;
use crate::failure::Failure;
use crate::history::write_counted;
use crate::moment::time_text;
use crate::stop::Stop;
use crate::zones::open_remote;
use patchbay_changes::Snapshots;

/// Prints each change of a database until Ctrl-C or SIGTERM.
pub(crate) async fn watch(arguments: &WatchRows, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut stop = Stop::new()?;
    let remote = open_remote(&arguments.nb, &arguments.keys, arguments.limit, console).await?;
    let mut changes = remote.changes();
    let mut before = remote.snapshot();
    let rows = before.row_count();
    console.report(&format!("watching {} with {rows} rows", arguments.nb))?;
    let mut left = arguments.count;
    while left != Some(0) {
        let after = tokio::select! {
            after = changes.next() => after,
            () = stop.asked() => return Ok(()),
        };
        let Ok(after) = after else {
            let message = format!("{}: the connection is closed", arguments.nb);
            return Err(Failure::Arguments(message));
        };
        if print(arguments, (&before, &after), console)? {
            left = left.map(|left| left - 1);
        }
        before = after;
    }
    Ok(())
}

/// Prints what has changed between two states. Returns `false` if nothing has.
fn print(
    arguments: &WatchRows,
    (before, after): (&Snapshot, &Snapshot),
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let time = time_text(Some(SystemTime::now()));
    let changes: Option<Vec<RowChange>> = after.changes_since(before);
    let Some(changes) = changes else {
        writeln!(console.output, "{time}\n    another state after a lost connection")?;
        console.output.flush()?;
        return Ok(true);
    };
    let rows = Snapshots { before, after }.changed_rows(&changes);
    if rows.is_empty() {
        return Ok(false);
    }
    console.write_long(|output| {
        writeln!(output, "{time}")?;
        if arguments.rows {
            return rows.iter().try_for_each(|row| write!(output, "{row}"));
        }
        write_counted(output, &rows)
    })?;
    console.output.flush()?;
    Ok(true)
}
