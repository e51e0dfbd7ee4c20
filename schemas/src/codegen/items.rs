//! Source of the items of one schema, one table or one column.

use std::fmt::Write as _;

use super::GenerateError;
use super::rust_names::{RustNames, field_name, type_name};
use crate::atom::AtomType;
use crate::schema::{BaseType, ColumnSchema, ColumnType, Constraint, DatabaseSchema, TableSchema};

/// Appends `SCHEMA_TEXT` and `schema()`; `text` is a Rust expression.
pub(super) fn database_items(schema: &DatabaseSchema, text: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "/// Text of the {name} schema from which the types are generated.
pub const SCHEMA_TEXT: &str = {text};

/// Parsed {name} schema from which the types are generated.
///
/// # Panics
/// Never, because the generator has parsed the same text.
pub fn schema() -> ::std::sync::Arc<$library::schema::DatabaseSchema> {{
    static SCHEMA: ::std::sync::LazyLock<::std::sync::Arc<$library::schema::DatabaseSchema>> =
        ::std::sync::LazyLock::new(|| {{
            let parsed = $library::schema::DatabaseSchema::parse(SCHEMA_TEXT.as_bytes());
            ::std::sync::Arc::new(parsed.expect(\"the generator has parsed the same text\"))
        }});
    SCHEMA.clone()
}}",
        name = schema.name
    );
}

/// One value of an enum.
struct Variant {
    /// The value on the wire.
    value: String,
    /// The name in Rust.
    name: String,
}

/// Appends the enum of a column and its implementations.
pub(super) fn enum_items(
    table: &TableSchema,
    column: &ColumnSchema,
    values: Vec<String>,
    out: &mut String,
) -> Result<(), GenerateError> {
    let mut names = RustNames::default();
    let variants = values
        .into_iter()
        .map(|value| {
            let name = type_name(&value);
            names.add(format!("{value:?} of {}.{}", table.name, column.name), &name)?;
            Ok(Variant { value, name })
        })
        .collect::<Result<Vec<_>, GenerateError>>()?;
    let name = enum_name(table, column);
    let declared =
        lines(&variants, |Variant { value, name }| format!("    /// `{value}`\n    {name},\n"));
    let printed = lines(&variants, |Variant { value, name }| {
        format!("            Self::{name} => {value:?},\n")
    });
    let parsed = lines(&variants, |Variant { value, name }| {
        format!("            {value:?} => Some(Self::{name}),\n")
    });
    let first = variants.first().map_or("", |first| &first.name);
    let _ = writeln!(
        out,
        "/// Values of `{column}` in `{table}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum {name} {{
{declared}}}

impl {name} {{
    /// Returns the value on the wire.
    pub fn as_str(self) -> &'static str {{
        match self {{
{printed}        }}
    }}
}}

impl ::std::fmt::Display for {name} {{
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {{
        f.write_str(self.as_str())
    }}
}}

impl $library::typed::Value for {name} {{
    fn to_atom(&self) -> $library::atom::Atom {{
        $library::atom::Atom::from(self.as_str())
    }}

    fn from_atom(atom: &$library::atom::Atom) -> Option<Self> {{
        match atom.as_str()? {{
{parsed}            _ => None,
        }}
    }}
}}

/// The first value in alphabetical order, because no default of OVSDB is valid for an enum.
impl Default for {name} {{
    fn default() -> Self {{
        Self::{first}
    }}
}}
",
        column = column.name,
        table = table.name,
    );
    Ok(())
}

/// Concatenates one text per item.
fn lines<T>(items: impl IntoIterator<Item = T>, line: impl Fn(T) -> String) -> String {
    items.into_iter().map(line).collect()
}

