//! Filters of replica tables, and their change while the replica follows the database.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::wire::{Clause, Condition, Function};
use tokio::sync::oneshot;

/// A condition on the rows of a table that the replica holds. Clauses are joined by "or".
///
/// ```
/// use patchbay_engine::client::{Config, Filter};
/// use patchbay_schemas::datum::Datum;
/// use patchbay_schemas::wire::Function;
///
/// let unix = "unix:/run/ovn/ovnsb_db.sock".parse()?;
/// let config = Config::new(unix, "OVN_Southbound")
///     .with_columns("Port_Binding", ["logical_port", "type"])
///     .with_filter(
///         "Port_Binding",
///         Filter::column("type", Function::Equal, Datum::scalar("localport"))
///             .or(Filter::column("logical_port", Function::Equal, Datum::scalar("lsp0"))),
///     );
/// # Ok::<(), patchbay_engine::client::RemoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(FilterRows);

#[derive(Clone, Debug, PartialEq, Eq)]
enum FilterRows {
    All,
    Any(Vec<FilterClause>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FilterClause {
    column: String,
    function: Function,
    argument: Datum,
}

impl Filter {
    /// All rows.
    pub fn all() -> Self {
        Self(FilterRows::All)
    }

    /// No rows.
    pub fn none() -> Self {
        Self(FilterRows::Any(Vec::new()))
    }

    /// Rows whose column compares to a value in this way. Selects no rows if the server's schema
    /// lacks the column.
    pub fn column(column: impl Into<String>, function: Function, argument: Datum) -> Self {
        Self(FilterRows::Any(vec![FilterClause { column: column.into(), function, argument }]))
    }

    /// Rows that at least one of the two filters selects.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self.0, other.0) {
            (FilterRows::Any(mut clauses), FilterRows::Any(more)) => {
                clauses.extend(more);
                Self(FilterRows::Any(clauses))
            }
            _ => Self::all(),
        }
    }

    /// The monitor condition for this filter.
    pub(super) fn condition(&self, table: &TableSchema) -> Condition {
        let FilterRows::Any(clauses) = &self.0 else {
            return Condition::default();
        };
        let mut clauses: Vec<_> = clauses
            .iter()
            .filter_map(|clause| {
                Some(Clause::Column {
                    column: table.column_id(&clause.column)?,
                    function: clause.function,
                    argument: clause.argument.clone(),
                })
            })
            .collect();
        if clauses.is_empty() {
            // A monitor without clauses reports all rows.
            clauses.push(Clause::Bool(false));
        }
        Condition::new(clauses)
    }
}

/// Reason why a filter was not applied.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The replica does not hold the table.
    #[error("the replica does not hold table {table}")]
    NoTable {
        /// The table.
        table: String,
    },
    /// The client is [embedded](super::Client::embedded) and reads the whole database.
    #[error("an embedded client has no replica to filter")]
    NoReplica,
    /// The server rejected the filter, because the column's type does not allow the function or
    /// argument. The previous filter is in effect again.
    #[error("the server rejected the filter of table {table}: {error}")]
    Refused {
        /// The table.
        table: String,
        /// The server's error.
        error: Arc<str>,
    },
    /// The client is closed.
    #[error(transparent)]
    ClientClosed(#[from] super::ClientClosed),
}

/// A request of a handle to change a filter.
#[derive(Debug)]
pub(super) struct FilterChange {
    pub(super) table: String,
    pub(super) filter: Filter,
    pub(super) done: oneshot::Sender<Result<(), FilterError>>,
}

/// The filters of a client, and the handles that wait for theirs to take effect.
#[derive(Debug, Default)]
pub(super) struct Filters {
    wanted: BTreeMap<String, Filter>,
    /// Changes that are part of `wanted` but may not be in effect yet, in order.
    pending: Vec<PendingFilter>,
    /// Number of pending changes, from the front, that were sent to the server.
    sent: usize,
}

#[derive(Debug)]
struct PendingFilter {
    table: String,
    /// The wanted filter before this change.
    before: Option<Filter>,
    done: oneshot::Sender<Result<(), FilterError>>,
}

impl Filters {
    pub(super) fn new(wanted: BTreeMap<String, Filter>) -> Self {
        Self { wanted, ..Self::default() }
    }

    pub(super) fn wanted(&self) -> &BTreeMap<String, Filter> {
        &self.wanted
    }

