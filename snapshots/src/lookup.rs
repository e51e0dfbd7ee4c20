//! Look-up of routers and switches by name or UUID, as on `ovn-nbctl`'s command line.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::hash_order;
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch, PortGroup};
use patchbay_schemas::typed::{TableRow, TypeError};
use uuid::Uuid;

/// Reason why a text cannot be rendered. Errors that `ovn-nbctl` has too have its wording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// Several rows have the name.
    #[error("Multiple logical {kind} named '{name}'.  Use a UUID.")]
    Ambiguous {
        /// `routers` or `switches`.
        kind: &'static str,
        /// Requested name.
        name: String,
    },
    /// No router has the name or UUID.
    #[error("{id}: router {} not found", if parse_uuid(id).is_some() { "UUID" } else { "name" })]
    NoSuchRouter {
        /// Requested name or UUID.
        id: String,
    },
    /// No switch has the name or UUID.
    #[error("{id}: switch {} not found", if parse_uuid(id).is_some() { "UUID" } else { "name" })]
    NoSuchSwitch {
        /// Requested name or UUID.
        id: String,
    },
    /// Neither a switch nor a port group has the name or UUID.
    #[error("'{id}' is not found for port-group or switch.")]
    NoSuchAclHolder {
        /// Requested name or UUID.
        id: String,
    },
    /// A switch and a port group have the name.
    #[error(
        "Same name '{id}' exists in both port-groups and logical switches. Specify \
         --type=port-group or switch, or use a UUID."
    )]
    SameName {
        /// Requested name.
        id: String,
    },
    /// The schema has no such table.
    #[error("unknown table \"{table}\"")]
    NoSuchTable {
        /// Requested table.
        table: String,
    },
    /// A row holds a value that OVN does not define.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// A table whose rows can be looked up by name.
pub(crate) trait Named: TableRow {
    /// Plural of the table's rows in `ovn-nbctl`'s errors.
    const PLURAL: &'static str;
}

impl Named for LogicalRouter {
    const PLURAL: &'static str = "routers";
}

impl Named for LogicalSwitch {
    const PLURAL: &'static str = "switches";
}

impl Named for PortGroup {
    const PLURAL: &'static str = "port groups";
}

/// The row with the UUID `id`, or else the row with this name.
pub(crate) fn find<T: Named>(
    snapshot: &Snapshot,
    id: &str,
) -> Result<Option<(Uuid, T)>, RenderError> {
    let table = snapshot.typed::<T>();
    if let Some(uuid) = parse_uuid(id)
        && let Some(row) = table.get(uuid)?
    {
        return Ok(Some((uuid, row)));
    }
    let schema = snapshot.schema().table_by_name(T::TABLE);
    let Some(column) = schema.and_then(|(_, table)| table.column_id("name")) else {
        return Ok(None);
    };
    let mut rows = table.rows().filter(|row| {
        let name = row.get(column);
        name.as_scalar().and_then(|name| name.as_str()) == Some(id)
    });
    match (rows.next(), rows.next()) {
        (None, _) => Ok(None),
        (Some(row), None) => Ok(Some((row.uuid, table.read(row)?))),
        (Some(_), Some(_)) => Err(RenderError::Ambiguous { kind: T::PLURAL, name: id.to_owned() }),
    }
}

/// The router with a UUID or name; an error if it does not exist.
pub(crate) fn find_router(snapshot: &Snapshot, id: &str) -> Result<LogicalRouter, RenderError> {
    match find(snapshot, id)? {
        Some((_, router)) => Ok(router),
        None => Err(RenderError::NoSuchRouter { id: id.to_owned() }),
    }
}

/// The switch with a UUID or name; an error if it does not exist.
pub(crate) fn find_switch(snapshot: &Snapshot, id: &str) -> Result<LogicalSwitch, RenderError> {
    match find(snapshot, id)? {
        Some((_, switch)) => Ok(switch),
        None => Err(RenderError::NoSuchSwitch { id: id.to_owned() }),
    }
}

/// Rows of a table in the order of `ovn-nbctl`'s hash table.
pub(crate) fn rows_in_hash_order<T: TableRow>(
    snapshot: &Snapshot,
) -> Result<Vec<(Uuid, T)>, TypeError> {
    let table = snapshot.typed::<T>();
    let uuids = hash_order::row_order(table.rows().map(|row| row.uuid).collect());
    uuids
        .into_iter()
        .map(|uuid| Ok(table.get(uuid)?.map(|row| (uuid, row))))
        .filter_map(Result::transpose)
        .collect()
}

/// Parses a UUID. `ovn-nbctl` accepts the hyphenated form only.
fn parse_uuid(id: &str) -> Option<Uuid> {
    const HYPHENATED_LEN: usize = 36;
    Uuid::try_parse(id).ok().filter(|_| id.len() == HYPHENATED_LEN)
}
