//! Generates typed rows from a schema, for use in a `build.rs`.
//!
//! For each table there is a struct with a field per column, a constant [`Field`](crate::typed::Field) per column and an
//! implementation of [`TableRow`](crate::typed::TableRow):
//!
//! | column | field |
//! |---|---|
//! | scalar | `i64`, `f64`, `bool`, `String`, `Uuid` |
//! | string with `enum`, not in a map | a Rust enum with the table's and column's name in the place of `String` |
//! | optional scalar | `Option<...>` |
//! | set | `BTreeSet<...>` (`Vec<f64>` for reals) |
//! | map | `BTreeMap<..., ...>` |
//! | reference | `Ref<Table>` in the place of `Uuid` |
//!
//! Beside them are `SCHEMA_TEXT` and `schema()`.
//!
//! # In a project of your own
//!
//! With `patchbay-schemas` among both the dependencies and the build dependencies, `build.rs` is
//!
//! ```no_run
//! fn main() -> Result<(), patchbay_schemas::codegen::GenerateError> {
//!     patchbay_schemas::codegen::build("vswitch.ovsschema")?;
//!     Ok(())
//! }
//! ```
//!
//! and the types go into a module:
//!
//! ```ignore
//! /// Open_vSwitch: one struct per table.
//! pub mod vswitch {
//!     patchbay_schemas::include_generated!("vswitch");
//! }
//! ```
//!
//! `examples/own-schema` of this repository is such a project.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::atom::AtomType;
use crate::error::OvsdbError;
use crate::schema::{BaseType, ColumnSchema, ColumnType, Constraint, DatabaseSchema, TableSchema};

/// Why there are no types.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A file cannot be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The schema is none.
    #[error("{}: {error}", .path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: OvsdbError,
    },
    /// Cargo sets the variable for build scripts only.
    #[error("OUT_DIR is not set: this is to be called by a build.rs")]
    NoBuildScript,
    /// Two names of the schema become one in Rust.
    #[error("{first} and {second} would both be named {rust}")]
    Collision {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The name in Rust.
        rust: String,
    },
}

/// Generates the types of a schema file into cargo's `OUT_DIR`, for [`include_generated`](crate::include_generated).
/// The name is the file's: `ovn-sb.ovsschema` becomes `ovn_sb`. Cargo runs the build script again when the file changes.
///
/// # Errors
/// The file cannot be read, is no schema, or has names that cannot be told apart in Rust.
pub fn build(schema_file: impl AsRef<Path>) -> Result<PathBuf, GenerateError> {
    let path = schema_file.as_ref();
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |error| GenerateError::Io { path, error }
    };
    let rerun = writeln!(io::stdout(), "cargo::rerun-if-changed={}", path.display());
    rerun.map_err(io_error(path))?;
    let text = fs::read_to_string(path).map_err(io_error(path))?;
    let schema = DatabaseSchema::parse(text.as_bytes()).map_err(|error| GenerateError::Schema {
        path: path.to_owned(),
        error,
    })?;
    let folder = env::var_os("OUT_DIR").ok_or(GenerateError::NoBuildScript)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let out = Path::new(&folder).join(format!("{}.rs", stem.replace(['-', '.'], "_")));
    let source = generate(&schema, &text, "::patchbay_schemas")?;
    fs::write(&out, source).map_err(io_error(&out))?;
    Ok(out)
}

/// Puts what [`codegen::build`](crate::codegen::build) has generated here; see there.
#[macro_export]
macro_rules! include_generated {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}

/// The Rust source of the items that belong to a schema. `text` is what the schema was read from, `library` the path of
/// this crate as the generated code is to name it.
///
/// # Errors
/// Two names of the schema become one in Rust.
pub fn generate(
    schema: &DatabaseSchema,
    text: &str,
    library: &str,
) -> Result<String, GenerateError> {
    let mut names = Names::default();
    let mut out = String::new();
    for table in &schema.tables {
        names.add(format!("table {}", table.name), &camel(&table.name))?;
        for column in &table.columns {
            if let Some(values) = enum_values(&column.ty) {
                let path = format!("{}.{}", table.name, column.name);
                names.add(format!("the enum of {path}"), &enum_name(table, column))?;
                enumeration(table, column, &variants(&path, values)?, &mut out);
            }
        }
        let mut fields = Names::default();
        for column in &table.columns {
            let path = format!("{}.{}", table.name, column.name);
            fields.add(path, &column.name.to_ascii_uppercase())?;
        }
        row_struct(table, &mut out);
        table_row(table, &mut out);
    }
    database(schema, text, &mut out);
    Ok(out.replace(LIBRARY, library))
}

