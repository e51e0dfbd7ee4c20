//! Typed rows of a database, and what they belong to.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use patchbay_engine::db::Snapshot;
use patchbay_model::owner::Owner;
use patchbay_model::printable::printable;
use patchbay_reach::{Conflict, Northbound, Note, RowRef};
use patchbay_schemas::nb::{
    Acl, DhcpOptions, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat, NbGlobal,
    PortGroup, QoS,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use super::releases::OvnRelease;

/// Columns that identify a row without a name, best first.
const IDENTIFYING_COLUMNS: [&str; 4] = ["match", "ip_prefix", "external_ip", "cidr"];
/// Maximum length of a name in a finding, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// Rows of a table by their UUIDs.
pub(super) struct Rows<T> {
    sorted: Vec<(Uuid, T)>,
    places: HashMap<Uuid, usize>,
}

impl<T: TableRow> Rows<T> {
    fn read(snapshot: &Snapshot) -> Self {
        let table = snapshot.typed::<T>();
        // Rows that cannot be read are findings of another rule.
        let rows = table.rows().filter_map(|row| Some((row.uuid, table.read(row).ok()?)));
        let mut sorted: Vec<_> = rows.collect();
        sorted.sort_unstable_by_key(|(uuid, _)| *uuid);
        let places = sorted.iter().enumerate().map(|(place, (uuid, _))| (*uuid, place)).collect();
        Self { sorted, places }
    }

    pub(super) fn get(&self, uuid: Uuid) -> Option<&T> {
        Some(&self.sorted[*self.places.get(&uuid)?].1)
    }

    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RowRef, &T)> {
        self.sorted.iter().map(|(uuid, row)| (reference::<T>(*uuid), row))
    }

    /// Rows that references name.
    pub(super) fn of<'a>(
        &'a self,
        references: impl IntoIterator<Item = &'a Ref<T>>,
    ) -> impl Iterator<Item = (RowRef, &'a T)> {
        references
            .into_iter()
            .filter_map(|one| Some((reference::<T>(one.uuid), self.get(one.uuid)?)))
    }
}

pub(super) fn reference<T: TableRow>(uuid: Uuid) -> RowRef {
    RowRef { table: T::TABLE, uuid }
}

/// Rows of a database, with what follows from them.
pub(super) struct Index<'a> {
    snapshot: &'a Snapshot,
    pub(super) release: Option<OvnRelease>,
    pub(super) notes: Vec<Note>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) acls: Rows<Acl>,
    pub(super) dhcp_options: Rows<DhcpOptions>,
    pub(super) globals: Rows<NbGlobal>,
    pub(super) groups: Rows<PortGroup>,
    pub(super) load_balancers: Rows<LoadBalancer>,
    pub(super) load_balancer_groups: Rows<LoadBalancerGroup>,
    pub(super) nats: Rows<Nat>,
    pub(super) policies: Rows<LogicalRouterPolicy>,
    pub(super) qos: Rows<QoS>,
    pub(super) routers: Rows<LogicalRouter>,
    pub(super) router_ports: Rows<LogicalRouterPort>,
    pub(super) routes: Rows<LogicalRouterStaticRoute>,
    pub(super) switches: Rows<LogicalSwitch>,
    pub(super) switch_ports: Rows<LogicalSwitchPort>,
    /// Switches, routers and port groups by the rows that they hold.
    parents: HashMap<Uuid, RowRef>,
    /// Router ports by name.
    pub(super) router_ports_by_name: HashMap<String, RowRef>,
}