/// Appends the struct of a table and its column constants.
pub(super) fn row_struct(table: &TableSchema, out: &mut String) {
    let name = type_name(&table.name);
    let _ = writeln!(
        out,
        "/// A row of `{}`.\n#[derive(Clone, Debug, Default, PartialEq)]\npub struct {name} {{",
        table.name
    );
    for column in &table.columns {
        let (field, ty) = (field_name(&column.name), field_type(table, column));
        let _ = writeln!(
            out,
            "    /// `{}`: {}.\n    pub {field}: {ty},",
            column.name,
            column.ty.to_english()
        );
    }
    let _ = writeln!(out, "}}\n\nimpl {name} {{");
    for column in &table.columns {
        let _ = writeln!(
            out,
            "    /// The column `{column}`.
    pub const {constant}: $library::typed::Field<Self, {ty}> = $library::typed::Field::new({column:?});",
            column = &*column.name,
            constant = column.name.to_ascii_uppercase(),
            ty = field_type(table, column),
        );
    }
    let _ = writeln!(out, "}}\n");
}

/// Appends the implementation of `TableRow` of a table.
pub(super) fn table_row_impl(table: &TableSchema, out: &mut String) {
    let columns = || table.columns.iter().enumerate();
    let names = lines(columns(), |(_, column)| format!("        {:?},\n", &*column.name));
    let data = lines(columns(), |(_, column)| {
        let field = field_name(&column.name);
        format!("            $library::typed::Column::to_datum(&self.{field}),\n")
    });
    let reads = lines(columns(), |(i, column)| {
        let field = field_name(&column.name);
        let (table, column) = (&*table.name, &*column.name);
        format!(
            "            {field}: $library::typed::read_column(get({i}), {table:?}, {column:?})?,\n"
        )
    });
    // A table without columns never calls `get`.
    let get = if table.columns.is_empty() { "_get" } else { "mut get" };
    let _ = writeln!(
        out,
        "impl $library::typed::TableRow for {name} {{
    const TABLE: &'static str = {table:?};
    const COLUMNS: &'static [&'static str] = &[
{names}    ];

    fn to_data(&self) -> Vec<$library::datum::Datum> {{
        vec![
{data}        ]
    }}

    fn from_data<'a>(
        {get}: impl FnMut(usize) -> Option<&'a $library::datum::Datum>,
    ) -> Result<Self, $library::typed::TypeError> {{
        Ok(Self {{
{reads}        }})
    }}
}}
",
        name = type_name(&table.name),
        table = &*table.name,
    );
}

/// Returns the Rust type of a column's field.
fn field_type(table: &TableSchema, column: &ColumnSchema) -> String {
    let ty = &column.ty;
    let key = if enum_values(ty).is_some() { enum_name(table, column) } else { base_type(&ty.key) };
    match &ty.value {
        Some(value) => format!("::std::collections::BTreeMap<{key}, {}>", base_type(value)),
        None if ty.is_scalar() => key,
        None if ty.is_optional_scalar() => format!("Option<{key}>"),
        None if ty.key.atom == AtomType::Real => "Vec<f64>".to_owned(),
        None => format!("::std::collections::BTreeSet<{key}>"),
    }
}

/// Returns the Rust type of an element, key or value.
fn base_type(base: &BaseType) -> String {
    match (base.atom, base.reference()) {
        (AtomType::Integer, _) => "i64".to_owned(),
        (AtomType::Real, _) => "f64".to_owned(),
        (AtomType::Boolean, _) => "bool".to_owned(),
        (AtomType::String, _) => "String".to_owned(),
        (AtomType::Uuid, None) => "$library::typed::Uuid".to_owned(),
        (AtomType::Uuid, Some(reference)) => {
            format!("$library::typed::Ref<{}>", type_name(&reference.table_name))
        }
    }
}

/// Returns the values of a string column with an `enum` constraint; `None` for maps and other
/// columns.
pub(super) fn enum_values(ty: &ColumnType) -> Option<Vec<String>> {
    match (&ty.key.constraint, &ty.value) {
        (Constraint::Enum(allowed), None) => {
            allowed.iter().map(|atom| atom.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// Returns the name of a column's enum.
pub(super) fn enum_name(table: &TableSchema, column: &ColumnSchema) -> String {
    format!("{}{}", type_name(&table.name), type_name(&column.name))
}