/// Stands for the path of this crate until the end.
const LIBRARY: &str = "$library";

/// Names in Rust, and what they were made of.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn add(&mut self, made_of: String, rust: &str) -> Result<(), GenerateError> {
        if let Some(first) = self.0.get(rust) {
            return Err(GenerateError::Collision {
                first: first.clone(),
                second: made_of,
                rust: rust.to_owned(),
            });
        }
        self.0.insert(rust.to_owned(), made_of);
        Ok(())
    }
}

fn database(schema: &DatabaseSchema, text: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "/// The text of the schema of {name} that the types are generated from.
pub const SCHEMA_TEXT: &str = {text:?};

/// The schema of {name} that the types are generated from.
///
/// # Panics
/// Never: the build has parsed the same text.
pub fn schema() -> ::std::sync::Arc<$library::schema::DatabaseSchema> {{
    static SCHEMA: ::std::sync::LazyLock<::std::sync::Arc<$library::schema::DatabaseSchema>> =
        ::std::sync::LazyLock::new(|| {{
            let parsed = $library::schema::DatabaseSchema::parse(SCHEMA_TEXT.as_bytes());
            ::std::sync::Arc::new(parsed.expect(\"the build has parsed the same text\"))
        }});
    SCHEMA.clone()
}}",
        name = schema.name
    );
}

/// A value on the wire and the variant that stands for it.
type Variant = (String, String);

/// The variants of an enum, by value.
fn variants(path: &str, values: Vec<String>) -> Result<Vec<Variant>, GenerateError> {
    let mut names = Names::default();
    values
        .into_iter()
        .map(|value| {
            let variant = camel(&value);
            names.add(format!("{value:?} of {path}"), &variant)?;
            Ok((value, variant))
        })
        .collect()
}

fn enumeration(table: &TableSchema, column: &ColumnSchema, variants: &[Variant], out: &mut String) {
    let name = enum_name(table, column);
    let declared = lines(variants, |value, variant| {
        format!("    /// `{value}`\n    {variant},")
    });
    let texts = lines(variants, |value, variant| {
        format!("            Self::{variant} => {value:?},")
    });
    let values = lines(variants, |value, variant| {
        format!("            {value:?} => Some(Self::{variant}),")
    });
    let first = variants.first().map_or("", |(_, variant)| variant);
    let _ = writeln!(
        out,
        "/// Values of `{column}` in `{table}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum {name} {{
{declared}}}

impl {name} {{
    /// The value on the wire.
    pub fn as_str(self) -> &'static str {{
        match self {{
{texts}        }}
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
{values}            _ => None,
        }}
    }}
}}

/// The first in alphabetical order; OVSDB has no default that an enum accepts.
impl Default for {name} {{
    fn default() -> Self {{
        Self::{first}
    }}
}}
",
        column = column.name,
        table = table.name,
    );
}

fn lines(variants: &[Variant], line: impl Fn(&str, &str) -> String) -> String {
    text(variants.iter(), |(value, variant)| {
        line(value, variant) + "\n"
    })
}

fn text<T>(items: impl Iterator<Item = T>, item: impl Fn(T) -> String) -> String {
    items.fold(String::new(), |all, next| all + &item(next))
}

fn row_struct(table: &TableSchema, out: &mut String) {
    let name = camel(&table.name);
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

fn table_row(table: &TableSchema, out: &mut String) {
    let columns = || table.columns.iter().enumerate();
    let names = text(columns(), |(_, column)| {
        format!("        {:?},\n", &*column.name)
    });
    let data = text(columns(), |(_, column)| {
        let field = field_name(&column.name);
        format!("            $library::typed::Column::to_datum(&self.{field}),\n")
    });
    let reads = text(columns(), |(i, column)| {
        let field = field_name(&column.name);
        let (table, column) = (&*table.name, &*column.name);
        format!("            {field}: $library::typed::read(get({i}), {table:?}, {column:?})?,\n")
    });
    // A table without columns has nothing to get.
    let get = if table.columns.is_empty() {
        "_get"
    } else {
        "mut get"
    };
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
        name = camel(&table.name),
        table = &*table.name,
    );
}

