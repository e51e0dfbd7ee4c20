//! Status of the connections of a `db:` remote: the columns `is_connected` and `status`, in
//! ovsdb-server's words.

use patchbay_schemas::atom::{Atom, AtomType};
use patchbay_schemas::datum::{Datum, Map};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnType, TableId, TableSchema};
use patchbay_schemas::wire::{Condition, Operation};
use tokio::time::Instant;

use crate::dial::DialerPhase;
use crate::target::PassiveTarget;

use super::{OpenRemote, PassiveRemote};

/// Types of the column `is_connected`: with exactly one element, and optional as in schemas of
/// clusters.
const BOOLEANS: [ColumnType; 2] = [boolean(1), boolean(0)];
/// Type of the column `status`.
const STRINGS: ColumnType = ColumnType {
    key: BaseType::unconstrained(AtomType::String),
    value: Some(BaseType::unconstrained(AtomType::String)),
    min: 0,
    max: ColumnType::UNLIMITED,
};

const fn boolean(min: u32) -> ColumnType {
    ColumnType { key: BaseType::unconstrained(AtomType::Boolean), value: None, min, max: 1 }
}

/// Status of a target.
#[derive(Debug)]
pub(super) struct RemoteStatus {
    is_connected: bool,
    /// Keys and values of the column `status`.
    details: Vec<(&'static str, String)>,
}

impl RemoteStatus {
    /// Makes the status of a target. `None`: its remote could not be opened.
    pub(super) fn new(target: &str, remote: Option<&OpenRemote>) -> Self {
        match remote {
            Some(OpenRemote::Passive(PassiveRemote { listener, .. })) => {
                let port = listener.address().map(|address| address.port());
                Self::passive(listener.client_count(), port)
            }
            Some(OpenRemote::Active(dialer)) => {
                let status = dialer.status();
                let since = |name, instant: Option<Instant>| {
                    Some((name, instant?.elapsed().as_secs().to_string()))
                };
                let state = match status.phase {
                    DialerPhase::Backoff => "BACKOFF",
                    DialerPhase::Connecting => "CONNECTING",
                    DialerPhase::Active => "ACTIVE",
                };
                let details = [
                    Some(("state", state.to_owned())),
                    since("sec_since_connect", status.connected),
                    since("sec_since_disconnect", status.disconnected),
                ];
                Self {
                    is_connected: status.phase == DialerPhase::Active,
                    details: details.into_iter().flatten().collect(),
                }
            }
            None if PassiveTarget::parse(target).is_some() => Self::passive(0, None),
            // ovsdb-server takes an unknown kind of target for a client that cannot be reached.
            None => Self { is_connected: false, details: vec![("state", "BACKOFF".to_owned())] },
        }
    }

    fn passive(clients: usize, port: Option<u16>) -> Self {
        // Always 0, as in ovsdb-server, because the times have no meaning with several clients.
        let mut details = ["sec_since_connect", "sec_since_disconnect"]
            .map(|name| (name, "0".to_owned()))
            .to_vec();
        if clients > 1 {
            details.push(("n_connections", clients.to_string()));
        }
        details.extend(port.map(|port| ("bound_port", port.to_string())));
        Self { is_connected: clients > 0, details }
    }

    /// The operation that writes the status into a row. `None`: the row's columns are up to date.
    pub(super) fn update_operation(
        &self,
        id: TableId,
        table: &TableSchema,
        row: &Row,
    ) -> Option<Operation> {
        let details: Map = self
            .details
            .iter()
            .map(|(name, value)| (Atom::from(*name), Atom::from(value.as_str())))
            .collect();
        let columns = [
            ("is_connected", &BOOLEANS[..], Datum::scalar(self.is_connected)),
            ("status", &[STRINGS][..], Datum::Map(details)),
        ];
        let changed: Vec<_> = columns
            .into_iter()
            .filter_map(|(name, types, value)| {
                let column = table.column_id(name)?;
                let is_changed =
                    types.contains(table.column_type(column)) && *row.get(column) != value;
                is_changed.then_some((column, value))
            })
            .collect();
        (!changed.is_empty()).then(|| Operation::Update {
            table: id,
            condition: Condition::uuid(row.uuid),
            row: changed,
        })
    }
}
