//! Role-based access control: writes that a client with a role may not execute.
//!
//! The role is that of the remote, the client's id the common name in its certificate. A database
//! with a table `RBAC_Role` has rules: a row for each role, with a row of permissions for each
//! table. Both are read as the transaction sees them, as in ovsdb-server.

use std::borrow::Cow;
use std::sync::Arc;

use patchbay_engine::db::{ServerRelease, WriteAttempt, WriteKind, WriteRules};
use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnType, TableSchema};

/// Table with a row for each role.
const ROLES: &str = "RBAC_Role";
/// Id of a client without a certificate in error texts, as in ovsdb-server.
const NO_ID: &str = "(null)";

/// Client of a remote with a role.
#[derive(Clone, Debug)]
pub(crate) struct RestrictedClient<'a> {
    role: Arc<str>,
    /// Common name in the client's certificate. `None`: it has none, and may write nothing.
    id: Option<&'a str>,
    /// Release of ovsdb-server whose rules count.
    release: ServerRelease,
}

impl<'a> RestrictedClient<'a> {
    pub(crate) fn new(role: Arc<str>, id: Option<&'a str>, release: ServerRelease) -> Self {
        Self { role, id, release }
    }

    /// The error of `convert`, which no client with a role may call.
    pub(crate) fn conversion_refusal(&self, database: &str) -> OvsdbError {
        self.error(&format!(
            "\"convert\" of database {database} (only the root role may convert databases)"
        ))
    }

    fn error(&self, action: &str) -> OvsdbError {
        let (id, role) = (self.id.unwrap_or(NO_ID), &self.role);
        let details = format!("RBAC rules for client \"{id}\" role \"{role}\" prohibit {action}");
        OvsdbError::new("permission error", details)
    }

    fn is_permitted(&self, attempt: &WriteAttempt<'_>) -> bool {
        let schema = attempt.schema();
        let Some((roles, role_table)) = schema.table_by_name(ROLES) else {
            return true;
        };
        let name = &schema.table(attempt.table()).name;
        let role = role_table.column_id("name").and_then(|column| {
            let mut rows = attempt.present_rows(roles);
            rows.find(|row| has_string(&row.get(column), &self.role))
        });
        let permissions = role.and_then(|row| find_permissions(attempt, role_table, row, name));
        let (Some(id), Some(permissions)) = (self.id, permissions) else {
            return false;
        };
        let mut rows = attempt.rows().iter();
        let table = schema.table(attempt.table());
        let is_authorized = |row: &&Row| permissions.authorizes(id, table, row);
        match attempt.kind() {
            WriteKind::Insert | WriteKind::Delete => {
                rows.len() == 0 || permissions.insert_delete() && rows.all(is_authorized)
            }
            WriteKind::Update | WriteKind::Mutate => {
                let Some(writable) = permissions.strings("update") else {
                    return false;
                };
                let mut columns = attempt.columns().iter();
                let is_writable = |column| has_string(&writable, table.column_name(column));
                rows.len() == 0
                    || columns.all(|column| is_writable(*column)) && rows.all(is_authorized)
            }
        }
    }
}

impl WriteRules for RestrictedClient<'_> {
    /// Has ovsdb-server's words.
    fn refusal(&self, attempt: &WriteAttempt<'_>) -> Option<OvsdbError> {
        // Since Open vSwitch 3.4, a `mutate` without mutations only counts rows.
        let is_exempt = attempt.kind() == WriteKind::Mutate
            && attempt.columns().is_empty()
            && self.release >= ServerRelease::V3_5;
        if is_exempt || self.is_permitted(attempt) {
            return None;
        }
        let action = match attempt.kind() {
            WriteKind::Insert => "row insertion into",
            WriteKind::Update => "modification of",
            WriteKind::Mutate => "mutate operation on",
            WriteKind::Delete => "row deletion from",
        };
        let table = &attempt.schema().table(attempt.table()).name;
        Some(self.error(&format!("{action} table \"{table}\".")))
    }
}

/// Row with the permissions of a role for a table.
struct Permissions<'a> {
    schema: &'a TableSchema,
    row: &'a Row,
}

impl<'a> Permissions<'a> {
    /// `true` if a client may write a row: a column that the permissions name, or a key in a map,
    /// has the client's id. An empty name authorizes everybody.
    fn authorizes(&self, id: &str, table: &TableSchema, row: &Row) -> bool {
        let Some(names) = self.strings("authorization") else {
            return false;
        };
        names.atoms().filter_map(Atom::as_str).any(|name| {
            if name.is_empty() {
                return true;
            }
            if !name.contains(':') {
                let text = scalar(table, row, name, AtomType::String);
                return text.is_some_and(|text| text.as_str() == Some(id));
            }
            let mut parts = name.split(':').filter(|part| !part.is_empty());
            let (Some(column), Some(key)) = (parts.next(), parts.next()) else {
                return false;
            };
            let map = read(table, row, column, |ty| {
                let value = ty.value.as_ref().map(|base| base.atom);
                ty.key.atom == AtomType::String
                    && value == Some(AtomType::String)
                    && ty.max == ColumnType::UNLIMITED
            });
            map.is_some_and(|map| map.as_map().and_then(|map| map.get_str(key)) == Some(id))
        })
    }

    /// `true` if clients may insert and delete rows.
    fn insert_delete(&self) -> bool {
        let value = scalar(self.schema, self.row, "insert_delete", AtomType::Boolean);
        value == Some(Atom::Boolean(true))
    }

    /// A set of strings. `None`: there is no such column.
    fn strings(&self, column: &str) -> Option<Cow<'a, Datum>> {
        read(self.schema, self.row, column, |ty| {
            ty.key.atom == AtomType::String && !ty.is_map() && ty.max == ColumnType::UNLIMITED
        })
    }
}

/// Finds a role's row of permissions for a table.
fn find_permissions<'a>(
    attempt: &WriteAttempt<'a>,
    roles: &TableSchema,
    role: &'a Row,
    table: &str,
) -> Option<Permissions<'a>> {
    let column = roles.column_id("permissions")?;
    let value = roles.column_type(column).value.as_ref()?;
    let target = value.reference()?.table;
    let row = role.get(column);
    let uuid = row.as_map()?.get(&Atom::from(table))?.as_uuid()?;
    Some(Permissions {
        schema: attempt.schema().table(target),
        row: attempt.present_row(target, uuid)?,
    })
}

/// Reads a column whose type satisfies a predicate. `None`: there is no such column.
fn read<'r>(
    table: &TableSchema,
    row: &'r Row,
    column: &str,
    is_type: impl FnOnce(&ColumnType) -> bool,
) -> Option<Cow<'r, Datum>> {
    let column = table.column_id(column)?;
    is_type(table.column_type(column)).then(|| row.get(column))
}

/// Reads a column with at most one element of a type. `None`: it is empty, or there is no such
/// column.
fn scalar(table: &TableSchema, row: &Row, column: &str, ty: AtomType) -> Option<Atom> {
    let datum = read(table, row, column, |column| {
        column.key.atom == ty && !column.is_map() && column.max == 1
    })?;
    datum.atoms().next().cloned()
}

/// `true` if a value has a string.
fn has_string(datum: &Datum, text: &str) -> bool {
    datum.atoms().any(|atom| atom.as_str() == Some(text))
}
