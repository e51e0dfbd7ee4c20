//! The networks' own rows in a database: they are made, completed, and removed with their network.

use std::fmt::Write as _;

use patchbay_allocate::networks::resolve;
use patchbay_engine::db::Database;
use patchbay_engine::txn::TxnBuilder;
use patchbay_model::ClusterSettings;
use patchbay_networks::Topologies;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;
use patchbay_rows::{Counts, Engine};
use patchbay_schemas::nb::{
    self, Acl, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, PortGroup,
    StaticMacBinding,
};
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::ZoneObjects;

use super::support::{ipv4_settings, read_zone, remove_networks, zone_networks};

const NETWORK: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
";

/// The network on these nodes.
pub(crate) fn inventory(nodes: &[(&str, &str)]) -> Inventory {
    let mut yaml = NETWORK.to_owned();
    for (node, annotations) in nodes {
        writeln!(
            yaml,
            "- {{apiVersion: v1, kind: Node, metadata: {{name: {node}, annotations: \
             {{k8s.ovn.org/node-chassis-id: c-{node}{annotations}}}}}}}"
        )
        .unwrap();
    }
    let mut inventory = read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap();
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &ClusterSettings::default(), &now).unwrap();
    inventory
}

/// The network on these nodes, in the zone of `n1`.
fn networks(nodes: &[(&str, &str)]) -> ZoneObjects {
    let inventory = inventory(nodes);
    let settings = ClusterSettings::default();
    read_zone(&network_objects(&inventory, &settings), "n1", &settings)
}

fn two_nodes() -> ZoneObjects {
    networks(&[("n1", ""), ("n2", "")])
}

/// A database and a controller that follows it.
pub(crate) struct World {
    database: Database,
    controller: Engine<Topologies>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            database: Database::with_uuids(nb::schema(), UuidSource::seeded(1)),
            controller: Engine::new(UuidSource::seeded(2)),
        }
    }

    /// Goes on with a new controller.
    pub(crate) fn restart(&mut self) {
        self.controller = Engine::new(UuidSource::seeded(4));
    }

    /// Plans and commits.
    fn commit(&mut self, networks: &ZoneObjects) -> Counts {
        let change =
            self.controller.plan(networks, &self.database.snapshot()).into_change().unwrap();
        if let Some(transaction) = change.transaction {
            self.database.transact(transaction.operations()).unwrap();
        }
        change.counts
    }

    /// Plans, commits, and makes sure that neither this controller nor a new one finds more to do.
    pub(crate) fn pass(&mut self, networks: &ZoneObjects) -> Counts {
        let counts = self.commit(networks);
        let snapshot = self.database.snapshot();
        let mut fresh = Engine::<Topologies>::new(UuidSource::seeded(3));
        for controller in [&mut self.controller, &mut fresh] {
            let again = controller.plan(networks, &snapshot).into_change().unwrap().transaction;
            let again = again.map(|again| again.operations().to_vec());
            assert!(again.is_none(), "{again:?}");
        }
        counts
    }

    pub(crate) fn rows<T: TableRow>(&self) -> Vec<(Ref<T>, T)> {
        let snapshot = self.database.snapshot();
        snapshot.typed().iter().map(Result::unwrap).collect()
    }

    pub(crate) fn one<T: TableRow>(&self, is_it: impl Fn(&T) -> bool) -> (Ref<T>, T) {
        let mut rows = self.rows().into_iter().filter(|(_, row)| is_it(row));
        let found = rows.next().unwrap_or_else(|| panic!("no such row in {}", T::TABLE));
        assert!(rows.next().is_none());
        found
    }

    fn router(&self) -> (Ref<LogicalRouter>, LogicalRouter) {
        self.one(|router: &LogicalRouter| router.name == "blue_l3_ovn_cluster_router")
    }

    fn router_port(&self) -> (Ref<LogicalRouterPort>, LogicalRouterPort) {
        self.one(|port: &LogicalRouterPort| port.name == "rtos-blue_l3_n1")
    }

    fn switch(&self) -> (Ref<LogicalSwitch>, LogicalSwitch) {
        self.one(|switch: &LogicalSwitch| switch.name == "blue_l3_n1")
    }

    fn transit_switch(&self) -> (Ref<LogicalSwitch>, LogicalSwitch) {
        self.one(|switch: &LogicalSwitch| switch.name == "blue_l3_transit_switch")
    }

    /// A change by another program.
    fn edit(&mut self, change: impl FnOnce(&mut TxnBuilder)) {
        let mut txn = TxnBuilder::new(&self.database.snapshot());
        change(&mut txn);
        self.database.transact(txn.finish().operations()).unwrap();
    }
}

