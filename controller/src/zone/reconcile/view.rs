//! What of the database matters to connects: one scan of each table, then lookups.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::Constraint;
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use super::holders::Holding;
use super::scan::Scan;
use crate::model::external_ids::key;
use crate::model::names::{self, LOAD_BALANCER_GROUP_PREFIX};
use crate::zone::desired::{COPP, Surroundings};

/// External ids of load balancers that belong to services.
const KIND: (&str, &str) = ("k8s.ovn.org/kind", "Service");
/// External id with the network of a load balancer.
const NETWORK: &str = "k8s.ovn.org/network";
/// How the names of load balancers end that are the same on all nodes.
const CLUSTER_SUFFIX: &str = "_cluster";
/// How the names of our ports start.
const PORT_PREFIXES: [&str; 2] = ["crtor-", "rtocr-"];

/// Rows by a text that identifies them; several if somebody made it ambiguous.
pub(super) type RowsById<'a> = HashMap<&'a str, Vec<&'a Row>>;

/// The rows of one connect.
#[derive(Debug, Default)]
pub(super) struct Owned<'a> {
    /// By name.
    pub(super) routers: Vec<&'a Row>,
    /// By name.
    pub(super) ports: RowsById<'a>,
    /// By identity.
    pub(super) policies: RowsById<'a>,
    /// By identity.
    pub(super) routes: RowsById<'a>,
    /// By identity.
    pub(super) acls: RowsById<'a>,
    /// By name.
    pub(super) address_sets: RowsById<'a>,
    /// By name.
    pub(super) groups: RowsById<'a>,
}

/// Some of a connect's rows.
pub(super) type RowsOf<'a> = for<'o> fn(&'o Owned<'a>) -> &'o RowsById<'a>;

/// The database as a reconcile sees it.
pub(super) struct View<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) routers: HashMap<&'a str, &'a Row>,
    pub(super) switches: HashMap<&'a str, &'a Row>,
    /// Routers and ports with names as connects give them, and without an owner. The names tell which they are.
    pub(super) unowned: HashMap<&'a str, &'a Row>,
    pub(super) owned: BTreeMap<&'a str, Owned<'a>>,
    pub(super) around: Surroundings<'a>,
    /// The switches that have an ACL of a connect.
    pub(super) acl_switches: HashMap<Uuid, Vec<&'a Row>>,
    /// The switches that use the load balancer group of a connect.
    pub(super) group_switches: HashMap<Uuid, Vec<&'a Row>>,
}

