//! Laws of the engine, for any sequence of changed inputs, foreign edits, and failed or cut
//! transactions.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop a test")]

mod farm;
mod groups;
mod plots;

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::Engine;
use patchbay_schemas::nb::{
    self, AddressSet, Copp, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;
use proptest::prelude::*;

use farm::{Farm, Farming, Node, Site, port_name};

/// Event between two plans.
#[derive(Clone, Debug)]
enum Event {
    Site(u8, Option<Site>),
    Node(u8, Option<Node>),
    Setting(u8),
    Edit(Edit, usize),
}

/// Change by another program.
#[derive(Clone, Copy, Debug)]
enum Edit {
    PortChanged,
    PortOwnerGone,
    PortTakenOver,
    PortsMoved,
    PortsGone,
    RouteChanged,
    RouteOfAnotherLink,
    RouteTwice,
    RoutePrefix,
    PolicyChanged,
    PolicyTwice,
    SetChanged,
    SetOwnerGone,
    RouterChanged,
    RouterOwnerGone,
    RouterGone,
    RouterTwice,
    CoppGone,
    GroupGone,
    SwitchComes,
    SwitchGone,
    SwitchWithoutGroups,
}

const EDITS: [Edit; 22] = [
    Edit::PortChanged,
    Edit::PortOwnerGone,
    Edit::PortTakenOver,
    Edit::PortsMoved,
    Edit::PortsGone,
    Edit::RouteChanged,
    Edit::RouteOfAnotherLink,
    Edit::RouteTwice,
    Edit::RoutePrefix,
    Edit::PolicyChanged,
    Edit::PolicyTwice,
    Edit::SetChanged,
    Edit::SetOwnerGone,
    Edit::RouterChanged,
    Edit::RouterOwnerGone,
    Edit::RouterGone,
    Edit::RouterTwice,
    Edit::CoppGone,
    Edit::GroupGone,
    Edit::SwitchComes,
    Edit::SwitchGone,
    Edit::SwitchWithoutGroups,
];

fn input_event() -> impl Strategy<Value = Event> {
    let site = (0..4_u8, any::<bool>(), 0..16_u8).prop_map(|(key, has_group, members)| Site {
        key,
        has_group,
        members,
    });
    let node = (0..4_u8, 0..3_u8, prop::bool::weighted(0.2))
        .prop_map(|(address, routes, is_frozen)| Node { address, routes, is_frozen });
    prop_oneof![
        3 => (0..4_u8, prop::option::weighted(0.7, site)).prop_map(|(n, site)| Event::Site(n, site)),
        4 => (0..5_u8, prop::option::weighted(0.7, node)).prop_map(|(n, node)| Event::Node(n, node)),
        1 => (0..3_u8).prop_map(Event::Setting),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let edit = (prop::sample::select(EDITS.to_vec()), 0..20_usize);
    prop_oneof![input_event(), edit.prop_map(|(edit, place)| Event::Edit(edit, place)),]
}

struct World {
    inputs: Farm,
    database: Database,
    engine: Engine<Farming>,
}

fn engine(seed: u64) -> Engine<Farming> {
    Engine::new(UuidSource::seeded(seed))
}

impl World {
    fn new(limit: usize) -> Self {
        Self {
            inputs: Farm::default(),
            database: Database::with_uuids(nb::schema(), UuidSource::seeded(1)),
            engine: engine(2).with_transaction_rows(limit),
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Site(number, Some(site)) => {
                self.inputs.sites.insert(*number, Arc::new(site.clone()));
            }
            Event::Site(number, None) => {
                self.inputs.sites.remove(number);
            }
            Event::Node(number, Some(node)) => {
                self.inputs.nodes.insert(*number, Arc::new(node.clone()));
            }
            Event::Node(number, None) => {
                self.inputs.nodes.remove(number);
            }
            Event::Setting(setting) => self.inputs.setting = *setting,
            Event::Edit(edit, place) => self.edit(*edit, *place),
        }
    }

    /// Plans once; `is_lost` leaves the transactions out. Returns `true` if there were some.
    ///
    /// The database refuses some transactions, because those of other groups come before them.
    fn pass(&mut self, is_lost: bool) -> bool {
        let plan = self.engine.plan(&self.inputs, &self.snapshot());
        let is_busy = !plan.changes.is_empty();
        for (_, change) in plan.changes {
            let transaction = change.unwrap().transaction.unwrap();
            if !is_lost {
                self.database.transact(transaction.operations()).ok();
                groups::assert_whole(&self.rows::<LogicalRouterPolicy>());
            }
        }
        is_busy
    }

    fn settle(&mut self) {
        for _ in 0..500 {
            if !self.pass(false) {
                return;
            }
        }
        panic!("there is always something left to do");
    }

    fn rows<T: TableRow>(&self) -> Vec<(Ref<T>, T)> {
        let snapshot = self.snapshot();
        let mut rows: Vec<(Ref<T>, T)> = snapshot.typed().iter().map(Result::unwrap).collect();
        rows.sort_by_key(|(row, _)| *row);
        rows
    }

    fn modify<T: TableRow>(&mut self, place: usize, change: impl FnOnce(&mut T)) {
        let rows = self.rows::<T>();
        if let Some((row, _)) = rows.get(place % rows.len().max(1)) {
            let mut txn = TxnBuilder::new(&self.snapshot());
            txn.modify(*row, change).unwrap();
            self.database.transact(txn.finish().operations()).unwrap();
        }
    }

    fn delete<T: TableRow>(&mut self, place: usize) {
        let rows = self.rows::<T>();
        if let Some((row, _)) = rows.get(place % rows.len().max(1)) {
            let mut txn = TxnBuilder::new(&self.snapshot());
            txn.delete(*row).unwrap();
            self.database.transact(txn.finish().operations()).unwrap();
        }
    }

    fn insert<T: TableRow>(&mut self, row: &T) {
        let mut txn = TxnBuilder::new(&self.snapshot());
        txn.insert(row).unwrap();
        self.database.transact(txn.finish().operations()).unwrap();
    }

    fn edit(&mut self, edit: Edit, place: usize) {
        let owner = "owner".to_owned();
        match edit {
            Edit::PortChanged => self.modify(place, |port: &mut LogicalRouterPort| {
                port.mac.push('0');
            }),
            Edit::PortOwnerGone => self.modify(place, |port: &mut LogicalRouterPort| {
                port.external_ids.clear();
            }),
            Edit::PortTakenOver => self.modify(place, |port: &mut LogicalRouterPort| {
                port.external_ids.insert(owner, "another".to_owned());
            }),
            Edit::PortsMoved => {
                let routers = self.rows::<LogicalRouter>();
                if routers.len() < 2 {
                    return;
                }
                let (from, former) = &routers[place % routers.len()];
                let (to, _) = &routers[(place + 1) % routers.len()];
                let mut txn = TxnBuilder::new(&self.snapshot());
                txn.remove(*from, LogicalRouter::PORTS, former.ports.clone()).unwrap();
                txn.add(*to, LogicalRouter::PORTS, former.ports.clone()).unwrap();
                txn.remove(*from, LogicalRouter::STATIC_ROUTES, former.static_routes.clone())
                    .unwrap();
                txn.add(*to, LogicalRouter::STATIC_ROUTES, former.static_routes.clone()).unwrap();
                self.database.transact(txn.finish().operations()).unwrap();
            }
            Edit::PortsGone => self.modify(place, |router: &mut LogicalRouter| {
                router.ports.pop_first();
                router.static_routes.pop_last();
            }),
            Edit::RouteChanged => self.modify(place, |route: &mut LogicalRouterStaticRoute| {
                route.nexthop.push('0');
            }),
            Edit::RouteOfAnotherLink => {
                self.modify(place, |route: &mut LogicalRouterStaticRoute| {
                    route.external_ids.insert("node".to_owned(), "4".to_owned());
                });
            }
            Edit::RouteTwice => {
                let routes = self.rows::<LogicalRouterStaticRoute>();
                let routers = self.rows::<LogicalRouter>();
                if routes.is_empty() || routers.is_empty() {
                    return;
                }
                let mut txn = TxnBuilder::new(&self.snapshot());
                let route = txn.insert(&routes[place % routes.len()].1).unwrap();
                let router = routers[place % routers.len()].0;
                txn.add(router, LogicalRouter::STATIC_ROUTES, [route]).unwrap();
                self.database.transact(txn.finish().operations()).unwrap();
            }
            Edit::RoutePrefix => self.modify(place, |route: &mut LogicalRouterStaticRoute| {
                "10.0.0.0/24".clone_into(&mut route.ip_prefix);
            }),
            Edit::PolicyChanged => self.modify(place, |policy: &mut LogicalRouterPolicy| {
                policy.r#match.push('0');
                policy.external_ids.insert("id".to_owned(), "9".to_owned());
            }),
            Edit::PolicyTwice => {
                let policies = self.rows::<LogicalRouterPolicy>();
                let routers = self.rows::<LogicalRouter>();
                if policies.is_empty() || routers.is_empty() {
                    return;
                }
                let mut txn = TxnBuilder::new(&self.snapshot());
                let policy = txn.insert(&policies[place % policies.len()].1).unwrap();
                let router = routers[place % routers.len()].0;
                txn.add(router, LogicalRouter::POLICIES, [policy]).unwrap();
                self.database.transact(txn.finish().operations()).unwrap();
            }
            Edit::SetChanged => self.modify(place, |set: &mut AddressSet| {
                set.addresses.pop_first();
                set.addresses.insert("10.9.9.9".to_owned());
            }),
            Edit::SetOwnerGone => self.modify(place, |set: &mut AddressSet| {
                set.external_ids.clear();
            }),
            Edit::RouterChanged => self.modify(place, |router: &mut LogicalRouter| {
                router.options.insert("key".to_owned(), "x".to_owned());
                router.enabled = Some(false);
                router.copp = None;
            }),
            Edit::RouterOwnerGone => self.modify(place, |router: &mut LogicalRouter| {
                router.external_ids.clear();
            }),
            Edit::RouterGone => self.delete::<LogicalRouter>(place),
            Edit::RouterTwice => {
                let name = format!("router{}", place % 4);
                self.insert(&LogicalRouter { name, ..LogicalRouter::default() });
            }
            Edit::CoppGone => {
                for place in 0..self.rows::<LogicalRouter>().len() {
                    self.modify(place, |router: &mut LogicalRouter| router.copp = None);
                }
                self.delete::<Copp>(place);
            }
            Edit::GroupGone => {
                for place in 0..self.rows::<LogicalSwitch>().len() {
                    self.modify(place, |switch: &mut LogicalSwitch| {
                        switch.load_balancer_group.clear();
                    });
                }
                self.delete::<LoadBalancerGroup>(place);
            }
            Edit::SwitchComes => {
                let name = format!("switch{}", place % 4);
                self.insert(&LogicalSwitch { name, ..LogicalSwitch::default() });
            }
            Edit::SwitchGone => self.delete::<LogicalSwitch>(place),
            Edit::SwitchWithoutGroups => self.modify(place, |switch: &mut LogicalSwitch| {
                switch.load_balancer_group.clear();
                switch.external_ids.insert("theirs".to_owned(), "1".to_owned());
            }),
        }
    }

    /// Asserts that an engine which has seen nothing agrees.
    fn assert_settled(&mut self, event: &Event) {
        let mut fresh = engine(3);
        let plan = fresh.plan(&self.inputs, &self.snapshot());
        assert!(plan.changes.is_empty(), "after {event:?}: {plan:?}");
        let reports =
            |engine: &Engine<Farming>| format!("{:?}", engine.reports().collect::<Vec<_>>());
        assert_eq!(reports(&self.engine), reports(&fresh), "after {event:?}");
        let refused =
            |engine: &Engine<Farming>| format!("{:?}", engine.refused().collect::<Vec<_>>());
        assert_eq!(refused(&self.engine), refused(&fresh), "after {event:?}");
        // A pass without changes evaluates nothing.
        assert!(!self.pass(false));
        assert_eq!(self.engine.evaluated_parts(), 0);
    }
}

/// All rows, without UUIDs.
fn dump(world: &World) -> Vec<String> {
    let ports: BTreeMap<_, _> = world.rows::<LogicalRouterPort>().into_iter().collect();
    let routes: BTreeMap<_, _> = world.rows::<LogicalRouterStaticRoute>().into_iter().collect();
    let mut lines = Vec::new();
    for (_, router) in world.rows::<LogicalRouter>() {
        let mut ports: Vec<_> = router.ports.iter().map(|port| &ports[port]).collect();
        ports.sort_by_key(|port| &port.name);
        let mut routes: Vec<_> = router.static_routes.iter().map(|route| &routes[route]).collect();
        routes.sort_by_key(|route| format!("{route:?}"));
        let plain = LogicalRouter {
            ports: [].into(),
            policies: [].into(),
            static_routes: [].into(),
            copp: None,
            ..router.clone()
        };
        lines.push(format!("{plain:?} {} {ports:?} {routes:?}", router.copp.is_some()));
    }
    let policies = world.rows::<LogicalRouterPolicy>();
    lines.extend(policies.iter().map(|(_, policy)| format!("{policy:?}")));
    let sets = world.rows::<AddressSet>();
    lines.extend(sets.iter().map(|(_, set)| format!("{set:?}")));
    let groups = world.rows::<LoadBalancerGroup>();
    lines.extend(groups.iter().map(|(_, group)| format!("{group:?}")));
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn following_comes_to_the_same_as_looking_at_everything(
        events in prop::collection::vec((event(), prop::collection::vec(any::<bool>(), 0..3)), 1..25),
        limit in prop_oneof![Just(usize::MAX), 1_usize..6],
    ) {
        let mut world = World::new(limit);
        for (event, losses) in &events {
            world.happen(event);
            for is_lost in losses {
                world.pass(*is_lost);
            }
            if losses.len() < 2 {
                world.settle();
                world.assert_settled(event);
            }
        }
        world.settle();
        world.assert_settled(&events[0].0);
    }

    #[test]
    fn without_foreign_edits_the_way_does_not_matter(
        events in prop::collection::vec((input_event(), any::<bool>()), 1..25),
        limit in prop_oneof![Just(usize::MAX), 1_usize..6],
    ) {
        let mut world = World::new(limit);
        for (event, is_settled) in &events {
            world.happen(event);
            if *is_settled {
                world.settle();
            }
        }
        // Rows of frozen links remember the way.
        let nodes: Vec<u8> = world.inputs.nodes.keys().copied().collect();
        for number in nodes {
            let node = Node::clone(&world.inputs.nodes[&number]);
            world.happen(&Event::Node(number, Some(Node { is_frozen: false, ..node })));
        }
        world.settle();
        let mut straight = World::new(usize::MAX);
        straight.inputs = world.inputs.clone();
        straight.settle();
        // Groups are shared: nothing removes them.
        let lines = |world: &World| -> Vec<String> {
            let lines = dump(world).into_iter();
            lines.filter(|line| !line.starts_with("LoadBalancerGroup")).collect()
        };
        prop_assert_eq!(lines(&world), lines(&straight));
    }
}

fn node(address: u8, routes: u8) -> Node {
    Node { address, routes, is_frozen: false }
}

fn large(sites: u8, nodes: u8) -> World {
    let mut world = World::new(usize::MAX);
    for number in 0..sites {
        world.happen(&Event::Site(number, Some(Site::default())));
    }
    for number in 0..nodes {
        let routes = 1;
        let address = number;
        world.happen(&Event::Node(number, Some(node(address, routes))));
    }
    world.settle();
    world
}

#[test]
fn the_number_of_evaluated_parts_follows_the_change() {
    for (sites, nodes) in [(2, 20), (2, 200), (20, 200)] {
        let mut world = large(sites, nodes);
        assert!(world.engine.part_count() > usize::from(sites) * usize::from(nodes));
        world.happen(&Event::Node(nodes, Some(node(250, 0))));
        world.pass(false);
        assert_eq!(world.engine.evaluated_parts(), sites.into());
        // What was written is looked at once.
        world.pass(false);
        assert!(world.engine.evaluated_parts() <= usize::from(sites) * 3);
        world.pass(false);
        assert_eq!(world.engine.evaluated_parts(), 0);
        world.modify(0, |port: &mut LogicalRouterPort| port.mac.push('0'));
        world.pass(false);
        assert!((1..10).contains(&world.engine.evaluated_parts()));
    }
}

#[test]
fn a_contributed_member_changes_nothing_but_itself() {
    let mut world = large(2, 100);
    let crowd = |world: &World| {
        let mut sets =
            world.rows::<AddressSet>().into_iter().filter(|(_, set)| set.name == "crowd0");
        sets.next().unwrap().1.addresses
    };
    let before = crowd(&world);
    assert!(before.len() > 100 && before.contains("10.2.0.7"));
    world.happen(&Event::Node(100, Some(node(250, 1))));
    let plan = world.engine.plan(&world.inputs, &world.snapshot());
    let text = format!("{plan:?}");
    assert!(text.contains("10.2.0.100") && !text.contains("10.2.0.7"));
    world.settle();
    let added: Vec<String> = crowd(&world).difference(&before).cloned().collect();
    assert_eq!(added, ["10.2.0.100"]);
    // Another link has the first address, too.
    world.happen(&Event::Node(7, None));
    world.settle();
    let after = crowd(&world);
    let removed: Vec<&String> = before.difference(&after).collect();
    assert_eq!(removed, ["10.2.0.7"]);
    assert!(after.contains("10.1.0.1"));
}

#[test]
fn removed_parts_are_forgotten() {
    let mut world = large(3, 20);
    for number in 0..20 {
        world.happen(&Event::Node(number, None));
    }
    world.settle();
    world.pass(false);
    // The shared part; router, policies and tally of each site.
    assert_eq!(world.engine.part_count(), 10);
    assert_eq!(world.engine.shared_count(), 0);
    assert!(world.rows::<LogicalRouterPort>().is_empty());
}

#[test]
fn the_first_of_two_parts_has_a_row_whoever_came_first() {
    assert_eq!(port_name(0, 3), port_name(1, 0));
    let mut world = World::new(usize::MAX);
    world.happen(&Event::Site(1, Some(Site::default())));
    world.happen(&Event::Node(0, Some(node(5, 0))));
    world.settle();
    let owner = |world: &World| {
        let mut ports = world.rows::<LogicalRouterPort>().into_iter();
        let port = ports.find(|(_, port)| port.name == port_name(1, 0));
        port.unwrap().1.external_ids["site"].clone()
    };
    assert_eq!(owner(&world), "1");
    world.inputs.sites.insert(0, Arc::default());
    world.inputs.nodes.remove(&0);
    world.happen(&Event::Node(3, Some(node(6, 0))));
    world.settle();
    assert_eq!(owner(&world), "0");
    world.happen(&Event::Node(0, Some(node(5, 0))));
    world.settle();
    assert_eq!(owner(&world), "0");
    assert!(world.engine.refused().any(|(part, _)| *part == farm::Part::Link(1, 0)));
    world.inputs.sites.remove(&0);
    world.settle();
    let names: Vec<String> =
        world.rows::<LogicalRouterPort>().into_iter().map(|(_, port)| port.name).collect();
    assert!(names.contains(&port_name(1, 0)));
    assert_eq!(world.engine.refused().count(), 0);
}
