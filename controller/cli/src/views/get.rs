//! `patchbay get`: rows of any table.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use patchbay_engine::db::RowChange;
use patchbay_model::printable::printable;
use serde::Serialize;

use super::args::{Get, ViewFormat};
use super::index::{Index, RowView};
use super::selection::Selection;
use super::source;
use super::table::{Column, Line, Lines};
use crate::args::Format;
use crate::console::Console;
use crate::failure::Failure;
use patchbay_changes::{ChangedRow, MAX_ELEMENT_BYTES, Snapshots};

/// Short names of tables.
const SHORT_NAMES: [(&str, &str); 12] = [
    ("acl", "ACL"),
    ("dhcp", "DHCP_Options"),
    ("lb", "Load_Balancer"),
    ("lr", "Logical_Router"),
    ("lrp", "Logical_Router_Port"),
    ("ls", "Logical_Switch"),
    ("lsp", "Logical_Switch_Port"),
    ("nat", "NAT"),
    ("pg", "Port_Group"),
    ("policy", "Logical_Router_Policy"),
    ("route", "Logical_Router_Static_Route"),
    ("set", "Address_Set"),
];
/// Columns of a table of rows.
const COLUMNS: [Column; 2] = [Column::new("NAME"), Column::new("ON")];
/// Least number of digits of the beginning of a UUID.
const MIN_UUID_DIGITS: usize = 4;

/// Row with all columns that are set.
#[derive(Serialize)]
struct FullRow {
    zone: String,
    table: String,
    uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    columns: BTreeMap<String, Vec<String>>,
}

/// Prints the rows of a table, or one of them with its columns.
pub(crate) async fn get(arguments: &Get, console: &mut Console<'_>) -> Result<(), Failure> {
    let databases = source::read(&arguments.source, console).await?;
    let mut full = Vec::new();
    let mut lines = Lines::new("rows", &COLUMNS, databases.len() > 1);
    for database in &databases {
        let index = Index::new(&database.snapshot);
        let table = table_name(&index, &arguments.table)?;
        let selection = Selection::new(&arguments.filters, &index);
        let rows = index
            .rows(&table)
            .into_iter()
            .filter(|row| arguments.row.as_ref().is_none_or(|name| is_meant(row, name)));
        let rows = rows.map(|row| {
            let holders = index.holders(row.uuid()).iter().map(RowView::name);
            Line::new(row, vec![row.name(), holders.collect::<Vec<_>>().join(",")])
        });
        let rows: Vec<_> = rows.filter(|line| selection.accepts(line)).collect();
        full.extend(rows.iter().map(|line| full_row(&database.zone, &index, line)));
        lines.add(&database.zone, rows);
    }
    if let Some(row) = arguments.row.as_ref().filter(|_| full.is_empty()) {
        let message = format!("table {} has no row {row}", arguments.table);
        return Err(Failure::Arguments(message));
    }
    match arguments.output {
        ViewFormat::Json => console.document(&full, Format::Json),
        ViewFormat::Yaml => console.document(&full, Format::Yaml),
        ViewFormat::Table | ViewFormat::Wide if arguments.row.is_some() => {
            Ok(console.write_long(|output| full.iter().try_for_each(|row| row.write(output)))?)
        }
        format => lines.print(format, console),
    }
}

/// The table of a name: its own in any case, with `-` for `_`, or a short one.
fn table_name(index: &Index<'_>, name: &str) -> Result<String, Failure> {
    let schema = index.snapshot.schema();
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let short = SHORT_NAMES.iter().find(|(short, _)| *short == plain).map(|(_, table)| *table);
    let mut tables: Vec<&str> =
        schema.table_ids().map(|table| &*schema.table(table).name).collect();
    tables.sort_unstable();
    let singular = plain.strip_suffix('s').unwrap_or(&plain);
    let found = tables.iter().find(|table| {
        let own = table.to_ascii_lowercase();
        Some(**table) == short || own == plain || own == singular
    });
    found.map(|table| (*table).to_owned()).ok_or_else(|| {
        let message = format!("no table {name}; the tables are {}", tables.join(", "));
        Failure::Arguments(message)
    })
}

/// `true` if a name or the beginning of a UUID stands for a row.
fn is_meant(row: &RowView<'_>, name: &str) -> bool {
    let is_uuid = name.len() >= MIN_UUID_DIGITS && row.uuid().to_string().starts_with(name);
    is_uuid || row.name() == name || row.owner().is_some_and(|owner| owner.name == name)
}

fn full_row(zone: &str, index: &Index<'_>, line: &Line<'_>) -> FullRow {
    let snapshots = Snapshots { before: index.snapshot, after: index.snapshot };
    let change =
        RowChange { table: line.row.table, old: None, new: Some(Arc::clone(line.row.row)) };
    let changed = snapshots.changed_rows(&[change]);
    let columns = changed.into_iter().next().map(ChangedRow::into_elements).unwrap_or_default();
    FullRow {
        zone: zone.to_owned(),
        table: line.row.table_name().to_owned(),
        uuid: line.row.uuid().to_string(),
        owner: line.owner.as_ref().map(ToString::to_string),
        columns,
    }
}

impl FullRow {
    fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "{} {}", self.table, self.uuid)?;
        if let Some(owner) = &self.owner {
            writeln!(output, "    for {}", printable(owner, MAX_ELEMENT_BYTES))?;
        }
        for (column, elements) in &self.columns {
            for element in elements {
                writeln!(output, "    {column}: {}", printable(element, MAX_ELEMENT_BYTES))?;
            }
        }
        Ok(())
    }
}
