//! Index of the database rows that connects own or refer to.
//!
//! An update reads only changed rows.
//!
//! ```text
//! owned                connect -> part -> rows
//! holders              row -> routers or switches that refer to it
//! routers, switches    name -> rows
//! ```

mod changes;
mod holders;
mod identity;
mod owned;
mod table_kind;
mod touched;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, LoadBalancer, LogicalRouter, LogicalRouterPort, LogicalSwitch,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{Constraint, DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow};
use smol_str::SmolStr;
use uuid::Uuid;

use super::part::Part;
use super::reconcile::ReferenceColumn;
pub(super) use holders::ColumnHolders;
pub(super) use identity::IdentityColumns;
pub(super) use owned::{Owned, OwnedParts};
pub(super) use table_kind::TableKind;
pub(super) use touched::Touched;

/// Version (major, minor) of the first Northbound schema of an OVN with remote router ports (25.03).
/// The ports changed nothing in the schema, so nothing else shows them.
const REMOTE_ROUTER_PORTS: (u32, u32) = (7, 11);

/// Table of the index.
#[derive(Clone, Copy, Debug)]
struct IndexedTable {
    id: Option<TableId>,
    identity: IdentityColumns,
}

/// Rows of connects, and rows that they are attached to.
#[derive(Debug)]
pub(super) struct Index {
    snapshot: Snapshot,
    /// Indexed by `TableKind`.
    tables: [IndexedTable; TableKind::ALL.len()],
    kinds: HashMap<TableId, TableKind, RandomState>,
    owned: BTreeMap<String, BTreeSet<Owned>>,
    pub(super) ports: ColumnHolders,
    pub(super) policies: ColumnHolders,
    pub(super) routes: ColumnHolders,
    pub(super) acls: ColumnHolders,
    pub(super) groups: ColumnHolders,
    /// Router rows by name. OVN does not require unique names; the row with the lowest UUID
    /// is used.
    routers: HashMap<String, BTreeSet<Uuid>, RandomState>,
    /// Switch rows by name, like the routers.
    switches: HashMap<String, BTreeSet<Uuid>, RandomState>,
    load_balancers: BTreeMap<String, BTreeSet<Ref<LoadBalancer>>>,
    copps: BTreeSet<Uuid>,
    /// Positions of the unique indexes over names in the schema.
    port_names: Option<usize>,
    address_set_names: Option<usize>,
    has_pass_action: bool,
}