impl<'a> View<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let routers = Scan::new::<LogicalRouter>(snapshot);
        let switches = Scan::new::<LogicalSwitch>(snapshot);
        let mut view = Self {
            snapshot,
            routers: routers.by_name(),
            switches: switches.by_name(),
            unowned: HashMap::new(),
            owned: BTreeMap::new(),
            around: Surroundings::default(),
            acl_switches: HashMap::new(),
            group_switches: HashMap::new(),
        };
        view.around = Surroundings {
            routers: view.routers.keys().copied().collect(),
            switches: view.switches.keys().copied().collect(),
            copp: copp(snapshot),
            load_balancers: load_balancers(snapshot),
            has_pass_action: has_pass_action(snapshot),
            ..Surroundings::default()
        };
        view.add_routers(&routers);
        view.add_ports(&Scan::new::<LogicalRouterPort>(snapshot));
        view.add_others(snapshot);
        view.add_groups(&Scan::new::<LoadBalancerGroup>(snapshot));
        view.find_switches(&switches);
        view
    }

    fn of(&mut self, connect: &'a str) -> &mut Owned<'a> {
        self.owned.entry(connect).or_default()
    }

    fn add_routers(&mut self, routers: &Scan<'a>) {
        let prefix = names::connect_router("");
        for row in &routers.rows {
            let name = routers.name(row);
            if let Some(connect) = routers.owner(row) {
                self.of(connect).routers.push(row);
            } else if name.starts_with(&prefix)
                && routers.external_id(row, key::OWNER_CONTROLLER).is_none()
            {
                self.unowned.insert(name, row);
            }
        }
    }

    fn add_ports(&mut self, ports: &Scan<'a>) {
        for row in &ports.rows {
            let name = ports.name(row);
            if let Some(connect) = ports.owner(row) {
                self.of(connect).ports.entry(name).or_default().push(row);
            } else if PORT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                match ports.external_id(row, key::OWNER_CONTROLLER) {
                    None => {
                        self.unowned.insert(name, row);
                    }
                    Some(_) => {
                        self.around.taken_ports.insert(name);
                    }
                }
            }
        }
    }

    fn add_others(&mut self, snapshot: &'a Snapshot) {
        for (connect, id, row) in Scan::new::<LogicalRouterPolicy>(snapshot).by_id() {
            self.of(connect).policies.entry(id).or_default().push(row);
        }
        for (connect, id, row) in Scan::new::<LogicalRouterStaticRoute>(snapshot).by_id() {
            self.of(connect).routes.entry(id).or_default().push(row);
        }
        for (connect, id, row) in Scan::new::<Acl>(snapshot).by_id() {
            self.of(connect).acls.entry(id).or_default().push(row);
        }
        let sets = Scan::new::<AddressSet>(snapshot);
        for (connect, row) in sets.owned() {
            let name = sets.name(row);
            self.of(connect)
                .address_sets
                .entry(name)
                .or_default()
                .push(row);
        }
    }

    /// Groups carry no external ids: their names say whose they are.
    fn add_groups(&mut self, groups: &Scan<'a>) {
        for row in &groups.rows {
            let name = groups.name(row);
            if let Some(connect) = name.strip_prefix(LOAD_BALANCER_GROUP_PREFIX) {
                self.of(connect).groups.entry(name).or_default().push(row);
            }
        }
    }

    /// Finds the switches that have rows of connects.
    fn find_switches(&mut self, switches: &Scan<'a>) {
        let uuids = |rows: RowsOf<'a>| -> HashSet<Uuid> {
            let rows = self.owned.values().flat_map(|owned| rows(owned).values());
            rows.flatten().map(|row| row.uuid).collect()
        };
        let (acls, groups) = (uuids(|owned| &owned.acls), uuids(|owned| &owned.groups));
        let rows = || switches.rows.iter().copied();
        if !acls.is_empty() {
            let holding = Holding::of::<LogicalSwitch>(self.snapshot, "acls");
            self.acl_switches = holding.holders(rows(), |uuid| acls.contains(&uuid));
        }
        if !groups.is_empty() {
            let holding = Holding::of::<LogicalSwitch>(self.snapshot, "load_balancer_group");
            self.group_switches = holding.holders(rows(), |uuid| groups.contains(&uuid));
        }
    }
}

fn copp(snapshot: &Snapshot) -> Option<Ref<Copp>> {
    let scan = Scan::new::<Copp>(snapshot);
    let row = scan.rows.iter().find(|row| scan.name(row) == COPP)?;
    Some(Ref::new(row.uuid))
}

fn load_balancers(snapshot: &Snapshot) -> BTreeMap<&str, BTreeSet<Ref<LoadBalancer>>> {
    let scan = Scan::new::<LoadBalancer>(snapshot);
    let mut by_network = BTreeMap::<&str, BTreeSet<_>>::new();
    for row in &scan.rows {
        if scan.external_id(row, KIND.0) == Some(KIND.1)
            && scan.name(row).ends_with(CLUSTER_SUFFIX)
            && let Some(network) = scan.external_id(row, NETWORK)
        {
            by_network
                .entry(network)
                .or_default()
                .insert(Ref::new(row.uuid));
        }
    }
    by_network
}

/// Whether the database's schema allows the ACL action `pass`.
fn has_pass_action(snapshot: &Snapshot) -> bool {
    let Some((_, table)) = snapshot.schema().table_by_name(Acl::TABLE) else {
        return false;
    };
    let action = table.column_id("action").map(|id| table.column_type(id));
    action.is_some_and(|action| match &action.key.constraint {
        Constraint::Enum(allowed) => allowed.contains(&Atom::from("pass")),
        _ => true,
    })
}
