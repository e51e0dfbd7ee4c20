//! Which rows of a table the replica holds, and changing that while it follows the database.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::wire::{Clause, Condition, Function};
use tokio::sync::oneshot;

/// Which rows of a table the replica holds. Filters are joined by "or".
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
pub struct Filter(Rows);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rows {
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
        Self(Rows::All)
    }

    /// No rows.
    pub fn none() -> Self {
        Self(Rows::Any(Vec::new()))
    }

    /// The rows whose column compares to a value in this way. Where the server's schema lacks the column, these are no
    /// rows.
    pub fn column(column: impl Into<String>, function: Function, argument: Datum) -> Self {
        Self(Rows::Any(vec![FilterClause {
            column: column.into(),
            function,
            argument,
        }]))
    }

    /// The rows that one of the two lets through.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Rows::Any(mut clauses), Rows::Any(more)) => {
                clauses.extend(more);
                Self(Rows::Any(clauses))
            }
            _ => Self::all(),
        }
    }

    /// The clauses of a monitor.
    pub(super) fn condition(&self, table: &TableSchema) -> Condition {
        let Rows::Any(clauses) = &self.0 else {
            return Condition::default();
        };
        let clauses = clauses.iter().filter_map(|clause| {
            Some(Clause::Column {
                column: table.column_id(&clause.column)?,
                function: clause.function,
                argument: clause.argument.clone(),
            })
        });
        let mut condition = Condition(clauses.collect());
        if condition.0.is_empty() {
            // Without clauses a monitor reports everything.
            condition.0.push(Clause::Bool(false));
        }
        condition
    }
}

/// Why the replica does not hold other rows now.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The replica does not hold the table.
    #[error("table {table} is not among those that the replica holds")]
    NoTable {
        /// The table.
        table: String,
    },
    /// The client is [embedded](super::Client::embedded): it reads the database itself, all of it.
    #[error("a client within the database's process has no replica to filter")]
    NoReplica,
    /// The server does not accept the filter: a column's type and the function or argument do not go together.
    /// The filter that was there before is in force again.
    #[error("the filter of table {table} was refused: {error}")]
    Refused {
        /// The table.
        table: String,
        /// The server's words.
        error: Arc<str>,
    },
    /// The client has ended.
    #[error(transparent)]
    Ended(#[from] super::Ended),
}

/// A filter on its way to the server.
#[derive(Debug)]
pub(super) struct FilterChange {
    pub(super) table: String,
    pub(super) filter: Filter,
    pub(super) done: oneshot::Sender<Result<(), FilterError>>,
}

/// The filters in force, and those who wait for theirs to come into force.
#[derive(Debug, Default)]
pub(super) struct Filters {
    wanted: BTreeMap<String, Filter>,
    /// Those whose filter is among the wanted, but whose rows the replica may not hold yet, in order.
    waiting: Vec<Waiting>,
    /// How many of them have filters that the server was told.
    told: usize,
}

#[derive(Debug)]
struct Waiting {
    table: String,
    /// What was wanted before.
    before: Option<Filter>,
    done: oneshot::Sender<Result<(), FilterError>>,
}

impl Filters {
    pub(super) fn new(wanted: BTreeMap<String, Filter>) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    pub(super) fn wanted(&self) -> &BTreeMap<String, Filter> {
        &self.wanted
    }

    /// Asks for a change.
    pub(super) fn change(&mut self, change: FilterChange) {
        let FilterChange {
            table,
            filter,
            done,
        } = change;
        let before = self.wanted.insert(table.clone(), filter);
        self.waiting.push(Waiting {
            table,
            before,
            done,
        });
    }

    /// Whether the server was not told of some changes.
    pub(super) fn has_news(&self) -> bool {
        self.told < self.waiting.len()
    }

    /// The server is told everything that is wanted.
    pub(super) fn tell(&mut self) {
        self.told = self.waiting.len();
    }

    /// The replica holds the rows that the server was told of.
    pub(super) fn reached(&mut self) -> Reached {
        let told = std::mem::take(&mut self.told);
        Reached(self.waiting.drain(..told).map(|it| it.done).collect())
    }

    /// The server refuses what it was told. Whatever was there before is wanted again, unless there was another wish since.
    pub(super) fn refused(&mut self, error: &str) {
        let error: Arc<str> = error.into();
        let told = std::mem::take(&mut self.told);
        let refused: Vec<_> = self.waiting.drain(..told).collect();
        for Waiting {
            table,
            before,
            done,
        } in refused.into_iter().rev()
        {
            // Of several changes of one table, the first knows what was in force.
            match self.waiting.iter_mut().find(|later| later.table == table) {
                Some(later) => later.before = before,
                None => {
                    match before {
                        Some(before) => self.wanted.insert(table.clone(), before),
                        None => self.wanted.remove(&table),
                    };
                }
            }
            let error = error.clone();
            // Who does not wait any more need not know.
            let _ = done.send(Err(FilterError::Refused { table, error }));
        }
    }
}

/// Those whose filters have come into force.
#[derive(Debug)]
pub(super) struct Reached(Vec<oneshot::Sender<Result<(), FilterError>>>);

impl Reached {
    /// Tells them.
    pub(super) fn tell(self) {
        for done in self.0 {
            // Who does not wait any more need not know.
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
        filters.change(FilterChange {
            table: table.into(),
            filter: equal(value),
            done,
        });
        outcome
    }

    fn equal(value: i64) -> Filter {
        Filter::column("c", Function::Equal, Datum::scalar(value))
    }

    #[test]
    fn what_was_told_is_reached_and_what_came_later_is_not() {
        let mut filters = Filters::default();
        let mut first = change(&mut filters, "T", 1);
        filters.tell();
        let mut second = change(&mut filters, "T", 2);
        assert!(filters.has_news());
        filters.reached().tell();
        assert!(first.try_recv().unwrap().is_ok());
        assert!(second.try_recv().is_err());
        assert_eq!(filters.wanted()["T"], equal(2));
    }

    #[test]
    fn what_was_refused_gives_way_to_what_was_before() {
        let mut filters = Filters::new([("T".to_owned(), equal(0))].into());
        let mut refused = [1, 2].map(|value| change(&mut filters, "T", value));
        let mut other = change(&mut filters, "U", 3);
        filters.tell();
        filters.refused("no such thing");
        for outcome in &mut refused {
            let error = outcome.try_recv().unwrap().unwrap_err();
            assert_eq!(
                error.to_string(),
                "the filter of table T was refused: no such thing"
            );
        }
        assert!(other.try_recv().unwrap().is_err());
        assert_eq!(filters.wanted(), &[("T".to_owned(), equal(0))].into());
    }

    #[test]
    fn a_later_wish_outlives_a_refusal_but_not_its_own() {
        let mut filters = Filters::new([("T".to_owned(), equal(0))].into());
        let _first = change(&mut filters, "T", 1);
        filters.tell();
        let _second = change(&mut filters, "T", 2);
        filters.refused("no");
        assert_eq!(filters.wanted()["T"], equal(2));
        filters.tell();
        filters.refused("no");
        assert_eq!(filters.wanted()["T"], equal(0));
    }

    #[test]
    fn filters_are_joined_by_or() {
        assert_eq!(Filter::none().or(equal(1)), equal(1));
        assert_eq!(equal(1).or(Filter::all()), Filter::all());
    }
}
