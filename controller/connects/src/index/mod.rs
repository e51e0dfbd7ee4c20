//! What of the database matters to connects, kept up to date: each change of a row costs as much as the row, and
//! nothing else is read again.
//!
//! ```text
//! owned      connect -> part of its rows -> rows
//! holders    row -> the routers or switches that hold it
//! places     name -> routers, switches
//! ```

mod holders;
mod marks;
mod owned;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{Constraint, DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow};
use smol_str::SmolStr;
use uuid::Uuid;

use super::desired::COPP;
use super::reconcile::Holding;
use super::unit::{LinkId, Unit};
pub(super) use holders::Holders;
pub(super) use marks::Marks;
pub(super) use owned::{Owned, OwnedParts};
use patchbay_model::NetworkId;
use patchbay_model::external_ids::key;
use patchbay_model::names::{self, LOAD_BALANCER_GROUP_PREFIX};

/// Maps of UUIDs, which a client may choose.
type Uuids<V> = HashMap<Uuid, V, RandomState>;

/// External ids of load balancers that belong to services.
const KIND: (&str, &str) = ("k8s.ovn.org/kind", "Service");
/// External id with the network of a load balancer.
const NETWORK: &str = "k8s.ovn.org/network";
/// How the names of load balancers end that are the same on all nodes.
const CLUSTER_SUFFIX: &str = "_cluster";

/// The tables that matter.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    Router,
    Port,
    Policy,
    Route,
    Acl,
    AddressSet,
    Group,
    Switch,
    LoadBalancer,
    Copp,
}

impl Kind {
    /// Holders come last: what they hold is known by then.
    const ALL: [Self; 10] = [
        Self::Port,
        Self::Policy,
        Self::Route,
        Self::Acl,
        Self::AddressSet,
        Self::Group,
        Self::LoadBalancer,
        Self::Copp,
        Self::Router,
        Self::Switch,
    ];

    const fn table(self) -> &'static str {
        match self {
            Self::Router => LogicalRouter::TABLE,
            Self::Port => LogicalRouterPort::TABLE,
            Self::Policy => LogicalRouterPolicy::TABLE,
            Self::Route => LogicalRouterStaticRoute::TABLE,
            Self::Acl => Acl::TABLE,
            Self::AddressSet => AddressSet::TABLE,
            Self::Group => LoadBalancerGroup::TABLE,
            Self::Switch => LogicalSwitch::TABLE,
            Self::LoadBalancer => LoadBalancer::TABLE,
            Self::Copp => Copp::TABLE,
        }
    }

    fn marks(self, schema: &DatabaseSchema) -> Marks {
        match self {
            Self::Router => Marks::of::<LogicalRouter>(schema),
            Self::Port => Marks::of::<LogicalRouterPort>(schema),
            Self::Policy => Marks::of::<LogicalRouterPolicy>(schema),
            Self::Route => Marks::of::<LogicalRouterStaticRoute>(schema),
            Self::Acl => Marks::of::<Acl>(schema),
            Self::AddressSet => Marks::of::<AddressSet>(schema),
            Self::Group => Marks::of::<LoadBalancerGroup>(schema),
            Self::Switch => Marks::of::<LogicalSwitch>(schema),
            Self::LoadBalancer => Marks::of::<LoadBalancer>(schema),
            Self::Copp => Marks::of::<Copp>(schema),
        }
    }
}

/// What changed in the database, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Parts of connects' rows that somebody changed, or that are held by other rows than before; some several times.
    pub(super) units: BTreeMap<String, Vec<Unit>>,
    /// The rows whose parts are among these.
    rows: HashSet<Uuid, RandomState>,
    /// Rows that are held by others than before.
    moved: Vec<(Kind, Uuid)>,
    /// Rows of connects that came and are not among the others yet.
    gained: BTreeMap<String, Vec<Owned>>,
    /// Names of routers and switches that came or went.
    pub(super) places: BTreeSet<String>,
    /// Names of ports that came, went or got another owner; only those that somebody waits for.
    pub(super) ports: BTreeSet<String>,
    /// Names of networks whose load balancers came or went.
    pub(super) load_balancers: BTreeSet<String>,
    /// Whether the row that all routers share came or went.
    pub(super) copp: bool,
}