fn field_type(table: &TableSchema, column: &ColumnSchema) -> String {
    let ty = &column.ty;
    let key = if enum_values(ty).is_some() {
        enum_name(table, column)
    } else {
        base_type(&ty.key)
    };
    match &ty.value {
        Some(value) => format!("::std::collections::BTreeMap<{key}, {}>", base_type(value)),
        None if ty.is_scalar() => key,
        None if ty.is_optional_scalar() => format!("Option<{key}>"),
        None if ty.key.atom == AtomType::Real => "Vec<f64>".to_owned(),
        None => format!("::std::collections::BTreeSet<{key}>"),
    }
}

fn base_type(base: &BaseType) -> String {
    match (base.atom, base.reference()) {
        (AtomType::Integer, _) => "i64".to_owned(),
        (AtomType::Real, _) => "f64".to_owned(),
        (AtomType::Boolean, _) => "bool".to_owned(),
        (AtomType::String, _) => "String".to_owned(),
        (AtomType::Uuid, None) => "$library::typed::Uuid".to_owned(),
        (AtomType::Uuid, Some(reference)) => {
            format!("$library::typed::Ref<{}>", camel(&reference.table_name))
        }
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

/// `Logical_Router_Port` and `allow-related` become `LogicalRouterPort` and `AllowRelated`; `ACL` becomes `Acl`. What Rust
/// does not take as a name gets a letter more: `802.1q` becomes `N8021q`, the empty string `Empty`.
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
    match out.as_bytes().first() {
        None => "Empty".to_owned(),
        Some(b'0'..=b'9') => format!("N{out}"),
        Some(_) if out == "Self" => "Self_".to_owned(),
        Some(_) => out,
    }
}

/// Words that are no names in Rust 2024 unless written raw.
const RAW: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// The column's name, raw where Rust reserves it.
fn field_name(column: &str) -> String {
    if RAW.contains(&column) {
        format!("r#{column}")
    } else if ["self", "Self", "super", "crate", "_"].contains(&column) {
        format!("{column}_")
    } else {
        column.to_owned()
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
            ("802.1q", "N8021q"),
            ("self", "Self_"),
            ("", "Empty"),
        ] {
            assert_eq!(camel(wire), rust);
        }
        for (wire, rust) in [("type", "r#type"), ("self", "self_"), ("name", "name")] {
            assert_eq!(field_name(wire), rust);
        }
    }

    fn generated(tables: &str) -> Result<String, GenerateError> {
        let text = format!(r#"{{"name":"D","version":"1.0.0","tables":{tables}}}"#);
        let schema = DatabaseSchema::parse(text.as_bytes()).unwrap();
        generate(&schema, &text, "::patchbay_schemas")
    }

    #[test]
    fn names_that_would_be_one_are_an_error() {
        let error = |tables: &str| generated(tables).unwrap_err().to_string();
        let columns = r#"{"columns":{"c":{"type":"string"}}}"#;
        assert_eq!(
            error(&format!(r#"{{"AB":{columns},"Ab":{columns}}}"#)),
            "table AB and table Ab would both be named Ab"
        );
        assert_eq!(
            error(r#"{"T":{"columns":{"a":{"type":"string"},"A":{"type":"string"}}}}"#),
            "T.A and T.a would both be named A"
        );
        let values = r#"["set",["x-y","x_y"]]"#;
        let column = format!(r#"{{"type":{{"key":{{"type":"string","enum":{values}}}}}}}"#);
        assert_eq!(
            error(&format!(r#"{{"T":{{"columns":{{"c":{column}}}}}}}"#)),
            r#""x-y" of T.c and "x_y" of T.c would both be named XY"#
        );
    }

    #[test]
    fn a_file_that_is_no_schema_is_named() {
        let error = build("/nonexistent/x.ovsschema").unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/x.ovsschema: "), "{error}");
    }
}