impl<'a> Index<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, release: Option<OvnRelease>) -> Self {
        let northbound = Northbound::new(snapshot, None);
        let mut index = Self {
            snapshot,
            release,
            notes: northbound.notes().to_vec(),
            conflicts: northbound.conflicts(),
            acls: Rows::read(snapshot),
            dhcp_options: Rows::read(snapshot),
            globals: Rows::read(snapshot),
            groups: Rows::read(snapshot),
            load_balancers: Rows::read(snapshot),
            load_balancer_groups: Rows::read(snapshot),
            nats: Rows::read(snapshot),
            policies: Rows::read(snapshot),
            qos: Rows::read(snapshot),
            routers: Rows::read(snapshot),
            router_ports: Rows::read(snapshot),
            routes: Rows::read(snapshot),
            switches: Rows::read(snapshot),
            switch_ports: Rows::read(snapshot),
            parents: HashMap::new(),
            router_ports_by_name: HashMap::new(),
        };
        index.find_parents();
        let ports = index.router_ports.iter();
        index.router_ports_by_name = ports.map(|(row, port)| (port.name.clone(), row)).collect();
        index
    }

    fn find_parents(&mut self) {
        let mut parents = HashMap::new();
        for (row, switch) in self.switches.iter() {
            add(&mut parents, row, &switch.ports);
            add(&mut parents, row, &switch.acls);
            add(&mut parents, row, &switch.qos_rules);
        }
        for (row, router) in self.routers.iter() {
            add(&mut parents, row, &router.ports);
            add(&mut parents, row, &router.policies);
            add(&mut parents, row, &router.static_routes);
            add(&mut parents, row, &router.nat);
        }
        for (row, group) in self.groups.iter() {
            add(&mut parents, row, &group.acls);
        }
        self.parents = parents;
    }

    /// The switch, router or port group that holds a row. `None`: it is not known.
    pub(super) fn parent(&self, uuid: Uuid) -> Option<RowRef> {
        self.parents.get(&uuid).copied()
    }

    /// Table and name of a row, with the object for which it exists and the row that holds it.
    pub(super) fn describe(&self, row: RowRef) -> String {
        let mut text = format!("{} {}", row.table, self.name(row));
        if let Some(owner) = self.owner(row) {
            // Writing to a string cannot fail.
            let _ = write!(text, " ({})", printable(&owner.to_string(), MAX_NAME_BYTES));
        }
        if let Some(parent) = self.parent(row.uuid) {
            let _ = write!(text, " of {} {}", parent.table, self.name(parent));
        }
        text
    }

    /// Name of a row, or what identifies it best.
    pub(super) fn name(&self, row: RowRef) -> String {
        let name = self.row(row).and_then(|(schema, row)| {
            let text = |column: &str| text_of(schema, row, column);
            let columns = ["name"].into_iter().chain(IDENTIFYING_COLUMNS);
            columns.into_iter().find_map(text)
        });
        let name = name.unwrap_or_else(|| row.uuid.to_string());
        printable(&name, MAX_NAME_BYTES).into_owned()
    }

    fn owner(&self, row: RowRef) -> Option<Owner> {
        let (schema, row) = self.row(row)?;
        let ids = row.get(schema.column_id("external_ids")?);
        let ids = ids.as_map()?;
        Owner::of(&text_of(schema, row, "name").unwrap_or_default(), |key| ids.get_str(key))
    }

    fn row(&self, row: RowRef) -> Option<(&TableSchema, &Row)> {
        let (id, schema) = self.snapshot.schema().table_by_name(row.table)?;
        Some((schema, self.snapshot.row(id, row.uuid)?))
    }

    /// The router port behind a switch port of type `router`.
    pub(super) fn behind(&self, port: &LogicalSwitchPort) -> Option<(RowRef, &LogicalRouterPort)> {
        if port.r#type != "router" {
            return None;
        }
        let row = *self.router_ports_by_name.get(port.options.get("router-port")?)?;
        Some((row, self.router_ports.get(row.uuid)?))
    }
}

fn text_of(schema: &TableSchema, row: &Row, column: &str) -> Option<String> {
    let datum = row.get(schema.column_id(column)?);
    Some(datum.as_scalar()?.as_str()?.to_owned()).filter(|text| !text.is_empty())
}

fn add<T>(parents: &mut HashMap<Uuid, RowRef>, row: RowRef, children: &BTreeSet<Ref<T>>) {
    parents.extend(children.iter().map(|child| (child.uuid, row)));
}
