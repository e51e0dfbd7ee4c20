//! Tables in the formats of `ovsdb-client`: table, list, csv and json.

use serde::Deserialize;
use serde_json::Value;

/// End of the line with the name of a table.
const CAPTION: &str = " table";
/// Beginning of a table in JSON.
const JSON_BEGIN: &str = r#"{"caption":""#;
/// Maximum number of characters of a damaged line in a message.
const MAX_SHOWN: usize = 40;

/// Table of a dump.
#[derive(Debug, Default)]
pub(super) struct DumpedTable {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// Value in a dump.
#[derive(Debug)]
pub(super) enum Cell {
    /// As `ovs-vsctl` prints it.
    Text(String),
    /// As on the wire (RFC 7047).
    Json(Value),
}

/// Tables of a dump, and what is lost.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) tables: Vec<DumpedTable>,
    pub(super) lost: Vec<String>,
}

/// `true` for the beginning of a dump, of at least 64 bytes or the whole text.
pub(crate) fn is_dump(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begin);
    let packed: String =
        text.chars().filter(|one| !one.is_whitespace()).take(JSON_BEGIN.len()).collect();
    packed == JSON_BEGIN || text.split_once('\n').is_some_and(|(first, _)| caption(first).is_some())
}

/// The table of a line that begins one.
fn caption(line: &str) -> Option<&str> {
    let name = line.trim_end_matches('\r').strip_suffix(CAPTION)?;
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let is_name =
        name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(is_part);
    is_name.then_some(name)
}

impl Tables {
    /// Reads the tables of a dump.
    pub(super) fn read(text: &str) -> Self {
        if text.trim_start().starts_with('{') { Self::of_json(text) } else { Self::of_text(text) }
    }

    fn of_json(text: &str) -> Self {
        #[derive(Deserialize)]
        struct JsonTable {
            caption: String,
            headings: Vec<String>,
            data: Vec<Vec<Value>>,
        }
        let mut found = Self::default();
        for table in serde_json::Deserializer::from_str(text).into_iter::<JsonTable>() {
            let table = match table {
                Ok(table) => table,
                Err(error) => {
                    let last = found.tables.last().map_or("the beginning", |table| &table.name);
                    let line = error.line();
                    found
                        .lost
                        .push(format!("everything after {last} is lost: line {line} is no table"));
                    break;
                }
            };
            let Some(name) = caption(&table.caption) else {
                found.lost.push("a table without a name is left out".to_owned());
                continue;
            };
            let rows = table.data.into_iter();
            found.add(DumpedTable {
                name: name.to_owned(),
                columns: table.headings,
                rows: rows.map(|row| row.into_iter().map(Cell::Json).collect()).collect(),
            });
        }
        found
    }

    fn of_text(text: &str) -> Self {
        let mut found = Self::default();
        // A program that ends whole writes whole lines.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines().peekable();
        let mut is_first = true;
        while let Some(line) = lines.next() {
            let name = caption(line).filter(|_| is_first);
            is_first = line.is_empty();
            let Some(name) = name else {
                if !line.is_empty() {
                    let shown: String = line.chars().take(MAX_SHOWN).collect();
                    found.lost.push(format!("a line is of no table: {shown:?}"));
                }
                continue;
            };
            let mut body = Vec::new();
            let mut is_after_blank = false;
            while let Some(line) =
                lines.next_if(|line| !(is_after_blank && caption(line).is_some()))
            {
                is_after_blank = line.is_empty();
                body.push(line);
            }
            is_first = true;
            found.add_block(name, &body);
        }
        if whole.len() < text.len() {
            let last = found.tables.last().map_or("the beginning", |table| &table.name);
            found.lost.push(format!("the text ends within a line of {last}: the rest is lost"));
        }
        found
    }