impl Touched {
    fn unit(&mut self, connect: &str, unit: Unit) {
        match self.units.get_mut(connect) {
            Some(units) => units.push(unit),
            None => {
                self.units.insert(connect.to_owned(), vec![unit]);
            }
        }
    }
}

/// One table.
#[derive(Clone, Copy, Debug)]
struct Table {
    id: Option<TableId>,
    marks: Marks,
}

/// The rows of connects and those that they attach to.
#[derive(Debug)]
pub(super) struct Index {
    snapshot: Snapshot,
    /// In the order of the kinds.
    tables: [Table; Kind::ALL.len()],
    kinds: HashMap<TableId, Kind, RandomState>,
    owned: BTreeMap<String, BTreeSet<Owned>>,
    pub(super) ports: Holders,
    pub(super) policies: Holders,
    pub(super) routes: Holders,
    pub(super) acls: Holders,
    pub(super) groups: Holders,
    routers: Names,
    switches: Names,
    load_balancers: BTreeMap<String, BTreeSet<Ref<LoadBalancer>>>,
    copps: BTreeSet<Uuid>,
    /// The places of the unique indexes of names.
    port_names: Option<usize>,
    address_set_names: Option<usize>,
    has_pass_action: bool,
}

/// Rows by name. Nothing says that there is only one of a name: then the first by UUID counts.
type Names = HashMap<String, BTreeSet<Uuid>, RandomState>;