#[test]
fn all_rows_are_made_and_hold_each_other() {
    let mut world = World::new();
    world.edit(|txn| {
        let name = "ovnkube-default".to_owned();
        txn.insert(&Copp { name, ..Copp::default() }).unwrap();
    });
    let counts = world.pass(&two_nodes());
    // 10 meters, 2 bands, 2 address sets. The Copp row is there, and lacks its meters. Of the
    // network: 2 routers, 5 ports, chassis, 3 NAT rows with 1 address of IPv6, 2 policies, 4 MAC
    // bindings, 11 routes, 4 switches, 8 ports, 3 ACLs, 3 load balancer groups, 2 port groups.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (63, 1, 0));
    let (_, router) = world.router();
    assert!(router.copp.is_some());
    assert_eq!((router.ports.len(), router.static_routes.len()), (3, 6));
    assert_eq!((router.policies.len(), router.nat.len()), (2, 1));
    let (_, gateway) = world.one(|router: &LogicalRouter| router.name == "GR_blue_l3_n1");
    assert_eq!((gateway.ports.len(), gateway.static_routes.len()), (2, 5));
    assert_eq!((gateway.nat.len(), gateway.load_balancer_group.len()), (3, 2));
    assert_eq!(world.rows::<StaticMacBinding>().len(), 4);
    assert_eq!(world.router_port().1.gateway_chassis.len(), 1);
    let (_, switch) = world.switch();
    assert_eq!((switch.ports.len(), switch.acls.len()), (2, 1));
    assert_eq!(switch.load_balancer_group.len(), 2);
    assert_eq!(world.transit_switch().1.ports.len(), 2);
    let groups = world.rows::<PortGroup>();
    let mut ports: Vec<usize> = groups.iter().map(|(_, group)| group.ports.len()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [0, 1]);
    let meters = world.rows::<Meter>();
    assert!(meters.iter().all(|(_, meter)| meter.bands.len() == 1));
    assert_eq!(world.rows::<MeterBand>().len(), 2);
    assert_eq!(world.rows::<LoadBalancerGroup>().len(), 3);
}

#[test]
fn missing_and_wrong_rows_are_repaired_and_foreign_ones_stay() {
    let mut world = World::new();
    let mut networks = two_nodes();
    world.pass(&networks);
    let ((router, _), (port, _), (switch, _)) =
        (world.router(), world.router_port(), world.switch());
    world.edit(|txn| {
        txn.modify(router, |router| {
            router.static_routes.clear();
            router.options = [("theirs".to_owned(), "1".to_owned())].into();
        })
        .unwrap();
        txn.modify(port, |port| {
            port.gateway_chassis.clear();
            port.networks = ["10.9.0.1/24".to_owned()].into();
            port.peer = Some("theirs".to_owned());
        })
        .unwrap();
        let pod = LogicalSwitchPort { name: "pod".to_owned(), ..LogicalSwitchPort::default() };
        let pod = txn.insert(&pod).unwrap();
        txn.modify(switch, |switch| {
            switch.ports.insert(pod);
            switch.acls.clear();
        })
        .unwrap();
    });
    assert!(world.rows::<GatewayChassis>().is_empty());
    assert_eq!(world.rows::<Acl>().len(), 2);
    let counts = world.pass(&networks);
    // The router's routes, a chassis and an ACL come back; their holders change.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (8, 3, 0));
    assert_eq!(world.router().1.options.len(), 2);
    let (_, port) = world.router_port();
    assert_eq!(port.networks, ["10.10.0.1/24".to_owned()].into());
    assert_eq!(port.peer.as_deref(), Some("theirs"));
    assert_eq!(world.switch().1.ports.len(), 3);
    // In a database with OVN-Kubernetes' default network, no row of a network goes.
    let router =
        LogicalRouter { name: "ovn_cluster_router".to_owned(), ..LogicalRouter::default() };
    world.edit(|txn| {
        txn.insert(&router).unwrap();
    });
    remove_networks(&mut networks);
    assert_eq!(world.pass(&networks), Counts::default());
}

