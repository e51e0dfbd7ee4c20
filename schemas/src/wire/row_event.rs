//! Encoding of row updates: a change of a row as one monitor reports it.

use crate::delta::Delta;
use crate::json::write;
use crate::row::Row;
use crate::schema::{ColumnId, TableSchema};

use super::monitor::{MonitorTable, MonitorVersion, Select};

/// Change of a row, filtered by the condition of a monitor.
#[derive(Clone, Copy, Debug)]
pub enum RowEvent<'a> {
    /// The row satisfies the condition when the monitor starts.
    Initial(&'a Row),
    /// The row was inserted, or begins to satisfy the condition.
    Insert(&'a Row),
    /// The row was modified and still satisfies the condition.
    Modify {
        /// Version before the change.
        old: &'a Row,
        /// Version after the change.
        new: &'a Row,
    },
    /// The row was deleted, or ceases to satisfy the condition.
    Delete(&'a Row),
}

impl RowEvent<'_> {
    /// `true` if `select` includes this kind of change.
    fn is_selected(self, select: Select) -> bool {
        match self {
            Self::Initial(_) => select.initial,
            Self::Insert(_) => select.insert,
            Self::Modify { .. } => select.modify,
            Self::Delete(_) => select.delete,
        }
    }
}

impl MonitorTable {
    /// Returns the event of a change from `old` to `new`. `None`: neither version satisfies the
    /// condition.
    pub fn event<'a>(&self, old: Option<&'a Row>, new: Option<&'a Row>) -> Option<RowEvent<'a>> {
        let seen = |row: &&Row| self.condition.matches_any(row);
        match (old.filter(seen), new.filter(seen)) {
            (None, None) => None,
            (None, Some(new)) => Some(RowEvent::Insert(new)),
            (Some(old), Some(new)) => Some(RowEvent::Modify { old, new }),
            (Some(old), None) => Some(RowEvent::Delete(old)),
        }
    }

    /// Appends the `<row-update>` or `<row-update2>` of an event.
    ///
    /// False: the event is not reported, and nothing was appended. Either the monitor does not
    /// select its kind, or no column changed that is requested or part of the condition.
    pub fn write_event(
        &self,
        event: RowEvent<'_>,
        table: &TableSchema,
        version: MonitorVersion,
        out: &mut Vec<u8>,
    ) -> bool {
        if !event.is_selected(self.select) {
            return false;
        }
        let selected = self.columns.iter().filter(|(_, select)| event.is_selected(*select));
        let columns = Columns { table, selected: selected.map(|(column, _)| *column) };
        let v1 = version == MonitorVersion::V1;
        match event {
            RowEvent::Modify { old, new } => {
                let changed = |column| old.get(column) != new.get(column);
                if !self.watched().any(changed) {
                    return false;
                }
                if v1 {
                    out.extend_from_slice(b"{\"old\":");
                    columns.clone().write(out, old, |column, _| changed(column));
                    out.extend_from_slice(b",\"new\":");
                    columns.write(out, new, |_, _| true);
                } else {
                    out.extend_from_slice(b"{\"modify\":");
                    columns.write_differences(out, old, new);
                }
            }
            RowEvent::Initial(row) | RowEvent::Insert(row) if v1 => {
                out.extend_from_slice(b"{\"new\":");
                columns.write(out, row, |_, _| true);
            }
            RowEvent::Initial(row) | RowEvent::Insert(row) => {
                let initial = matches!(event, RowEvent::Initial(_));
                out.extend_from_slice(if initial { b"{\"initial\":" } else { b"{\"insert\":" });
                columns.write(out, row, |column, row| !row.is_default(column, table));
            }
            RowEvent::Delete(row) if v1 => {
                out.extend_from_slice(b"{\"old\":");
                columns.write(out, row, |_, _| true);
            }
            RowEvent::Delete(_) => out.extend_from_slice(b"{\"delete\":null"),
        }
        out.push(b'}');
        true
    }

    /// Returns the columns whose changes are events: the requested columns, and the columns of the
    /// condition.
    fn watched(&self) -> impl Iterator<Item = ColumnId> {
        let requested = self.columns.iter().map(|(column, _)| *column);
        requested.chain(self.condition.columns().iter().copied())
    }
}

/// Columns of a table that are written as the members of an object.
#[derive(Clone)]
struct Columns<'a, I> {
    table: &'a TableSchema,
    selected: I,
}

impl<I: Iterator<Item = ColumnId>> Columns<'_, I> {
    /// Appends the values of the columns for which `wanted` returns `true`.
    fn write(self, out: &mut Vec<u8>, row: &Row, wanted: impl Fn(ColumnId, &Row) -> bool) {
        let (table, start) = (self.table, out.len());
        for column in self.selected.filter(|column| wanted(*column, row)) {
            write_name(out, start, table.column_name(column));
            row.get(column).write_json(out);
        }
        close(out, start);
    }

    /// Appends the differences of the columns that changed.
    fn write_differences(self, out: &mut Vec<u8>, old: &Row, new: &Row) {
        let (table, start) = (self.table, out.len());
        for column in self.selected {
            let ty = table.column_type(column);
            if let Some(delta) = Delta::between(&old.get(column), &new.get(column), ty) {
                write_name(out, start, table.column_name(column));
                delta.write_json(out);
            }
        }
        close(out, start);
    }
}

/// Appends the name of a member to the object that starts at `start`.
fn write_name(out: &mut Vec<u8>, start: usize, name: &str) {
    out.push(if out.len() == start { b'{' } else { b',' });
    write::string(out, name.as_bytes());
    out.push(b':');
}

/// Ends the object that starts at `start`.
fn close(out: &mut Vec<u8>, start: usize) {
    if out.len() == start {
        out.push(b'{');
    }
    out.push(b'}');
}