impl Index {
    /// Builds the index from the whole database.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let schema = snapshot.schema();
        let mut kinds = TableKind::ALL;
        kinds.sort_unstable();
        let tables = kinds.map(|kind| IndexedTable {
            id: schema.table_id(kind.table()),
            identity: kind.identity(schema),
        });
        let ids = kinds
            .into_iter()
            .filter_map(|kind| Some((tables[kind as usize].id?, kind)));
        let in_router =
            |column| ColumnHolders::new(ReferenceColumn::of::<LogicalRouter>(snapshot, column));
        let in_switch =
            |column| ColumnHolders::new(ReferenceColumn::of::<LogicalSwitch>(snapshot, column));
        let mut index = Self {
            snapshot: snapshot.clone(),
            kinds: ids.collect(),
            tables,
            owned: BTreeMap::new(),
            ports: in_router("ports"),
            policies: in_router("policies"),
            routes: in_router("static_routes"),
            acls: in_switch("acls"),
            groups: in_switch("load_balancer_group"),
            routers: HashMap::default(),
            switches: HashMap::default(),
            load_balancers: BTreeMap::new(),
            copps: BTreeSet::new(),
            port_names: unique_names(schema, LogicalRouterPort::TABLE),
            address_set_names: unique_names(schema, AddressSet::TABLE),
            has_pass_action: has_pass_action(schema),
        };
        // Discarded: after a build, every part is pending.
        let mut touched = Touched::default();
        for kind in TableKind::ALL {
            let Some(table) = index.table(kind).id else {
                continue;
            };
            for row in snapshot.table(table).iter() {
                index.row(kind, None, Some(row), &mut touched);
            }
        }
        index.join_gained(&mut touched);
        index
    }

    /// Updates the index. With `watched`, names of changed ports are recorded, because a link waits
    /// for a port name.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        changes: &[RowChange],
        watched: bool,
    ) -> Touched {
        self.snapshot = snapshot.clone();
        let mut touched = Touched::default();
        for change in changes {
            let Some(kind) = self.kinds.get(&change.table).copied() else {
                continue;
            };
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            self.row(kind, old, new, &mut touched);
            if watched && kind == TableKind::Port {
                let identity = self.identity(kind);
                let names = [old, new]
                    .into_iter()
                    .flatten()
                    .map(|row| identity.name(row));
                touched.ports.extend(names.map(str::to_owned));
            }
        }
        self.join_gained(&mut touched);
        self.mark_moved_rows(&mut touched);
        touched
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn table(&self, kind: TableKind) -> IndexedTable {
        self.tables[kind as usize]
    }

    pub(super) fn identity(&self, kind: TableKind) -> IdentityColumns {
        self.table(kind).identity
    }

    /// Row of the current snapshot.
    pub(super) fn get(&self, kind: TableKind, uuid: Uuid) -> Option<&Arc<Row>> {
        self.snapshot.row(self.table(kind).id?, uuid)
    }

    /// Names of connects that own rows.
    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owned.keys().map(String::as_str)
    }

    /// All rows of a connect, ordered by part.
    pub(super) fn owned(&self, connect: &str) -> impl Iterator<Item = Owned> {
        self.owned.get(connect).into_iter().flatten().copied()
    }

    /// Rows of a range of parts of a connect.
    pub(super) fn owned_of(
        &self,
        connect: &str,
        parts: std::ops::RangeInclusive<Part>,
    ) -> impl Iterator<Item = Owned> {
        let range = Owned::first(*parts.start())..=Owned::last(*parts.end());
        let owned = self.owned.get(connect);
        owned
            .into_iter()
            .flat_map(move |owned| owned.range(range.clone()))
            .copied()
    }

    /// All rows of a connect, to be asked for part by part.
    pub(super) fn owned_parts(&self, connect: &str) -> OwnedParts<'_> {
        OwnedParts::new(self.owned.get(connect))
    }

    /// The router of a name.
    pub(super) fn router(&self, name: &str) -> Option<&Arc<Row>> {
        self.get(TableKind::Router, *self.routers.get(name)?.first()?)
    }

    /// The switch of a name.
    pub(super) fn switch(&self, name: &str) -> Option<&Arc<Row>> {
        self.get(TableKind::Switch, *self.switches.get(name)?.first()?)
    }

    /// The router port of a name, whoever owns it.
    pub(super) fn port(&self, name: &SmolStr) -> Option<&Arc<Row>> {
        self.named(TableKind::Port, self.port_names, name)
    }

    /// The address set of a name, whoever owns it.
    pub(super) fn address_set(&self, name: &SmolStr) -> Option<&Arc<Row>> {
        self.named(TableKind::AddressSet, self.address_set_names, name)
    }

    fn named(&self, kind: TableKind, index: Option<usize>, name: &SmolStr) -> Option<&Arc<Row>> {
        let table = self.snapshot.table(self.table(kind).id?);
        match index {
            Some(index) => table.find(index, &[Datum::scalar(name.clone())]),
            // All OVN schemas have this index. Without it, the whole table is searched.
            None => table
                .iter()
                .find(|row| self.identity(kind).name(row) == name),
        }
    }

    /// `Copp` row (control plane protection) that all routers share.
    pub(super) fn copp(&self) -> Option<Ref<Copp>> {
        self.copps.first().copied().map(Ref::new)
    }

    /// Load balancers of a network's services.
    pub(super) fn load_balancers(&self, network: &str) -> Option<&BTreeSet<Ref<LoadBalancer>>> {
        self.load_balancers.get(network)
    }

    /// Version of the schema if OVN has no remote router ports with it. `None`: OVN has them.
    pub(super) fn version_without_remote_ports(&self) -> Option<&str> {
        let version = &self.snapshot.schema().version;
        let mut numbers = version.split('.').map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return None;
        };
        ((major, minor) < REMOTE_ROUTER_PORTS).then_some(version)
    }

    /// True if the schema has the ACL action `pass`.
    pub(super) fn has_pass_action(&self) -> bool {
        self.has_pass_action
    }
}

/// Position of a table's unique index over names.
fn unique_names(schema: &DatabaseSchema, table: &str) -> Option<usize> {
    let (_, table) = schema.table_by_name(table)?;
    let name = table.column_id("name")?;
    table.indexes.iter().position(|columns| **columns == [name])
}

/// True if the schema allows the ACL action `pass`.
fn has_pass_action(schema: &DatabaseSchema) -> bool {
    let Some((_, table)) = schema.table_by_name(Acl::TABLE) else {
        return false;
    };
    let action = table.column_id("action").map(|id| table.column_type(id));
    action.is_some_and(|action| match &action.key.constraint {
        Constraint::Enum(allowed) => allowed.contains(&Atom::from("pass")),
        _ => true,
    })
}
