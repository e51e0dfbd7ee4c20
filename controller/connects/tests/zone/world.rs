//! A small cluster and a Northbound database with the routers and switches of its networks.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_connects::{ConnectReport, Counts, ZoneController, ZonePlan};
use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{
    ConnectSubnetMap, IpFamily, Network, NetworkId, Node, NodeId, PodSubnet, ROUTER_TUNNEL_KEY,
    Role, Topology, Transport, names,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, Copp, LoadBalancer, LogicalRouter, LogicalSwitch};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{InsertRow, Operation};
use patchbay_zone::ZoneObjects;
use serde_json::json;
use uuid::Uuid;

use crate::inputs::Inputs;

/// The zone that the tests look at.
pub(crate) const ZONE: &str = "n1";

/// Inputs that can be changed, the database, and a controller.
pub(crate) struct World {
    pub(crate) inputs: Inputs,
    /// Objects as the controller has seen them last.
    pub(crate) former: Option<ZoneObjects>,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) database: Database,
    /// Number of rows that [`insert`](Self::insert) has made.
    pub(crate) inserted: u64,
    pub(crate) controller: ZoneController,
}

impl World {
    /// No networks and no nodes; the database has the row that all routers share.
    pub(crate) fn new() -> Self {
        Self::with_schema(nb::schema())
    }

    pub(crate) fn with_schema(schema: Arc<DatabaseSchema>) -> Self {
        let mut world = Self {
            inputs: Inputs {
                zone: ZONE.to_owned(),
                families: IpFamily::BOTH.to_vec(),
                service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
                ..Inputs::default()
            },
            former: None,
            networks: BTreeMap::new(),
            database: Database::with_uuids(schema, UuidSource::seeded(1)),
            inserted: 0,
            controller: ZoneController::new(UuidSource::seeded(2)),
        };
        world.insert(&Copp { name: "ovnkube-default".to_owned(), ..Copp::default() });
        world
    }

    /// Two layer3 networks, `red` (id 1) and `blue` (id 2), on the nodes `n1` (id 2) and `n2` (id
    /// 3), connected by `c`.
    pub(crate) fn red_and_blue() -> Self {
        let mut world = Self::new();
        world.add_layer3("red", 1, &["10.1.0.0/16"]);
        world.add_layer3("blue", 2, &["10.2.0.0/16"]);
        world.add_node("n1", 2);
        world.add_node("n2", 3);
        world.connect(
            "c",
            &["PodNetwork"],
            &[("layer3_1", "192.168.0.0/24"), ("layer3_2", "192.168.1.0/24")],
        );
        world
    }

    pub(crate) fn insert<T: TableRow>(&mut self, row: &T) -> Ref<T> {
        // No two rows get the same UUID, not even when one takes the place of another.
        self.inserted += 1;
        let uuids = UuidSource::seeded(1000 + self.inserted);
        let mut txn = TxnBuilder::with_uuids(&self.database.snapshot(), uuids);
        let row = txn.insert(row).unwrap();
        self.database.transact(txn.finish().operations()).unwrap();
        row
    }

    /// Changes a row behind the controller's back.
    pub(crate) fn edit<T: TableRow>(&mut self, name: &str, edit: impl FnOnce(&mut T)) {
        let snapshot = self.database.snapshot();
        let (row, current) = find::<T>(&snapshot, name);
        let mut wanted = current.clone();
        edit(&mut wanted);
        let mut txn = TxnBuilder::new(&snapshot);
        txn.update(row, &current, &wanted).unwrap();
        self.database.transact(txn.finish().operations()).unwrap();
    }

