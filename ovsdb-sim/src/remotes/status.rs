//! What the rows of a `db:` remote say of their connections: `is_connected` and `status`, in ovsdb-server's words.

use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::{Datum, Map};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnType, TableId, TableSchema};
use patchbay_schemas::wire::{Condition, Operation};
use tokio::time::Instant;

use crate::dial::Phase;
use crate::listen;

use super::{Door, Remote};

const BOOLEAN: ColumnType = ColumnType {
    key: BaseType::unconstrained(AtomType::Boolean),
    value: None,
    min: 1,
    max: 1,
};
const STRINGS: ColumnType = ColumnType {
    key: BaseType::unconstrained(AtomType::String),
    value: Some(BaseType::unconstrained(AtomType::String)),
    min: 0,
    max: ColumnType::UNLIMITED,
};

/// How it is with a target.
#[derive(Debug)]
pub(super) struct Status {
    is_connected: bool,
    details: Vec<(&'static str, String)>,
}

impl Status {
    /// Of a target, and of what was opened for it.
    pub(super) fn of(target: &str, remote: Option<&Remote>) -> Self {
        match remote {
            Some(Remote::Passive(Door { listener, .. })) => {
                let port = listener.address().map(|address| address.port());
                Self::passive(listener.clients(), port)
            }
            Some(Remote::Active(dialer)) => {
                let progress = dialer.progress();
                let since = |name, instant: Option<Instant>| {
                    Some((name, instant?.elapsed().as_secs().to_string()))
                };
                let state = match progress.phase {
                    Phase::Backoff => "BACKOFF",
                    Phase::Connecting => "CONNECTING",
                    Phase::Active => "ACTIVE",
                };
                let details = [
                    Some(("state", state.to_owned())),
                    since("sec_since_connect", progress.connected),
                    since("sec_since_disconnect", progress.disconnected),
                ];
                Self {
                    is_connected: progress.phase == Phase::Active,
                    details: details.into_iter().flatten().collect(),
                }
            }
            None if listen::is_place(target) => Self::passive(0, None),
            // ovsdb-server takes what it does not know for a client that cannot be reached.
            None => Self {
                is_connected: false,
                details: vec![("state", "BACKOFF".to_owned())],
            },
        }
    }

    fn passive(clients: usize, port: Option<u16>) -> Self {
        // Always 0, as ovsdb-server has it: the times mean nothing with many clients.
        let mut details = ["sec_since_connect", "sec_since_disconnect"]
            .map(|name| (name, "0".to_owned()))
            .to_vec();
        if clients > 1 {
            details.push(("n_connections", clients.to_string()));
        }
        details.extend(port.map(|port| ("bound_port", port.to_string())));
        Self {
            is_connected: clients > 0,
            details,
        }
    }

    /// The operation that says so in a row, if it says something else in columns that it has.
    pub(super) fn operation(
        &self,
        id: TableId,
        table: &TableSchema,
        row: &Row,
    ) -> Option<Operation> {
        let details = self.details.iter();
        let details = details.map(|(name, value)| (Atom::from(*name), Atom::from(value.as_str())));
        let details: Map = details.collect();
        let columns = [
            ("is_connected", &BOOLEAN, Datum::scalar(self.is_connected)),
            ("status", &STRINGS, Datum::Map(details)),
        ];
        let changed = columns.into_iter().filter_map(|(name, ty, value)| {
            let column = table.column_id(name)?;
            let is_news = table.column_type(column) == ty && *row.get(column) != value;
            is_news.then_some((column, value))
        });
        let changed: Vec<_> = changed.collect();
        (!changed.is_empty()).then(|| Operation::Update {
            table: id,
            condition: Condition::uuid(row.uuid),
            row: changed,
        })
    }
}
