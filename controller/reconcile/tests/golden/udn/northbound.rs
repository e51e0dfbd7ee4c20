//! The Northbound database of a scenario, and rows as the scenarios record them.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::{self, LogicalSwitch, LogicalSwitchPort};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::typed::Ref;
use patchbay_schemas::uuids::UuidSource;
use serde_json::{Map, Value};

use crate::report::Difference;
use crate::rows::{self, plain};

/// Switch of the default network, whose controller is played here.
const DEFAULT_SWITCH: &str = "the default network's";

/// Tables whose rows are referred to by the external id that identifies them.
const TABLES_BY_ID: [&str; 4] = ["ACL", "QoS", "DHCP_Options", "Logical_Router_Policy"];

pub(super) struct Northbound {
    database: Database,
    /// Names of the ports on the default network.
    default_ports: BTreeSet<String>,
}

/// Owner type of the address sets of EgressServices, which the recordings leave out.
const EGRESS_SERVICE: &str = "EgressService";

impl Northbound {
    pub(super) fn new() -> Self {
        Self {
            database: Database::with_uuids(nb::schema(), UuidSource::seeded(1)),
            default_ports: BTreeSet::new(),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    pub(super) fn commit(&mut self, transaction: &Transaction) -> Result<(), String> {
        let done = self.database.transact(transaction.operations());
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    /// `true` if the default network has the port.
    pub(super) fn has_default_port(&self, name: &str) -> bool {
        self.default_ports.contains(name)
    }

    /// Makes the ports on the default network those of these names.
    pub(super) fn set_default_ports(&mut self, names: &BTreeSet<String>) -> Result<(), String> {
        if *names == self.default_ports {
            return Ok(());
        }
        let snapshot = self.snapshot();
        let mut txn = TxnBuilder::new(&snapshot);
        let ports = snapshot.typed::<LogicalSwitchPort>();
        let ports: BTreeMap<String, Ref<LogicalSwitchPort>> = ports
            .iter()
            .filter_map(|port| port.ok().map(|(port_ref, port)| (port.name, port_ref)))
            .filter(|(name, _)| self.default_ports.contains(name))
            .collect();
        let switches = snapshot.typed::<LogicalSwitch>();
        let mut switches = switches.iter().filter_map(Result::ok);
        let switch = switches.find(|(_, switch)| switch.name == DEFAULT_SWITCH);
        let mut wanted =
            LogicalSwitch { name: DEFAULT_SWITCH.to_owned(), ..LogicalSwitch::default() };
        for name in names {
            let known = ports.get(name).copied();
            let port = LogicalSwitchPort { name: name.clone(), ..LogicalSwitchPort::default() };
            let port = known.map_or_else(|| txn.insert(&port), Ok);
            wanted.ports.insert(port.map_err(|error| error.to_string())?);
        }
        let done = match &switch {
            Some((switch_ref, switch)) => txn.update(*switch_ref, switch, &wanted).map(|_| ()),
            None => txn.insert(&wanted).map(|_| ()),
        };
        done.map_err(|error| error.to_string())?;
        self.commit(&txn.finish())?;
        self.default_ports.clone_from(names);
        Ok(())
    }

    fn is_of_default_network(&self, table: &str, schema: &TableSchema, row: &Row) -> bool {
        let name = schema.column_id("name").map(|column| row.get(column));
        let name = name.as_ref().and_then(|name| name.as_scalar()?.as_str());
        match (table, name) {
            ("Logical_Switch", Some(name)) => name == DEFAULT_SWITCH,
            ("Logical_Switch_Port", Some(name)) => self.default_ports.contains(name),
            ("Address_Set", _) => owner_type(schema, row).as_deref() == Some(EGRESS_SERVICE),
            _ => false,
        }
    }

    /// Differences in one table. `None`: there are none.
    pub(super) fn compare(
        &self,
        table: &str,
        expected: &[Map<String, Value>],
    ) -> Result<Option<Difference>, String> {
        let is_compared =
            |schema: &TableSchema, row: &Row| !self.is_of_default_network(table, schema, row);
        let name = |schema: &TableSchema, row: &Row| Some(label(schema, row));
        rows::compare(&self.snapshot(), table, expected, is_compared, name)
    }
}

/// External id with the kind of object that a row is for.
fn owner_type(schema: &TableSchema, row: &Row) -> Option<String> {
    let ids = row.get(schema.column_id("external_ids")?);
    let owner_type = ids.as_map()?.get_str("k8s.ovn.org/owner-type");
    owner_type.map(ToOwned::to_owned)
}

/// Label of a row, by which the scenarios record references to it.
fn label(schema: &TableSchema, row: &Row) -> String {
    let column = |name| schema.column_id(name).map(|column| row.get(column));
    let text = |name| {
        let datum = column(name)?;
        datum.as_scalar().map(|atom| match plain(atom) {
            Value::String(text) => text,
            other => other.to_string(),
        })
    };
    let value = |name| text(name).unwrap_or_default();
    let part = |word: &str, name| {
        let value = value(name);
        if value.is_empty() { value } else { format!(" {word} {value}") }
    };
    let table = &*schema.name;
    if TABLES_BY_ID.contains(&table) {
        let id = column("external_ids");
        let id = id.and_then(|ids| Some(ids.as_map()?.get_str("k8s.ovn.org/id")?.to_owned()));
        if let Some(id) = id {
            return id;
        }
    }
    match table {
        "Logical_Router_Policy" => format!("{} {}", value("priority"), value("match")),
        "Logical_Router_Static_Route" => format!(
            "{} {} via {}{}",
            text("policy").unwrap_or_else(|| "dst-ip".to_owned()),
            value("ip_prefix"),
            value("nexthop"),
            part("port", "output_port"),
        ),
        "NAT" => format!(
            "{} {} to {}{}{}",
            value("type"),
            value("logical_ip"),
            value("external_ip"),
            part("port", "logical_port"),
            part("if", "match"),
        ),
        "Meter_Band" => format!("{} {}", value("action"), value("rate")),
        _ => value("name"),
    }
}
