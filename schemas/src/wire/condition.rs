//! `<condition>` (RFC 7047 §5.1) with ovsdb-server's boolean clauses.

use uuid::Uuid;

use crate::atom::AtomType;
use crate::datum::Datum;
use crate::error::OvsdbError;
use crate::json::{Kind, Reader};
use crate::row::Row;
use crate::schema::{ColumnId, ColumnType, TableSchema};

use super::notation::{NotationReader, triple_error};

/// How a clause compares a column with its argument.
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
    /// Every element of the argument is in the column.
    Includes,
    /// No element of the argument is in the column.
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

    /// The name on the wire.
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
        Self::ALL
            .into_iter()
            .find(|function| function.name() == name)
            .ok_or_else(|| {
                OvsdbError::new("unknown function", format!("No function named {name}."))
            })
    }

    /// Whether it orders numbers.
    fn is_relational(self) -> bool {
        matches!(
            self,
            Self::Less | Self::LessOrEqual | Self::GreaterOrEqual | Self::Greater
        )
    }

    /// The type of the argument for a column of type `ty`; none where the function does not apply.
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

/// One clause.
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
        /// Its argument.
        argument: Datum,
    },
}

/// Clauses that are AND-ed in operations (where none means all rows) and OR-ed in monitors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition(pub Vec<Clause>);

impl Condition {
    /// The row of a UUID.
    pub fn uuid(uuid: Uuid) -> Self {
        let argument = Datum::scalar(uuid);
        Self(vec![Clause::Column {
            column: ColumnId::UUID,
            function: Function::Equal,
            argument,
        }])
    }

    /// The UUID that every matching row must have, if the clauses say so.
    pub fn as_uuid(&self) -> Option<Uuid> {
        self.0.iter().find_map(|clause| match clause {
            Clause::Column {
                column: ColumnId::UUID,
                function: Function::Equal | Function::Includes,
                argument,
            } => argument.as_scalar()?.as_uuid(),
            _ => None,
        })
    }

    /// Whether a row satisfies all clauses.
    pub fn matches_all(&self, row: &Row) -> bool {
        self.0.iter().all(|clause| clause.matches(row))
    }

    /// Whether a monitor with this condition reports a row: it satisfies one of the clauses, or there is none.
    pub fn matches_any(&self, row: &Row) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|clause| {
                clause.matches(row) && !(*clause == Clause::Bool(true) && self.hides_true())
            })
    }

    /// Whether a `true` does not count in a monitor: ovsdb-server loses it beside two `false` or more, where it looks up the
    /// values of columns because all of them are compared by `==`.
    fn hides_true(&self) -> bool {
        let is_looked_up = |clause: &Clause| match clause {
            Clause::Column { function, .. } => *function == Function::Equal,
            Clause::Bool(_) => true,
        };
        let is_false = |clause: &&Clause| **clause == Clause::Bool(false);
        self.0.iter().all(is_looked_up) && self.0.iter().filter(is_false).count() > 1
    }

    /// Decodes an array of clauses, which the reader has been found to stand at.
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
        Ok(Self(clauses))
    }

    pub(crate) fn write_json(
        &self,
        table: &TableSchema,
        out: &mut Vec<u8>,
        write: &dyn Fn(&Datum, &mut Vec<u8>),
    ) {
        out.push(b'[');
        for (i, clause) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            match clause {
                Clause::Bool(value) => {
                    out.extend_from_slice(if *value { b"true" } else { b"false" });
                }
                Clause::Column {
                    column,
                    function,
                    argument,
                } => {
                    let head = format!(
                        "[\"{}\",\"{}\",",
                        table.column_name(*column),
                        function.name()
                    );
                    out.extend_from_slice(head.as_bytes());
                    write(argument, out);
                    out.push(b']');
                }
            }
        }
        out.push(b']');
    }
}

impl Clause {
    fn decode(
        reader: &mut Reader<'_>,
        table: &TableSchema,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Self, OvsdbError> {
        if reader.kind() == Kind::Bool {
            return Ok(Self::Bool(reader.boolean().unwrap_or_default()));
        }
        let start = *reader;
        Self::decode_triple(reader, table, notation)
            .map_err(|error| triple_error(start, error, "Parse error in condition."))
    }

    /// `None` stands for a clause that has not the shape of one.
    fn decode_triple(
        reader: &mut Reader<'_>,
        table: &TableSchema,
        notation: &mut NotationReader<'_, '_, '_>,
    ) -> Result<Self, Option<OvsdbError>> {
        let start = *reader;
        let (column_name, function_name) = NotationReader::triple_head(reader).ok_or(None)?;
        let column = table.column_id(&column_name).ok_or_else(|| {
            let details = format!("No column {column_name} in table {}.", table.name);
            OvsdbError {
                tag: "unknown column".into(),
                ..OvsdbError::syntax_at(start, details)
            }
        })?;
        let function = Function::from_name(&function_name)?;
        let ty = table.column_type(column);
        let argument_type = function.argument_type(ty).ok_or_else(|| {
            let (function, column, ty) = (function.name(), table.column_name(column), ty.to_english());
            let details =
                format!("Type mismatch: \"{function}\" operator may not be applied to column {column} of type {ty}.");
            OvsdbError::syntax_at(start, details)
        })?;
        let argument = notation.datum(reader, &argument_type)?;
        if reader.next_element() {
            return Err(None);
        }
        Ok(Self::Column {
            column,
            function,
            argument,
        })
    }

    /// Whether a row satisfies the clause.
    pub fn matches(&self, row: &Row) -> bool {
        let (column, function, argument) = match self {
            Self::Bool(value) => return *value,
            Self::Column {
                column,
                function,
                argument,
            } => (*column, *function, argument),
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

/// Whether every element of `argument` is (`wanted`), or none is (`!wanted`), in `value`.
fn includes(value: &Datum, argument: &Datum, wanted: bool) -> bool {
    match (value, argument) {
        (Datum::Set(value), Datum::Set(argument)) => {
            argument.iter().all(|atom| value.contains(atom) == wanted)
        }
        (Datum::Map(value), Datum::Map(argument)) => argument
            .iter()
            .all(|(key, have)| (value.get(key) == Some(have)) == wanted),
        _ => false,
    }
}
