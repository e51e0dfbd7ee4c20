//! Generates typed rows from a schema, for use in a `build.rs`.
//!
//! For each table there is a struct with a field per column and an implementation of `nb::TableRow`:
//!
//! | column | field |
//! |---|---|
//! | scalar | `i64`, `f64`, `bool`, `String`, `Uuid` |
//! | string with `enum`, exactly one | a Rust enum with the table's and column's name |
//! | optional scalar | `Option<...>` |
//! | set | `BTreeSet<...>` (`Vec<f64>` for reals) |
//! | map | `BTreeMap<..., ...>` |
//! | reference | `Ref<Table>` in the place of `Uuid` |

use std::fmt::Write as _;

use crate::atom::AtomType;
use crate::schema::{BaseType, ColumnSchema, ColumnType, Constraint, DatabaseSchema, TableSchema};

/// The Rust source of a module with the typed rows of a schema.
///
/// The module expects `TableRow`, `Ref`, `Value`, `Uuid`, `BTreeSet` and `BTreeMap` in its parent's scope,
/// as `patchbay_schemas::typed` exports them.
pub fn generate(schema: &DatabaseSchema) -> String {
    let mut out = String::new();
    for table in &schema.tables {
        enums(table, &mut out);
        row_struct(table, &mut out);
        fields(table, &mut out);
        table_row(table, &mut out);
    }
    out
}

fn enums(table: &TableSchema, out: &mut String) {
    for column in &table.columns {
        let Some(values) = enum_values(&column.ty) else {
            continue;
        };
        let name = enum_name(table, column);
        let _ = writeln!(
            out,
            "/// Values of `{}` in `{}`.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\npub enum {name} {{",
            column.name, table.name
        );
        for value in &values {
            let _ = writeln!(out, "    /// `{value}`\n    {},", camel(value));
        }
        let _ = writeln!(
            out,
            "}}\nimpl {name} {{\n    /// The value on the wire.\n    pub fn as_str(self) -> &'static str {{\n        match self {{"
        );
        for value in &values {
            let _ = writeln!(out, "            Self::{} => {value:?},", camel(value));
        }
        let _ = writeln!(out, "        }}\n    }}\n}}");
        let _ = writeln!(
            out,
            "impl Value for {name} {{\n    fn to_atom(&self) -> Atom {{ Atom::from(self.as_str()) }}\n    fn from_atom(atom: &Atom) -> Option<Self> {{\n        match atom.as_str()? {{"
        );
        for value in &values {
            let _ = writeln!(
                out,
                "            {value:?} => Some(Self::{}),",
                camel(value)
            );
        }
        let _ = writeln!(out, "            _ => None,\n        }}\n    }}\n}}");
        let first = values.first().map(|value| camel(value)).unwrap_or_default();
        let _ = writeln!(
            out,
            "/// The first in alphabetical order; OVSDB has no default that an enum accepts.\nimpl Default for {name} {{ fn default() -> Self {{ Self::{first} }} }}"
        );
    }
}

fn row_struct(table: &TableSchema, out: &mut String) {
    let name = camel(&table.name);
    let _ = writeln!(
        out,
        "/// A row of `{}`.\n#[derive(Clone, Debug, Default, PartialEq)]\npub struct {name} {{",
        table.name
    );
    for column in &table.columns {
        let (field, ty) = (field_name(column), field_type(table, column));
        let _ = writeln!(
            out,
            "    /// `{}`: {}.\n    pub {field}: {ty},",
            column.name,
            column.ty.to_english()
        );
    }
    let _ = writeln!(out, "}}");
}

/// A constant for each column.
fn fields(table: &TableSchema, out: &mut String) {
    let name = camel(&table.name);
    let _ = writeln!(out, "impl {name} {{");
    for column in &table.columns {
        let _ = writeln!(
            out,
            "    /// The column `{column}`.\n    pub const {constant}: Field<Self, {ty}> = Field::new({column:?});",
            column = &*column.name,
            constant = column.name.to_ascii_uppercase(),
            ty = field_type(table, column),
        );
    }
    let _ = writeln!(out, "}}");
}