impl Index {
    /// Reads the whole database.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let schema = snapshot.schema();
        let mut kinds = Kind::ALL;
        kinds.sort_unstable();
        let tables = kinds.map(|kind| Table {
            id: schema.table_id(kind.table()),
            marks: kind.marks(schema),
        });
        let ids = kinds
            .into_iter()
            .filter_map(|kind| Some((tables[kind as usize].id?, kind)));
        let in_router = |column| Holders::new(Holding::of::<LogicalRouter>(snapshot, column));
        let in_switch = |column| Holders::new(Holding::of::<LogicalSwitch>(snapshot, column));
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
            routers: Names::default(),
            switches: Names::default(),
            load_balancers: BTreeMap::new(),
            copps: BTreeSet::new(),
            port_names: unique_names(schema, LogicalRouterPort::TABLE),
            address_set_names: unique_names(schema, AddressSet::TABLE),
            has_pass_action: has_pass_action(schema),
        };
        // Nobody asks what is new: all of it is.
        let mut touched = Touched::default();
        for kind in Kind::ALL {
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

    /// Follows the database. `watched` says whether somebody waits for names of ports.
    pub(super) fn follow(
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
            if watched && kind == Kind::Port {
                let marks = self.marks(kind);
                let names = [old, new].into_iter().flatten().map(|row| marks.name(row));
                touched.ports.extend(names.map(str::to_owned));
            }
        }
        self.join_gained(&mut touched);
        self.follow_moved(&mut touched);
        touched
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn table(&self, kind: Kind) -> Table {
        self.tables[kind as usize]
    }

    pub(super) fn marks(&self, kind: Kind) -> Marks {
        self.table(kind).marks
    }

    /// A row of the present state.
    pub(super) fn get(&self, kind: Kind, uuid: Uuid) -> Option<&Arc<Row>> {
        self.snapshot.row(self.table(kind).id?, uuid)
    }

    /// The connects that own rows.
    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owned.keys().map(String::as_str)
    }

    /// All rows of a connect, part by part.
    pub(super) fn owned(&self, connect: &str) -> impl Iterator<Item = Owned> {
        self.owned.get(connect).into_iter().flatten().copied()
    }

    /// The rows of some parts of a connect.
    pub(super) fn owned_of(
        &self,
        connect: &str,
        units: std::ops::RangeInclusive<Unit>,
    ) -> impl Iterator<Item = Owned> {
        let range = Owned::first(*units.start())..=Owned::last(*units.end());
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
        self.get(Kind::Router, *self.routers.get(name)?.first()?)
    }

    /// The switch of a name.
    pub(super) fn switch(&self, name: &str) -> Option<&Arc<Row>> {
        self.get(Kind::Switch, *self.switches.get(name)?.first()?)
    }

    /// The router port of a name, whoever owns it.
    pub(super) fn port(&self, name: &SmolStr) -> Option<&Arc<Row>> {
        self.named(Kind::Port, self.port_names, name)
    }

    /// The address set of a name, whoever owns it.
    pub(super) fn address_set(&self, name: &SmolStr) -> Option<&Arc<Row>> {
        self.named(Kind::AddressSet, self.address_set_names, name)
    }

    fn named(&self, kind: Kind, index: Option<usize>, name: &SmolStr) -> Option<&Arc<Row>> {
        let table = self.snapshot.table(self.table(kind).id?);
        match index {
            Some(index) => table.find(index, &[Datum::scalar(name.clone())]),
            // All schemas of OVN have the index; one that lacks it is slow, not wrong.
            None => table.iter().find(|row| self.marks(kind).name(row) == name),
        }
    }

    /// The control plane protection that all routers share.
    pub(super) fn copp(&self) -> Option<Ref<Copp>> {
        self.copps.first().copied().map(Ref::new)
    }

    /// The load balancers of a network's services.
    pub(super) fn load_balancers(&self, network: &str) -> Option<&BTreeSet<Ref<LoadBalancer>>> {
        self.load_balancers.get(network)
    }

    /// Whether an ACL can leave the decision to the next tier.
    pub(super) fn has_pass_action(&self) -> bool {
        self.has_pass_action
    }

    fn row(&mut self, kind: Kind, old: Option<&Row>, new: Option<&Row>, touched: &mut Touched) {
        let [old_part, new_part] = [old, new].map(|row| self.part(kind, row?));
        let parts = [(old, old_part, false), (new, new_part, true)];
        for (row, part, is_new) in parts {
            let (Some(row), Some((connect, unit))) = (row, part) else {
                continue;
            };
            touched.unit(connect, unit);
            touched.rows.insert(row.uuid);
            if old_part != new_part {
                let uuid = row.uuid;
                self.set_owned(connect, Owned { unit, kind, uuid }, is_new, touched);
            }
        }
        match kind {
            Kind::Router | Kind::Switch => self.place(kind, old, new, touched),
            Kind::LoadBalancer => {
                let marks = self.marks(kind);
                for (row, is_new) in [(old, false), (new, true)] {
                    if let Some(network) = row.and_then(|row| network_of(marks, row)) {
                        let uuid = row.map_or(Uuid::nil(), |row| row.uuid);
                        self.set_load_balancer(network, Ref::new(uuid), is_new);
                        touched.load_balancers.insert(network.to_owned());
                    }
                }
            }
            Kind::Copp => {
                let marks = self.marks(kind);
                for (row, is_new) in [(old, false), (new, true)] {
                    if let Some(row) = row.filter(|row| marks.name(row) == COPP) {
                        touched.copp = true;
                        if is_new {
                            self.copps.insert(row.uuid);
                        } else {
                            self.copps.remove(&row.uuid);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Whose a row is, and for what.
    fn part<'r>(&self, kind: Kind, row: &'r Row) -> Option<(&'r str, Unit)> {
        let marks = self.marks(kind);
        let network = |id: Option<&str>| -> Option<NetworkId> { id?.parse().ok() };
        let (connect, unit) = match kind {
            Kind::Router => (marks.owner(row)?, Some(Unit::Router)),
            Kind::Port | Kind::Route => {
                let keys = [key::NETWORK_ID, key::NODE_ID];
                let (connect, [network_id, index]) = marks.owner_with(row, keys)?;
                let link = network(network_id).and_then(|network| {
                    let index = index?.parse().ok()?;
                    Some(Unit::Link(LinkId { network, index }))
                });
                (connect, link)
            }
            Kind::Policy => {
                let keys = [key::SOURCE_NETWORK_ID, key::DESTINATION_NETWORK_ID];
                let (connect, [source, destination]) = marks.owner_with(row, keys)?;
                let policies = network(source).and_then(|source| {
                    let destination = network(destination)?;
                    Some(Unit::Policies {
                        source,
                        destination,
                    })
                });
                (connect, policies)
            }
            Kind::Acl | Kind::AddressSet => (marks.owner(row)?, Some(Unit::Isolation)),
            // Groups carry no external ids: their names say whose they are.
            Kind::Group => {
                let connect = marks.name(row).strip_prefix(LOAD_BALANCER_GROUP_PREFIX)?;
                (connect, Some(Unit::Services))
            }
            Kind::Switch | Kind::LoadBalancer | Kind::Copp => return None,
        };
        Some((connect, unit.unwrap_or(Unit::Stray)))
    }

    fn set_owned(&mut self, connect: &str, row: Owned, is_there: bool, touched: &mut Touched) {
        if is_there {
            match touched.gained.get_mut(connect) {
                Some(gained) => gained.push(row),
                None => {
                    touched.gained.insert(connect.to_owned(), vec![row]);
                }
            }
            return;
        }
        self.join_gained(touched);
        if let Some(owned) = self.owned.get_mut(connect) {
            owned.remove(&row);
            if owned.is_empty() {
                self.owned.remove(connect);
            }
        }
    }

    /// Adds what came to what is there: many rows all at once, at the cost of all rows, few one by one.
    fn join_gained(&mut self, touched: &mut Touched) {
        for (connect, gained) in std::mem::take(&mut touched.gained) {
            let owned = self.owned.entry(connect).or_default();
            if gained.len() < owned.len() / 16 {
                owned.extend(gained);
            } else {
                owned.append(&mut BTreeSet::from_iter(gained));
            }
        }
    }

    /// A router or a switch.
    fn place(&mut self, kind: Kind, old: Option<&Row>, new: Option<&Row>, touched: &mut Touched) {
        let marks = self.marks(kind);
        let (old_name, new_name) = (
            old.map(|row| marks.name(row)),
            new.map(|row| marks.name(row)),
        );
        if old_name != new_name {
            let names = match kind {
                Kind::Router => &mut self.routers,
                _ => &mut self.switches,
            };
            if let (Some(row), Some(name)) = (old, old_name)
                && let Some(uuids) = names.get_mut(name)
            {
                uuids.remove(&row.uuid);
                if uuids.is_empty() {
                    names.remove(name);
                }
            }
            if let (Some(row), Some(name)) = (new, new_name) {
                names.entry(name.to_owned()).or_default().insert(row.uuid);
            }
            let names = [old_name, new_name].into_iter().flatten();
            touched.places.extend(names.map(str::to_owned));
        }
        if kind == Kind::Router {
            // A connect router that has lost its owner is still known by its name.
            for name in [old_name, new_name].into_iter().flatten() {
                if let Some(connect) = name.strip_prefix(&names::connect_router("")) {
                    touched.unit(connect, Unit::Router);
                }
            }
        }
        let columns: &mut [(Kind, &mut Holders)] = match kind {
            Kind::Router => &mut [
                (Kind::Port, &mut self.ports),
                (Kind::Policy, &mut self.policies),
                (Kind::Route, &mut self.routes),
            ],
            _ => &mut [(Kind::Acl, &mut self.acls), (Kind::Group, &mut self.groups)],
        };
        for (held, holders) in columns {
            let rows = holders.follow(old, new).into_iter();
            touched.moved.extend(rows.map(|uuid| (*held, uuid)));
        }
    }

    /// Notes the parts of rows that are held by others than before and have not changed themselves.
    fn follow_moved(&self, touched: &mut Touched) {
        for (kind, uuid) in std::mem::take(&mut touched.moved) {
            if touched.rows.contains(&uuid) {
                continue;
            }
            let row = self.get(kind, uuid);
            if let Some((connect, unit)) = row.and_then(|row| self.part(kind, row)) {
                touched.unit(connect, unit);
            }
        }
    }

    fn set_load_balancer(&mut self, network: &str, row: Ref<LoadBalancer>, is_there: bool) {
        if is_there {
            let rows = self.load_balancers.entry(network.to_owned());
            rows.or_default().insert(row);
        } else if let Some(rows) = self.load_balancers.get_mut(network) {
            rows.remove(&row);
            if rows.is_empty() {
                self.load_balancers.remove(network);
            }
        }
    }
}

/// The network whose services a load balancer serves on all nodes.
fn network_of(marks: Marks, row: &Row) -> Option<&str> {
    let is_ours =
        marks.external_id(row, KIND.0) == Some(KIND.1) && marks.name(row).ends_with(CLUSTER_SUFFIX);
    is_ours.then(|| marks.external_id(row, NETWORK))?
}

/// The place of a table's unique index over names.
fn unique_names(schema: &DatabaseSchema, table: &str) -> Option<usize> {
    let (_, table) = schema.table_by_name(table)?;
    let name = table.column_id("name")?;
    table.indexes.iter().position(|columns| **columns == [name])
}

/// Whether the database's schema allows the ACL action `pass`.
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