#[test]
fn a_removed_network_leaves_no_rows() {
    let mut world = World::new();
    let mut networks = two_nodes();
    world.edit(|txn| {
        txn.insert(&LogicalSwitch { name: "theirs".to_owned(), ..LogicalSwitch::default() })
            .unwrap();
    });
    remove_networks(&mut networks);
    world.pass(&networks);
    let before = world.database.snapshot().row_count();
    world.pass(&two_nodes());
    assert!(world.database.snapshot().row_count() > before);
    world.pass(&networks);
    assert_eq!(world.database.snapshot().row_count(), before);
    assert_eq!(world.rows::<LogicalSwitch>()[0].1.name, "theirs");
}

#[test]
fn a_removed_network_of_a_definition_leaves_no_rows() {
    for name in ["own", "a_b_c"] {
        let yaml = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: blue, labels: \
             {{k8s.ovn.org/primary-user-defined-network: ''}}}}}}\n---\n\
             {{apiVersion: v1, kind: Node, metadata: {{name: n1, annotations: \
             {{k8s.ovn.org/node-chassis-id: c_1}}}}}}\n---\n\
             {{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {{name: net, namespace: blue}}, \
             spec: {{config: '{{\"name\":\"{name}\",\"netAttachDefName\":\"blue/net\",\"type\":\"ovn-k8s-cni-overlay\",\
             \"topology\":\"layer2\",\"role\":\"primary\",\"subnets\":\"10.1.0.0/16\"}}'}}}}\n"
        );
        let with = zone_networks(&yaml, &ipv4_settings(&[]), None);
        let mut without = with.clone();
        remove_networks(&mut without);
        let mut world = World::new();
        world.pass(&without);
        let before = world.database.snapshot().row_count();
        world.pass(&with);
        assert!(!world.rows::<StaticMacBinding>().is_empty());
        world.restart();
        world.pass(&without);
        assert_eq!(world.database.snapshot().row_count(), before, "{name}");
    }
}

