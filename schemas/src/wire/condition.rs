//! `<condition>` (RFC 7047 section 5.1), including the boolean clauses of ovsdb-server.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use crate::atom::AtomType;
use crate::datum::Datum;
use crate::error::OvsdbError;
use crate::json::{Reader, ValueKind};
use crate::row::Row;
use crate::schema::{ColumnId, ColumnType, TableSchema};

use super::condition_index::{AllClauses, AnyClauses};
use super::notation::NotationReader;
use super::triple::decode_triple;

/// Number of clauses that are compared one by one. A row that satisfies them, or none of them in a
/// monitor, is compared with the index of all clauses, if there are more.
const UNINDEXED_CLAUSES: usize = 8;

/// `<function>`: comparison of a column with the argument of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// `includes`: the column contains every element of the argument.
    Includes,
    /// `excludes`: the column contains no element of the argument.
    Excludes,
}

impl Function {
    const ALL: [Self; 8] = [
        Self::Less,
        Self::LessOrEqual,
        Self::Equal,
        Self::NotEqual,
        Self::GreaterOrEqual,
        Self::Greater,
        Self::Includes,
        Self::Excludes,
    ];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::GreaterOrEqual => ">=",
            Self::Greater => ">",
            Self::Includes => "includes",
            Self::Excludes => "excludes",
        }
    }

    fn from_name(name: &str) -> Result<Self, OvsdbError> {
        Self::ALL.into_iter().find(|function| function.name() == name).ok_or_else(|| {
            OvsdbError::new("unknown function", format!("No function named {name}."))
        })
    }

    /// `true` for the functions that compare the order of numbers.
    fn is_relational(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::GreaterOrEqual | Self::Greater)
    }

    /// Returns the type of the argument for a column of type `ty`. `None`: the function does not
    /// apply to the column.
    fn argument_type(self, ty: &ColumnType) -> Option<ColumnType> {
        let mut argument = ty.clone();
        match self {
            Self::Equal | Self::NotEqual => {}
            Self::Includes | Self::Excludes if ty.is_scalar() => {}
            Self::Includes => argument.min = 0,
            Self::Excludes => {
                argument.min = 0;
                argument.max = ColumnType::UNLIMITED;
            }
            _ => {
                let number = matches!(ty.key.atom, AtomType::Integer | AtomType::Real);
                if !number || !(ty.is_scalar() || ty.is_optional_scalar()) {
                    return None;
                }
                argument.min = 1;
            }
        }
        Some(argument)
    }
}

/// Clause of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Clause {
    /// `true` or `false`.
    Bool(bool),
    /// `[column, function, argument]`
    Column {
        /// The column.
        column: ColumnId,
        /// The function.
        function: Function,
        /// The argument.
        argument: Datum,
    },
}

/// Clauses of which a row must satisfy all in operations, and at least one in monitors.
///
/// Without clauses, all rows satisfy the condition in both cases.
#[derive(Clone, Default)]
pub struct Condition {
    clauses: Vec<Clause>,
    /// Indexes of a long condition, made when the first row is compared with all clauses.
    indexes: OnceLock<Arc<Indexes>>,
}

#[derive(Default)]
struct Indexes {
    all: OnceLock<AllClauses>,
    any: OnceLock<AnyClauses>,
    columns: OnceLock<Box<[ColumnId]>>,
}

impl Condition {
    /// Returns the condition of these clauses.
    pub fn new(clauses: Vec<Clause>) -> Self {
        Self { clauses, indexes: OnceLock::new() }
    }

    /// Returns the arguments of the clauses for modification.
    pub fn arguments_mut(&mut self) -> impl Iterator<Item = &mut Datum> {
        self.indexes = OnceLock::new();
        self.clauses.iter_mut().filter_map(|clause| match clause {
            Clause::Column { argument, .. } => Some(argument),
            Clause::Bool(_) => None,
        })
    }

    fn indexes(&self) -> &Indexes {
        self.indexes.get_or_init(Arc::default)
    }

    /// Returns the clauses.
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// Returns the columns of the clauses, each once, in no order.
    pub(crate) fn columns(&self) -> &[ColumnId] {
        if self.clauses.is_empty() {
            return &[];
        }
        self.indexes().columns.get_or_init(|| {
            let columns = self.clauses.iter().filter_map(|clause| match clause {
                Clause::Column { column, .. } => Some(*column),
                Clause::Bool(_) => None,
            });
            columns.collect::<BTreeSet<_>>().into_iter().collect()
        })
    }

    /// Returns the condition that selects the row with this UUID.
    pub fn uuid(uuid: Uuid) -> Self {
        let argument = Datum::scalar(uuid);
        Self::new(vec![Clause::Column {
            column: ColumnId::UUID,
            function: Function::Equal,
            argument,
        }])
    }

    /// Returns the UUID of the only row that can satisfy all clauses. `None`: no clause selects one
    /// row by UUID.
    pub fn as_uuid(&self) -> Option<Uuid> {
        self.clauses.iter().find_map(|clause| match clause {
            Clause::Column {
                column: ColumnId::UUID,
                function: Function::Equal | Function::Includes,
                argument,
            } => argument.as_scalar()?.as_uuid(),
            _ => None,
        })
    }

