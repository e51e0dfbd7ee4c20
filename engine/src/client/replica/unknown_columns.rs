//! Warnings about columns that a server reports and its schema lacks.

use std::collections::BTreeSet;

/// Number of columns that are logged per connection, so that a server cannot fill memory with names.
const MAX_LOGGED_COLUMNS: usize = 100;

/// Unknown columns that were logged for a connection: each once, not with each update.
#[derive(Debug, Default)]
pub(super) struct UnknownColumns(BTreeSet<String>);

impl UnknownColumns {
    /// Forgets what was logged for the connection before.
    pub(super) fn begin_connection(&mut self) {
        self.0.clear();
    }

    /// Logs the columns that are new for the connection.
    pub(super) fn warn<'a>(&mut self, columns: impl Iterator<Item = &'a str>) {
        for column in columns {
            if self.insert(column) {
                tracing::warn!(column, "the server reported a column that its schema lacks");
            }
        }
    }

    /// The number of columns that were logged.
    #[cfg(test)]
    pub(super) fn logged(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the column is to be logged.
    fn insert(&mut self, column: &str) -> bool {
        self.0.len() < MAX_LOGGED_COLUMNS
            && !self.0.contains(column)
            && self.0.insert(column.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_logged_once_per_connection() {
        let mut columns = UnknownColumns::default();
        assert!(columns.insert("T.a"));
        assert!(columns.insert("T.b"));
        assert!(!columns.insert("T.a"));
        columns.begin_connection();
        assert!(columns.insert("T.a"));
    }

    #[test]
    fn a_server_with_many_names_is_logged_to_a_limit() {
        let mut columns = UnknownColumns::default();
        let logged = (0..1000).filter(|i| columns.insert(&format!("T.{i}")));
        assert_eq!(logged.count(), MAX_LOGGED_COLUMNS);
    }
}
