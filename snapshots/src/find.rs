//! Routers and switches by what a user calls them.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch};
use patchbay_schemas::typed::{TableRow, TypeError};
use uuid::Uuid;

/// Why something cannot be rendered. What `ovn-nbctl` refuses is worded as there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// Several rows have the name.
    #[error("Multiple logical {kind} named '{name}'.  Use a UUID.")]
    Ambiguous {
        /// `routers` or `switches`.
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
    /// No router has the name or UUID.
    #[error("{id}: router {} not found", if parse_uuid(id).is_some() { "UUID" } else { "name" })]
    NoSuchRouter {
        /// The name or UUID asked for.
        id: String,
    },
    /// A row holds a value that OVN does not know.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// A table whose rows users call by name.
pub(crate) trait Named: TableRow {
    /// What `ovn-nbctl` calls several rows.
    const PLURAL: &'static str;
}

impl Named for LogicalRouter {
    const PLURAL: &'static str = "routers";
}

impl Named for LogicalSwitch {
    const PLURAL: &'static str = "switches";
}

/// The row whose UUID `id` is, else the one of that name.
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
        (Some(_), Some(_)) => Err(RenderError::Ambiguous {
            kind: T::PLURAL,
            name: id.to_owned(),
        }),
    }
}

/// The router that a command names and cannot do without.
pub(crate) fn router(snapshot: &Snapshot, id: &str) -> Result<LogicalRouter, RenderError> {
    match find(snapshot, id)? {
        Some((_, router)) => Ok(router),
        None => Err(RenderError::NoSuchRouter { id: id.to_owned() }),
    }
}

/// Only the hyphenated form counts as a UUID.
fn parse_uuid(id: &str) -> Option<Uuid> {
    const HYPHENATED_LEN: usize = 36;
    Uuid::try_parse(id)
        .ok()
        .filter(|_| id.len() == HYPHENATED_LEN)
}
