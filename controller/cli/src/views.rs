//! `patchbay routes`, `policies`, `acls`, `nat`, `lbs`, `ports` and `get`: rows of Northbound
//! databases, with names in place of UUIDs and with the objects for which they exist.

pub(super) mod args;
mod get;
mod index;
mod kinds;
mod selection;
pub(crate) mod source;
mod table;
pub(super) mod watch;

use super::console::Console;
use super::failure::Failure;
use args::View;
pub(super) use get::get;
use index::Index;
pub(super) use kinds::Kind;
use selection::Selection;
use table::{Line, Lines};

/// Prints the rows of a kind.
pub(super) async fn view(
    kind: Kind,
    arguments: &View,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let databases = source::read(&arguments.source, console).await?;
    let mut lines = Lines::new(kind.name(), kind.columns(), databases.len() > 1);
    for database in &databases {
        let index = Index::new(&database.snapshot);
        let selection = Selection::new(&arguments.filters, &index);
        let rows = kind.lines(&index);
        let rows = rows.into_iter().filter(|line| selection.accepts(line));
        lines.add(&database.zone, rows.collect::<Vec<Line>>());
    }
    lines.print(arguments.output, console)
}