fn table_row(table: &TableSchema, out: &mut String) {
    let name = camel(&table.name);
    let _ = writeln!(
        out,
        "impl TableRow for {name} {{\n    const TABLE: &'static str = {:?};\n    const COLUMNS: &'static [&'static str] = &[",
        &*table.name
    );
    for column in &table.columns {
        let _ = writeln!(out, "        {:?},", &*column.name);
    }
    let _ = writeln!(
        out,
        "    ];\n    fn to_data(&self) -> Vec<Datum> {{\n        vec!["
    );
    for column in &table.columns {
        let _ = writeln!(
            out,
            "            Column::to_datum(&self.{}),",
            field_name(column)
        );
    }
    let _ = writeln!(
        out,
        "        ]\n    }}\n    fn from_data<'a>(mut get: impl FnMut(usize) -> Option<&'a Datum>) -> Result<Self, TypeError> {{\n        Ok(Self {{"
    );
    for (i, column) in table.columns.iter().enumerate() {
        let _ = writeln!(
            out,
            "            {}: read(get({i}), {:?}, {:?})?,",
            field_name(column),
            &*table.name,
            &*column.name
        );
    }
    let _ = writeln!(out, "        }})\n    }}\n}}");
}

fn field_type(table: &TableSchema, column: &ColumnSchema) -> String {
    let ty = &column.ty;
    let key = if enum_values(ty).is_some() {
        enum_name(table, column)
    } else {
        base_type(&ty.key)
    };
    match &ty.value {
        Some(value) => format!("BTreeMap<{key}, {}>", base_type(value)),
        None if ty.is_scalar() => key,
        None if ty.is_optional_scalar() => format!("Option<{key}>"),
        None if ty.key.atom == AtomType::Real => "Vec<f64>".to_owned(),
        None => format!("BTreeSet<{key}>"),
    }
}

fn base_type(base: &BaseType) -> String {
    match (base.atom, base.reference()) {
        (AtomType::Integer, _) => "i64".to_owned(),
        (AtomType::Real, _) => "f64".to_owned(),
        (AtomType::Boolean, _) => "bool".to_owned(),
        (AtomType::String, _) => "String".to_owned(),
        (AtomType::Uuid, None) => "Uuid".to_owned(),
        (AtomType::Uuid, Some(reference)) => format!("Ref<{}>", camel(&reference.table_name)),
    }
}

/// The values of a string column (not map) with an enum.
fn enum_values(ty: &ColumnType) -> Option<Vec<String>> {
    match (&ty.key.constraint, &ty.value) {
        (Constraint::Enum(allowed), None) => allowed
            .iter()
            .map(|atom| atom.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

fn enum_name(table: &TableSchema, column: &ColumnSchema) -> String {
    format!("{}{}", camel(&table.name), camel(&column.name))
}

/// `Logical_Router_Port` and `allow-related` become `LogicalRouterPort` and `AllowRelated`; `ACL` becomes `Acl`.
fn camel(name: &str) -> String {
    let mut out = String::new();
    for word in name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let all_upper = word.chars().all(|c| !c.is_ascii_lowercase());
        for (i, c) in word.chars().enumerate() {
            out.push(match i {
                0 => c.to_ascii_uppercase(),
                _ if all_upper => c.to_ascii_lowercase(),
                _ => c,
            });
        }
    }
    out
}

/// The column's name, raw where Rust reserves it.
fn field_name(column: &ColumnSchema) -> String {
    const RESERVED: [&str; 8] = ["type", "match", "ref", "self", "use", "mod", "in", "where"];
    if RESERVED.contains(&&*column.name) {
        format!("r#{}", column.name)
    } else {
        column.name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_rusts() {
        for (wire, rust) in [
            ("Logical_Router_Port", "LogicalRouterPort"),
            ("ACL", "Acl"),
            ("allow-related", "AllowRelated"),
            ("QoS", "QoS"),
            ("NB_Global", "NbGlobal"),
        ] {
            assert_eq!(camel(wire), rust);
        }
    }
}