    /// Adds a change that is to be sent.
    pub(super) fn request_change(&mut self, change: FilterChange) {
        let FilterChange { table, filter, done } = change;
        let before = self.wanted.insert(table.clone(), filter);
        self.pending.push(PendingFilter { table, before, done });
    }

    /// `true` if some changes were not sent to the server.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.pending.len()
    }

    /// Marks all changes as sent.
    pub(super) fn mark_sent(&mut self) {
        self.sent = self.pending.len();
    }

    /// Removes the sent changes, which are in effect now.
    pub(super) fn take_applied(&mut self) -> AppliedFilters {
        let sent = std::mem::take(&mut self.sent);
        AppliedFilters(self.pending.drain(..sent).map(|it| it.done).collect())
    }

    /// Removes the sent changes, which the server rejected. The filters before them are wanted
    /// again, except where a later change has replaced them.
    pub(super) fn reject_sent(&mut self, error: &str) {
        let error: Arc<str> = error.into();
        let sent = std::mem::take(&mut self.sent);
        let rejected: Vec<_> = self.pending.drain(..sent).collect();
        for PendingFilter { table, before, done } in rejected.into_iter().rev() {
            // The first of several changes of one table knows the filter that was in effect.
            match self.pending.iter_mut().find(|later| later.table == table) {
                Some(later) => later.before = before,
                None => {
                    match before {
                        Some(before) => self.wanted.insert(table.clone(), before),
                        None => self.wanted.remove(&table),
                    };
                }
            }
            let error = error.clone();
            // The handle may have dropped its future.
            let _ = done.send(Err(FilterError::Refused { table, error }));
        }
    }
}

/// Handles whose filters have taken effect.
#[derive(Debug)]
pub(super) struct AppliedFilters(Vec<oneshot::Sender<Result<(), FilterError>>>);

impl AppliedFilters {
    /// Notifies the handles.
    pub(super) fn notify(self) {
        for done in self.0 {
            // The handle may have dropped its future.
            let _ = done.send(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = oneshot::Receiver<Result<(), FilterError>>;

    fn change(filters: &mut Filters, table: &str, value: i64) -> Outcome {
        let (done, outcome) = oneshot::channel();
        filters.request_change(FilterChange { table: table.into(), filter: equal(value), done });
        outcome
    }

    fn equal(value: i64) -> Filter {
        Filter::column("c", Function::Equal, Datum::scalar(value))
    }

    #[test]
    fn a_reply_applies_sent_changes_and_leaves_later_ones_pending() {
        let mut filters = Filters::default();
        let mut first = change(&mut filters, "T", 1);
        filters.mark_sent();
        let mut second = change(&mut filters, "T", 2);
        assert!(filters.has_unsent());
        filters.take_applied().notify();
        assert!(first.try_recv().unwrap().is_ok());
        assert!(second.try_recv().is_err());
        assert_eq!(filters.wanted()["T"], equal(2));
    }

    #[test]
    fn rejected_changes_restore_the_previous_filters() {
        let mut filters = Filters::new([("T".to_owned(), equal(0))].into());
        let mut refused = [1, 2].map(|value| change(&mut filters, "T", value));
        let mut other = change(&mut filters, "U", 3);
        filters.mark_sent();
        filters.reject_sent("no such thing");
        for outcome in &mut refused {
            let error = outcome.try_recv().unwrap().unwrap_err();
            assert_eq!(
                error.to_string(),
                "the server rejected the filter of table T: no such thing"
            );
        }
        assert!(other.try_recv().unwrap().is_err());
        assert_eq!(filters.wanted(), &[("T".to_owned(), equal(0))].into());
    }

    #[test]
    fn a_later_change_survives_the_rejection_of_an_earlier_one_but_not_its_own() {
        let mut filters = Filters::new([("T".to_owned(), equal(0))].into());
        let _first = change(&mut filters, "T", 1);
        filters.mark_sent();
        let _second = change(&mut filters, "T", 2);
        filters.reject_sent("no");
        assert_eq!(filters.wanted()["T"], equal(2));
        filters.mark_sent();
        filters.reject_sent("no");
        assert_eq!(filters.wanted()["T"], equal(0));
    }

    #[test]
    fn filters_are_joined_by_or() {
        assert_eq!(Filter::none().or(equal(1)), equal(1));
        assert_eq!(equal(1).or(Filter::all()), Filter::all());
    }
}