#[test]
fn rows_of_removed_nodes_are_removed() {
    let mut world = World::new();
    let mut networks = two_nodes();
    world.pass(&networks);
    let ((router, _), (transit, _)) = (world.router(), world.transit_switch());
    // Another program's rows for both nodes, and a router of none of the networks.
    world.edit(|txn| {
        for node in ["n1", "n2"] {
            let mark = |key: &str| [(key.to_owned(), node.to_owned())].into();
            let port = LogicalSwitchPort {
                name: format!("theirs-{node}"),
                external_ids: mark("node"),
                ..LogicalSwitchPort::default()
            };
            let port = txn.insert(&port).unwrap();
            txn.add(transit, LogicalSwitch::PORTS, [port]).unwrap();
            let port = LogicalRouterPort {
                name: format!("trtor-{node}"),
                external_ids: mark("k8s.ovn.org/node"),
                ..LogicalRouterPort::default()
            };
            let port = txn.insert(&port).unwrap();
            txn.add(router, LogicalRouter::PORTS, [port]).unwrap();
            let route = LogicalRouterStaticRoute {
                ip_prefix: format!("10.9.{}.0/24", &node[1..]),
                external_ids: mark("ic-node"),
                ..LogicalRouterStaticRoute::default()
            };
            let [route, other] = [(); 2].map(|()| txn.insert(&route).unwrap());
            txn.add(router, LogicalRouter::STATIC_ROUTES, [route]).unwrap();
            let router = LogicalRouter {
                name: format!("theirs-{node}"),
                static_routes: [other].into(),
                ..LogicalRouter::default()
            };
            txn.insert(&router).unwrap();
        }
    });
    assert_eq!(world.pass(&networks), Counts::default());
    networks.remove_node("n2");
    let counts = world.pass(&networks);
    // The router and the transit switch change; of the network's own rows a port and three routes
    // go, of the other program's two ports and a route.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 2, 7));
    let ports = world.rows::<LogicalSwitchPort>();
    assert!(ports.iter().all(|(_, port)| !port.name.ends_with("-n2")));
    let ports = world.rows::<LogicalRouterPort>();
    assert!(ports.iter().all(|(_, port)| port.name != "trtor-n2"));
    // That of the router that is none of the networks' stays.
    let theirs = world.one(|router: &LogicalRouter| router.name == "theirs-n2");
    assert_eq!(theirs.1.static_routes.len(), 1);
}

#[test]
fn a_route_with_another_next_hop_is_changed_in_place() {
    let mut world = World::new();
    world.pass(&two_nodes());
    let is_it = |route: &LogicalRouterStaticRoute| route.ip_prefix == "10.10.1.0/24";
    let (route, _) = world.one(is_it);
    let transit = ", k8s.ovn.org/node-id: '3', k8s.ovn.org/node-transit-switch-port-ifaddr: '{\"ipv4\": \
                   \"100.88.0.77/16\"}'";
    let counts = world.pass(&networks(&[("n1", ""), ("n2", transit)]));
    // So is the route to the gateway router, and the transit switch's port. The route in the other
    // family goes, because the node has no such address on transit switches.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (0, 4, 1));
    let (same, changed) = world.one(is_it);
    assert_eq!((same, changed.nexthop.as_str()), (route, "100.88.0.77"));
}

#[test]
fn a_node_more_is_a_port_and_three_routes_more() {
    let mut world = World::new();
    world.pass(&two_nodes());
    let counts = world.pass(&networks(&[("n1", ""), ("n2", ""), ("n3", "")]));
    // To the pods, and to the gateway router in each family.
    assert_eq!((counts.inserted, counts.changed, counts.deleted), (4, 2, 0));
}

#[test]
fn a_vlan_that_a_localnet_network_loses_is_cleared() {
    let lan = |vlan: &str| {
        let yaml = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: blue}}}}\n---\n\
             {{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, \
             metadata: {{name: lan}}, spec: {{namespaceSelector: {{}}, network: \
             {{topology: Localnet, localnet: {{role: Secondary, physicalNetworkName: phys, \
             ipam: {{mode: Disabled}}{vlan}}}}}}}}}\n---\n\
             {{apiVersion: v1, kind: Node, metadata: {{name: n1}}}}\n"
        );
        let mut inventory = read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap();
        let settings = ClusterSettings::default();
        let now = Time(jiff::Timestamp::from_second(0).unwrap());
        resolve(&mut inventory, &settings, &now).unwrap();
        read_zone(&network_objects(&inventory, &settings), "n1", &settings)
    };
    let mut world = World::new();
    let tag = |world: &World| {
        let port = world.one(|port: &LogicalSwitchPort| port.r#type == "localnet");
        port.1.tag_request
    };
    world.pass(&lan(", vlan: {mode: Access, access: {id: 20}}"));
    assert_eq!(tag(&world), Some(20));
    world.pass(&lan(""));
    assert_eq!(tag(&world), None);
}
