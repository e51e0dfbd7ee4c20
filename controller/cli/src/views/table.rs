//! Lines of rows in the formats of `-o`.

use std::io::{self, Write};

use patchbay_model::owner::Owner;
use patchbay_model::printable::printable;
use serde_json::{Map, Value, json};

use super::args::ViewFormat;
use super::index::RowView;
use crate::args::Format;
use crate::console::Console;
use crate::failure::Failure;

/// Width of a table, in characters.
const TABLE_COLUMNS: usize = 80;
/// Least width of a column that is shortened, in characters.
const MIN_WIDTH: usize = 6;
/// Maximum length of a cell, in bytes.
const MAX_CELL_BYTES: usize = 1_000;
/// Mark of a shortened cell.
const SHORTENED: char = '\u{2026}';

/// Column of a view.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// `true` if only `-o wide` has it.
    pub(super) is_wide: bool,
}

/// Row of a view.
pub(super) struct Line<'a> {
    pub(super) row: RowView<'a>,
    pub(super) owner: Option<Owner>,
    /// One for each column.
    pub(super) cells: Vec<String>,
}

/// Lines of all databases.
pub(super) struct Lines {
    kind: String,
    columns: Vec<Column>,
    has_zones: bool,
    printed: Vec<PrintedLine>,
}

struct PrintedLine {
    zone: String,
    table: String,
    name: String,
    uuid: String,
    owner: Option<Owner>,
    cells: Vec<String>,
}

impl Column {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, is_wide: false }
    }

    pub(super) const fn wide(name: &'static str) -> Self {
        Self { name, is_wide: true }
    }
}

impl<'a> Line<'a> {
    pub(super) fn new(row: RowView<'a>, cells: Vec<String>) -> Self {
        Self { owner: row.owner(), row, cells }
    }
}

impl Lines {
    pub(super) fn new(kind: impl Into<String>, columns: &[Column], has_zones: bool) -> Self {
        Self { kind: kind.into(), columns: columns.to_vec(), has_zones, printed: Vec::new() }
    }

    /// Adds the lines of a database.
    pub(super) fn add(&mut self, zone: &str, lines: Vec<Line<'_>>) {
        self.printed.extend(lines.into_iter().map(|line| PrintedLine {
            zone: zone.to_owned(),
            table: line.row.table_name().to_owned(),
            name: line.row.name(),
            uuid: line.row.uuid().to_string(),
            owner: line.owner,
            cells: line.cells,
        }));
    }

    pub(super) fn print(
        &self,
        format: ViewFormat,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        match format {
            ViewFormat::Json => console.document(&self.document(), Format::Json),
            ViewFormat::Yaml => console.document(&self.document(), Format::Yaml),
            ViewFormat::Name => Ok(console.write_long(|output| self.write_names(output))?),
            ViewFormat::Table | ViewFormat::Wide if self.printed.is_empty() => {
                Ok(console.report(&format!("no {} found", self.kind))?)
            }
            ViewFormat::Table => Ok(console.write_long(|output| self.write(false, output))?),
            ViewFormat::Wide => Ok(console.write_long(|output| self.write(true, output))?),
        }
    }

    fn document(&self) -> Value {
        let items = self.printed.iter().map(|line| {
            let mut item = Map::new();
            if self.has_zones {
                item.insert("zone".to_owned(), line.zone.as_str().into());
            }
            item.insert("table".to_owned(), line.table.as_str().into());
            item.insert("uuid".to_owned(), line.uuid.as_str().into());
            if let Some(Owner { kind, name }) = &line.owner {
                item.insert("owner".to_owned(), json!({"kind": kind, "name": name}));
            }
            for (column, cell) in self.columns.iter().zip(&line.cells) {
                let key = column.name.to_ascii_lowercase().replace(' ', "_");
                item.insert(key, cell.as_str().into());
            }
            Value::Object(item)
        });
        json!({
            "apiVersion": "patchbay/v1",
            "kind": "RowList",
            "rows": self.kind,
            "items": items.collect::<Vec<_>>(),
        })
    }

    fn write_names(&self, output: &mut dyn Write) -> io::Result<()> {
        for line in &self.printed {
            let name = printable(&line.name, MAX_CELL_BYTES);
            writeln!(output, "{}/{name}", line.table)?;
        }
        Ok(())
    }

    /// Writes a table. `is_wide`: with all columns, none of them shortened.
    fn write(&self, is_wide: bool, output: &mut dyn Write) -> io::Result<()> {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|place| is_wide || !self.columns[*place].is_wide)
            .collect();
        let has_owners = self.printed.iter().any(|line| line.owner.is_some());
        let mut header: Vec<String> =
            shown.iter().map(|place| self.columns[*place].name.to_owned()).collect();
        if self.has_zones {
            header.insert(0, "ZONE".to_owned());
        }
        if has_owners {
            header.push("OWNER".to_owned());
        }
        if is_wide {
            header.push("UUID".to_owned());
        }
        let mut rows = vec![header];
        for line in &self.printed {
            let zone = self.has_zones.then_some(line.zone.as_str());
            let cells = shown.iter().map(|place| line.cells[*place].as_str());
            let owner = line.owner.as_ref().map(ToString::to_string).unwrap_or_default();
            let owner = has_owners.then_some(owner.as_str());
            let uuid = is_wide.then_some(line.uuid.as_str());
            let texts = zone.into_iter().chain(cells).chain(owner).chain(uuid);
            rows.push(texts.map(|text| printable(text, MAX_CELL_BYTES).into_owned()).collect());
        }
        let count = rows[0].len();
        let length = |place: usize| rows.iter().map(|row| row[place].chars().count()).max();
        let mut widths: Vec<usize> = (0..count).map(|place| length(place).unwrap_or(0)).collect();
        if !is_wide {
            fit(&mut widths);
        }
        for row in &rows {
            let mut text = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let cell = shorten(cell, *width);
                let blanks = width - cell.chars().count().min(*width);
                text.push_str(&cell);
                text.push_str(&" ".repeat(blanks + 2));
            }
            writeln!(output, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// Shortens the widest columns until the table fits.
fn fit(widths: &mut [usize]) {
    let gaps = widths.len().saturating_sub(1) * 2;
    while widths.iter().sum::<usize>() + gaps > TABLE_COLUMNS {
        match widths.iter_mut().max() {
            Some(width) if *width > MIN_WIDTH => *width -= 1,
            _ => return,
        }
    }
}

fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain([SHORTENED]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_are_shortened() {
        let mut widths = [10, 100, 20, 50];
        fit(&mut widths);
        assert_eq!(widths.iter().sum::<usize>() + 6, 80);
        assert_eq!(widths[0], 10);
        assert_eq!(shorten("10.0.0.0/24", 6), "10.0.\u{2026}");
    }
}
