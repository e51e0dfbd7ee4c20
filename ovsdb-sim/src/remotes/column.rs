//! Columns that options and remotes name: `db:DATABASE,TABLE,COLUMN` (ovsdb-server(1)).

use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;

use crate::served_database::set::DatabaseSet;

/// Beginning of a text that names a column.
pub(crate) const COLUMN_PREFIX: &str = "db:";

/// Names of a column. It is looked up by them each time, because the database and its schema may
/// change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseColumn {
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) name: String,
}

impl DatabaseColumn {
    /// Parses `db:DATABASE,TABLE,COLUMN`. `None`: a name is missing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut names = text
            .strip_prefix(COLUMN_PREFIX)
            .unwrap_or(text)
            .split(',')
            .filter(|name| !name.is_empty());
        let mut next = || names.next().map(str::to_owned);
        Some(Self { database: next()?, table: next()?, name: next()? })
    }

    /// Finds the column of `db:DATABASE,TABLE,COLUMN`.
    ///
    /// # Errors
    /// There is no such column. The text is ovsdb-server's.
    pub(crate) fn find(databases: &DatabaseSet, text: &str) -> Result<Self, String> {
        let column = Self::parse(text).ok_or("invalid syntax")?;
        column.check(databases, false)?;
        Ok(column)
    }

    /// Checks that the column exists, and with `has_strings` that its elements are strings.
    ///
    /// # Errors
    /// The problem, in ovsdb-server's words.
    pub(crate) fn check(&self, databases: &DatabaseSet, has_strings: bool) -> Result<(), String> {
        let Self { database, table, name } = self;
        let served =
            databases.get(database).ok_or_else(|| format!("no database named {database}"))?;
        let schema = served.schema();
        let (_, found) =
            schema.table_by_name(table).ok_or_else(|| format!("no table named {table}"))?;
        let column = found
            .column_id(name)
            .ok_or_else(|| format!("table \"{table}\" has no column \"{name}\""))?;
        let ty = found.column_type(column);
        if has_strings && (ty.key.atom != AtomType::String || ty.is_map()) {
            return Err(format!(
                "table \"{table}\" column \"{name}\" is not string or set of strings"
            ));
        }
        Ok(())
    }

    /// Returns the first string in the column that is not empty.
    fn first_string(&self, databases: &DatabaseSet) -> Option<String> {
        let snapshot = databases.get(&self.database)?.snapshot();
        let (id, table) = snapshot.schema().table_by_name(&self.table)?;
        let place = table.column_id(&self.name)?;
        snapshot.table(id).iter().find_map(|row| {
            let Datum::Set(atoms) = &*row.get(place) else {
                return None;
            };
            atoms.iter().find_map(|atom| match atom {
                Atom::String(text) if !text.is_empty() => Some(text.to_string()),
                _ => None,
            })
        })
    }
}

/// Returns the value of an option: its text, or the first string that is not empty in the column
/// that it names.
pub(crate) fn read_option(option: Option<&str>, databases: &DatabaseSet) -> Option<String> {
    let option = option?;
    if !option.starts_with(COLUMN_PREFIX) {
        return Some(option.to_owned());
    }
    DatabaseColumn::parse(option)?.first_string(databases)
}