    /// Changes the row at this place among those of a table, in no particular order; none if the
    /// table is empty.
    pub(crate) fn edit_nth<T: TableRow>(&mut self, place: usize, edit: impl FnOnce(&mut T)) {
        let snapshot = self.database.snapshot();
        let table = snapshot.typed::<T>();
        let mut rows: Vec<(Ref<T>, T)> = table.iter().map(Result::unwrap).collect();
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|(row, _)| row.uuid);
        let (row, current) = rows.swap_remove(place % rows.len());
        let mut wanted = current.clone();
        edit(&mut wanted);
        self.change(|txn| {
            txn.update(row, &current, &wanted).unwrap();
        });
    }

    /// Commits a transaction of another client.
    pub(crate) fn change(&mut self, build: impl FnOnce(&mut TxnBuilder)) {
        let mut txn = TxnBuilder::new(&self.database.snapshot());
        build(&mut txn);
        self.database.transact(txn.finish().operations()).unwrap();
    }

    /// Another database with the same rows.
    pub(crate) fn copy_of_database(&self) -> Database {
        let original = self.database.snapshot();
        let schema = original.schema().clone();
        let mut rows = Vec::new();
        for table in schema.table_ids() {
            for row in original.table(table).iter() {
                rows.push(Operation::Insert {
                    table,
                    uuid: row.uuid,
                    given: None,
                    row: InsertRow::from_values(&row.values),
                });
            }
        }
        let mut copy = Database::with_uuids(schema, UuidSource::seeded(5));
        copy.transact(&rows).unwrap();
        copy
    }

    /// Inserts a row that needs another one to hold it.
    pub(crate) fn insert_held<H: TableRow, T: TableRow>(
        &mut self,
        holder: &str,
        row: &T,
        hold: impl FnOnce(&mut H, Ref<T>),
    ) {
        let snapshot = self.database.snapshot();
        let (reference, current) = find::<H>(&snapshot, holder);
        let mut txn = TxnBuilder::new(&snapshot);
        let mut wanted = current.clone();
        hold(&mut wanted, txn.insert(row).unwrap());
        txn.update(reference, &current, &wanted).unwrap();
        self.database.transact(txn.finish().operations()).unwrap();
    }

    /// Gives the ports of one router to another.
    pub(crate) fn move_ports(&mut self, from: &str, to: &str) {
        let snapshot = self.database.snapshot();
        let mut txn = TxnBuilder::new(&snapshot);
        let (giver, given) = find::<LogicalRouter>(&snapshot, from);
        let (taker, taken) = find::<LogicalRouter>(&snapshot, to);
        let mut empty = given.clone();
        empty.ports.clear();
        txn.update(giver, &given, &empty).unwrap();
        let mut full = taken.clone();
        full.ports.extend(&given.ports);
        txn.update(taker, &taken, &full).unwrap();
        self.database.transact(txn.finish().operations()).unwrap();
    }

    pub(crate) fn delete<T: TableRow>(&mut self, name: &str) {
        let snapshot = self.database.snapshot();
        let mut txn = TxnBuilder::new(&snapshot);
        txn.delete(find::<T>(&snapshot, name).0).unwrap();
        self.database.transact(txn.finish().operations()).unwrap();
    }

    pub(crate) fn add_layer3(&mut self, name: &str, id: i64, subnets: &[&str]) {
        self.add_network(name, id, Topology::Layer3, subnets);
    }

    pub(crate) fn add_layer2(&mut self, name: &str, id: i64, subnets: &[&str]) {
        self.add_network(name, id, Topology::Layer2, subnets);
    }

    /// Adds a network, and its router and switch.
    pub(crate) fn add_network(
        &mut self,
        name: &str,
        id: i64,
        topology: Topology,
        subnets: &[&str],
    ) {
        let network = Network {
            name: name.to_owned(),
            id: NetworkId::try_new(id).unwrap(),
            topology,
            role: Role::Primary,
            transport: Transport::Overlay,
            pod_subnets: subnets
                .iter()
                .map(|cidr| PodSubnet { cidr: cidr.parse().unwrap(), host_prefix: None })
                .collect(),
            join_subnets: Vec::new(),
            transit_subnets: Vec::new(),
            namespaces: [format!("{name}-ns")].into(),
            nads: [].into(),
        };
        self.networks.insert(name.to_owned(), network);
        self.inputs.networks = Arc::new(self.networks.values().cloned().collect());
        self.insert(&LogicalRouter {
            name: names::network_router(name, topology),
            ..LogicalRouter::default()
        });
        self.insert(&LogicalSwitch {
            name: names::network_switch(name, topology, ZONE),
            ..LogicalSwitch::default()
        });
    }

    pub(crate) fn forget_network(&mut self, name: &str) {
        self.networks.remove(name);
        self.inputs.networks = Arc::new(self.networks.values().cloned().collect());
    }

    /// Adds a node with a chassis and, of every layer3 network `10.x.0.0/16`, the subnet
    /// `10.x.<id>.0/24`.
    pub(crate) fn add_node(&mut self, name: &str, id: i64) -> &mut Node {
        let subnets = self.networks.values().map(|network| {
            let subnet = network.pod_subnets[0]
                .cidr
                .to_string()
                .replace(".0.0/16", &format!(".{}.0/24", id % 256));
            (network.name.clone(), vec![subnet.parse().unwrap()])
        });
        self.inputs.put_node(Node {
            name: name.to_owned(),
            id: Some(NodeId::try_new(id).unwrap()),
            chassis_id: Some(format!("chassis-{name}")),
            subnets: subnets.collect(),
            ..Node::default()
        });
        self.node(name)
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut Node {
        Arc::make_mut(self.inputs.nodes.get_mut(name).unwrap())
    }

    pub(crate) fn add_load_balancer(&mut self, network: &str, service: &str) -> Ref<LoadBalancer> {
        let ids = [("k8s.ovn.org/kind", "Service"), ("k8s.ovn.org/network", network)];
        self.insert(&LoadBalancer {
            name: format!("{network}_Service_{service}_TCP_cluster"),
            external_ids: ids.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..LoadBalancer::default()
        })
    }

    /// A connect through `192.168.0.0/16` in blocks of 256.
    pub(crate) fn connect(&mut self, name: &str, connectivity: &[&str], subnets: &[(&str, &str)]) {
        self.connect_through(name, ("192.168.0.0/16", 24), connectivity, subnets);
    }

    pub(crate) fn connect_through(
        &mut self,
        name: &str,
        (cidr, prefix): (&str, u8),
        connectivity: &[&str],
        subnets: &[(&str, &str)],
    ) {
        let subnets: BTreeMap<_, _> =
            subnets.iter().map(|(owner, subnet)| (*owner, json!({"ipv4": subnet}))).collect();
        self.put_connect(
            name,
            &json!({
                ROUTER_TUNNEL_KEY: "16715779",
                ConnectSubnetMap::ANNOTATION: json!(subnets).to_string(),
            }),
            &json!([{"cidr": cidr, "networkPrefix": prefix}]),
            connectivity,
        );
    }

    pub(crate) fn put_connect(
        &mut self,
        name: &str,
        annotations: &serde_json::Value,
        ranges: &serde_json::Value,
        connectivity: &[&str],
    ) {
        let object: ClusterNetworkConnect = serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "ClusterNetworkConnect",
            "metadata": {"name": name, "uid": name, "annotations": annotations},
            "spec": {
                "networkSelectors": [],
                "connectSubnets": ranges,
                "connectivity": connectivity,
            },
        }))
        .unwrap();
        self.inputs.put_connect(name, patchbay_resources::conversion::connect_input(&object));
    }

    pub(crate) fn plan(&mut self) -> ZonePlan {
        let objects = self.inputs.objects(self.former.as_ref());
        let plan = self.controller.plan(&objects, &self.database.snapshot());
        self.former = Some(objects);
        plan
    }

    /// One pass; a second one must find nothing to do. Returns how much changed, and the reports.
    pub(crate) fn pass(&mut self) -> (Counts, BTreeMap<String, Arc<ConnectReport>>) {
        let mut total = Counts::default();
        let mut reports = BTreeMap::new();
        for connect in self.plan().connects {
            let change = connect.change.unwrap();
            total.inserted += change.counts.inserted;
            total.changed += change.counts.changed;
            total.deleted += change.counts.deleted;
            if let Some(transaction) = change.transaction {
                self.database.transact(transaction.operations()).unwrap();
            }
            if let Some(report) = connect.report {
                reports.insert(connect.connect, report);
            }
        }
        assert!(self.plan().is_empty(), "a second pass has something to do");
        (total, reports)
    }

    /// One pass of a single connect `c`: its report.
    pub(crate) fn pass_of_c(&mut self) -> Arc<ConnectReport> {
        self.pass().1.remove("c").unwrap()
    }

    /// A row by name.
    pub(crate) fn row<T: TableRow>(&self, name: &str) -> T {
        find::<T>(&self.database.snapshot(), name).1
    }

    pub(crate) fn count<T: TableRow>(&self) -> usize {
        self.database.snapshot().typed::<T>().len()
    }

    /// The names of all rows of a table.
    pub(crate) fn names<T: TableRow>(&self) -> Vec<String> {
        let snapshot = self.database.snapshot();
        let table = snapshot.typed::<T>();
        let mut names: Vec<String> = table.iter().map(|row| name_of(&row.unwrap().1)).collect();
        names.sort();
        names
    }

    /// The rows of a table.
    pub(crate) fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.database.snapshot();
        let table = snapshot.typed::<T>();
        table.iter().map(|row| row.unwrap().1).collect()
    }

    /// The UUIDs of the connect router's ports.
    pub(crate) fn ports_of(&self, router: &str) -> Vec<Uuid> {
        let router = self.row::<LogicalRouter>(router);
        router.ports.iter().map(|port| port.uuid).collect()
    }
}

fn name_of<T: TableRow>(row: &T) -> String {
    let place = T::COLUMNS.iter().position(|column| *column == "name");
    let name = place.and_then(|place| row.to_data().into_iter().nth(place));
    let name = name.as_ref().and_then(Datum::as_scalar);
    name.and_then(|name| name.as_str()).unwrap_or_default().to_owned()
}

fn find<T: TableRow>(snapshot: &Snapshot, name: &str) -> (Ref<T>, T) {
    let table = snapshot.typed::<T>();
    let mut rows = table.iter().map(Result::unwrap);
    rows.find(|(_, row)| name_of(row) == name)
        .unwrap_or_else(|| panic!("no {name} in {}", T::TABLE))
}