    /// Adds a table from the lines behind its name.
    fn add_block(&mut self, name: &str, body: &[&str]) {
        let mut table = DumpedTable { name: name.to_owned(), ..DumpedTable::default() };
        let first = body.first().copied().unwrap_or_default();
        let second = body.get(1).copied().unwrap_or_default();
        if first.is_empty() {
            return self.add(table);
        }
        if second.starts_with('-') && second.bytes().all(|byte| matches!(byte, b'-' | b' ')) {
            let widths: Vec<usize> = second.split(' ').map(str::len).collect();
            table.columns = first.split_whitespace().map(str::to_owned).collect();
            let lines = body[2..].iter().filter(|line| !line.is_empty());
            table.rows = lines.map(|line| cut(line, &widths)).collect();
        } else if list_member(first).is_some() {
            table.read_list(body);
        } else {
            table.columns = fields(first);
            let lines = body[1..].iter().filter(|line| !line.is_empty());
            table.rows =
                lines.map(|line| fields(line).into_iter().map(Cell::Text).collect()).collect();
        }
        self.add(table);
    }

    /// Adds a table without the rows that lack a value.
    fn add(&mut self, mut table: DumpedTable) {
        let count = table.rows.len();
        let columns = table.columns.len();
        table.rows.retain(|row| row.len() == columns);
        let cut = count - table.rows.len();
        if cut > 0 {
            let rows = if cut == 1 { "row is" } else { "rows are" };
            self.lost.push(format!("table {}: {cut} {rows} not whole, and left out", table.name));
        }
        if self.tables.iter().any(|other| other.name == table.name) {
            self.lost.push(format!("table {} comes twice: the first one is read", table.name));
            return;
        }
        self.tables.push(table);
    }
}

impl DumpedTable {
    /// Reads rows of which each value is a line.
    fn read_list(&mut self, body: &[&str]) {
        for row in body.split(|line| line.is_empty()).filter(|row| !row.is_empty()) {
            let members: Vec<_> = row.iter().filter_map(|line| list_member(line)).collect();
            if self.columns.is_empty() {
                self.columns = members.iter().map(|(column, _)| (*column).to_owned()).collect();
            }
            let columns = members.iter().map(|(column, _)| *column);
            let is_whole = members.len() == row.len() && columns.eq(self.columns.iter());
            let cells = members.iter().map(|(_, value)| Cell::Text((*value).to_owned()));
            // A row of another length is left out with a message.
            self.rows.push(if is_whole { cells.collect() } else { Vec::new() });
        }
    }
}

/// Column and value of a line of a list.
fn list_member(line: &str) -> Option<(&str, &str)> {
    let (column, value) = line.split_once(':')?;
    let column = column.trim_end();
    let is_name = column.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let value = value.strip_prefix(' ').or(value.is_empty().then_some(""))?;
    (is_name && !column.is_empty()).then_some((column, value))
}

/// Cells of a line by the widths of the columns, in bytes. A short line has fewer cells.
fn cut(line: &str, widths: &[usize]) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(widths.len());
    let mut rest = line;
    for (place, width) in widths.iter().enumerate() {
        let is_last = place + 1 == widths.len();
        let end = if is_last { rest.len() } else { *width };
        let Some((cell, behind)) = rest.split_at_checked(end) else {
            return Vec::new();
        };
        cells.push(Cell::Text(cell.trim_end_matches(' ').to_owned()));
        rest = match behind.strip_prefix(' ') {
            Some(behind) => behind,
            None if is_last => "",
            None => return Vec::new(),
        };
    }
    cells
}

/// Fields of a line of comma-separated values (RFC 4180).
fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let mut field = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let Some((text, behind)) = quoted.split_once('"') else {
                    // The quotation mark at the end is lost.
                    return Vec::new();
                };
                field.push_str(text);
                let Some(more) = behind.strip_prefix('"') else {
                    rest = behind;
                    break;
                };
                field.push('"');
                quoted = more;
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            field.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind,
            None if rest.is_empty() => return fields,
            None => return Vec::new(),
        }
    }
}