    /// Returns the value that a column must equal, because the first `==` clause of the column
    /// names it. `None`: there is no such clause.
    pub fn equal_value(&self, of: ColumnId) -> Option<&Datum> {
        self.clauses.iter().find_map(|clause| match clause {
            Clause::Column { column, function: Function::Equal, argument } if *column == of => {
                Some(argument)
            }
            _ => None,
        })
    }

    /// `true` if a row satisfies all clauses.
    pub fn matches_all(&self, row: &Row) -> bool {
        let Some((first, rest)) = self.clauses.split_at_checked(UNINDEXED_CLAUSES) else {
            return self.clauses.iter().all(|clause| clause.matches(row));
        };
        if !first.iter().all(|clause| clause.matches(row)) {
            return false;
        }
        rest.is_empty() || {
            let index = || AllClauses::new(&self.clauses);
            self.indexes().all.get_or_init(index).matches(row)
        }
    }

    /// `true` if a monitor with this condition reports a row: the row satisfies at least one
    /// clause, or there are no clauses.
    pub fn matches_any(&self, row: &Row) -> bool {
        let matches = |clause: &Clause| {
            clause.matches(row) && !(*clause == Clause::Bool(true) && self.hides_true())
        };
        let Some((first, rest)) = self.clauses.split_at_checked(UNINDEXED_CLAUSES) else {
            return self.clauses.is_empty() || self.clauses.iter().any(matches);
        };
        if first.iter().any(matches) {
            return true;
        }
        !rest.is_empty() && {
            let index = || AnyClauses::new(&self.clauses, self.hides_true());
            self.indexes().any.get_or_init(index).matches(row)
        }
    }

    /// `true` if a monitor ignores clauses that are `true`.
    ///
    /// ovsdb-server loses `true` beside at least two `false` if all other clauses compare by `==`,
    /// because it then looks up the values of the columns.
    fn hides_true(&self) -> bool {
        let is_looked_up = |clause: &Clause| match clause {
            Clause::Column { function, .. } => *function == Function::Equal,
            Clause::Bool(_) => true,
        };
        let is_false = |clause: &&Clause| **clause == Clause::Bool(false);
        self.clauses.iter().all(is_looked_up) && self.clauses.iter().filter(is_false).count() > 1
    }

    /// Decodes an array of clauses. The caller has checked that the next value is an array.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        table: &TableSchema,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Self, OvsdbError> {
        let mut clauses = Vec::new();
        if reader.enter_array() {
            while reader.next_element() {
                clauses.push(Clause::decode(reader, table, notation)?);
            }
        }
        Ok(Self::new(clauses))
    }

    /// Appends the array of clauses; `write` appends their arguments.
    pub(crate) fn write_json(
        &self,
        table: &TableSchema,
        out: &mut Vec<u8>,
        write: &dyn Fn(&Datum, &mut Vec<u8>),
    ) {
        out.push(b'[');
        for (i, clause) in self.clauses.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            match clause {
                Clause::Bool(value) => {
                    out.extend_from_slice(if *value { b"true" } else { b"false" });
                }
                Clause::Column { column, function, argument } => {
                    let head =
                        format!("[\"{}\",\"{}\",", table.column_name(*column), function.name());
                    out.extend_from_slice(head.as_bytes());
                    write(argument, out);
                    out.push(b']');
                }
            }
        }
        out.push(b']');
    }
}

/// Conditions are equal if their clauses are.
impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.clauses == other.clauses
    }
}

impl Eq for Condition {}

impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.clauses.hash(state);
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.clauses).finish()
    }
}

impl Clause {
    fn decode(
        reader: &mut Reader<'_>,
        table: &TableSchema,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Self, OvsdbError> {
        if reader.kind() == ValueKind::Bool {
            return Ok(Self::Bool(reader.boolean().unwrap_or_default()));
        }
        decode_triple(reader, table, "condition", |head, reader| {
            let function = Function::from_name(&head.operator)?;
            let argument_type = function
                .argument_type(table.column_type(head.column))
                .ok_or_else(|| head.type_mismatch(table))?;
            Ok(Self::Column {
                column: head.column,
                function,
                argument: notation.datum(reader, &argument_type)?,
            })
        })
    }

    /// `true` if a row satisfies the clause.
    pub fn matches(&self, row: &Row) -> bool {
        let (column, function, argument) = match self {
            Self::Bool(value) => return *value,
            Self::Column { column, function, argument } => (*column, *function, argument),
        };
        let value = row.get(column);
        if function.is_relational() {
            let (Some(value), Some(argument)) = (value.as_scalar(), argument.as_scalar()) else {
                return false;
            };
            return match function {
                Function::Less => value < argument,
                Function::LessOrEqual => value <= argument,
                Function::GreaterOrEqual => value >= argument,
                _ => value > argument,
            };
        }
        match function {
            Function::Equal => *value == *argument,
            Function::NotEqual => *value != *argument,
            Function::Includes => includes(&value, argument, true),
            _ => includes(&value, argument, false),
        }
    }
}

/// `true` if `value` contains every element of `argument` (`wanted`), or no element of it
/// (`!wanted`).
fn includes(value: &Datum, argument: &Datum, wanted: bool) -> bool {
    match (value, argument) {
        (Datum::Set(value), Datum::Set(argument)) => {
            argument.iter().all(|atom| value.contains(atom) == wanted)
        }
        (Datum::Map(value), Datum::Map(argument)) => {
            argument.iter().all(|(key, expected)| (value.get(key) == Some(expected)) == wanted)
        }
        _ => false,
    }
}
