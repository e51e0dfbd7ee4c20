//! Ways that open or close between two states, beside all pairs of both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_reach::{Changed, Northbound, Ports, Protocol, Scene, Zones};
use patchbay_schemas::nb::{
    self, Acl, AclAction, AclDirection, AddressSet, LoadBalancer, LogicalRouter,
    LogicalRouterPolicy, LogicalRouterPolicyAction, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;

use crate::support::database;

/// Zone of databases in these tests.
const ZONE: &str = "zone";
/// Machines on each of the two switches.
const MACHINES: usize = 7;

/// Ways between machines: sender, destination, whether it opens.
type Ways = BTreeSet<(String, String, bool)>;

fn zones(snapshot: &Snapshot) -> Zones {
    Zones::new(ZONE, Northbound::new(snapshot, None))
}

/// Asserts that the classes give the ways that all pairs give. Returns their number, and that of the
/// questions.
fn assert_same(before: &Snapshot, after: &Snapshot, protocol: Protocol) -> (usize, usize) {
    let (zones, later_zones) = (zones(before), zones(after));
    let named = |snapshot: &Snapshot| BTreeMap::from([(ZONE.to_owned(), snapshot.clone())]);
    let scene = Scene::new(&zones, &named(before));
    let later = Scene::new(&later_zones, &named(after));
    let difference = scene.difference(&later, Some(&[Ports::one(protocol)]));
    let mut found = Ways::new();
    for change in difference.changes {
        for (from, to) in
            change.from.iter().flat_map(|from| change.to.iter().map(move |to| (from, to)))
        {
            if from != to && !to.starts_with("service/") {
                found.insert((from.clone(), to.clone(), change.change == Changed::Opens));
            }
        }
    }
    let mut expected = Ways::new();
    let cells = |zones: &Zones| {
        let matrix = zones.machine_matrix(protocol);
        let cells = matrix.rows.into_iter().flatten().flatten();
        cells.map(|cell| ((cell.from, cell.to), cell.connected)).collect::<BTreeMap<_, _>>()
    };
    let (earlier, later_cells) = (cells(&zones), cells(&later_zones));
    let names =
        |scene: &Scene<'_>| -> BTreeSet<String> { scene.machines().map(str::to_owned).collect() };
    let common = &names(&scene) & &names(&later);
    // A pair that cannot be asked has no cell, and is not connected.
    let is_open = |cells: &BTreeMap<_, bool>, pair| cells.get(pair).copied().unwrap_or_default();
    let pairs: BTreeSet<_> = earlier.keys().chain(later_cells.keys()).collect();
    for pair in pairs.into_iter().filter(|(from, to)| common.contains(from) && common.contains(to))
    {
        let [was_open, opens] = [&earlier, &later_cells].map(|cells| is_open(cells, pair));
        if was_open != opens {
            expected.insert((pair.0.clone(), pair.1.clone(), opens));
        }
    }
    assert_eq!(found, expected);
    (expected.len(), difference.questions)
}

/// A state with a change of one row of a table. `None`: the table has fewer rows.
fn changed<T: TableRow + Clone>(
    before: &Snapshot,
    number: usize,
    change: impl Fn(&mut T),
) -> Option<Snapshot> {
    let table = before.typed::<T>();
    let mut uuids: Vec<_> = table.rows().map(|row| row.uuid).collect();
    uuids.sort_unstable();
    let row = Ref::<T>::new(*uuids.get(number)?);
    let mut database = Database::from_snapshot(before, UuidSource::seeded(3)).unwrap();
    let mut txn = TxnBuilder::new(before);
    txn.modify(row, change).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    Some(database.snapshot())
}

/// A state without a row of a table. `None`: the table has fewer rows.
fn without<T: TableRow>(before: &Snapshot, number: usize) -> Option<Snapshot> {
    let table = before.typed::<T>();
    let mut uuids: Vec<_> = table.rows().map(|row| row.uuid).collect();
    uuids.sort_unstable();
    let row = Ref::<T>::new(*uuids.get(number)?);
    let mut database = Database::from_snapshot(before, UuidSource::seeded(3)).unwrap();
    let mut txn = TxnBuilder::new(before);
    txn.delete(row).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    Some(database.snapshot())
}

/// States that differ from this one in a row.
fn later_states(before: &Snapshot, number: usize) -> Vec<Snapshot> {
    let swap = |acl: &mut Acl| {
        acl.action = match acl.action {
            AclAction::Drop | AclAction::Reject => AclAction::AllowRelated,
            _ => AclAction::Drop,
        };
    };
    let states = [
        changed(before, number, swap),
        changed(before, number, |policy: &mut LogicalRouterPolicy| {
            policy.action = LogicalRouterPolicyAction::Drop;
        }),
        changed(before, number, |set: &mut AddressSet| {
            set.addresses.pop_first();
        }),
        changed(before, number, |group: &mut PortGroup| {
            group.ports.pop_first();
        }),
        changed(before, number, |port: &mut LogicalSwitchPort| {
            if port.r#type.is_empty() {
                port.addresses = ["0a:00:00:00:77:77 fd00::77".to_owned()].into();
            }
        }),
        changed(before, number, |switch: &mut LogicalSwitch| {
            switch.ports.pop_last();
        }),
        changed(before, number, |router: &mut LogicalRouter| {
            router.static_routes.pop_first();
            router.nat.pop_last();
        }),
        without::<LoadBalancer>(before, number),
        without::<LogicalRouter>(before, number),
    ];
    states.into_iter().flatten().collect()
}

#[test]
fn classes_of_recorded_databases_answer_as_all_pairs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut changes = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().ends_with(".nb.json") {
            continue;
        }
        let before = database(&fs::read_to_string(&path).unwrap()).snapshot();
        for number in 0..2 {
            for after in later_states(&before, number) {
                for protocol in [Protocol::Icmp, Protocol::Tcp(80)] {
                    changes += assert_same(&before, &after, protocol).0;
                }
            }
        }
    }
    assert!(changes > 5, "{changes} ways");
}

/// Numbers of a generator with a known period, so that each run has the same topologies.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }

    fn is(&mut self, one_of: usize) -> bool {
        self.below(one_of) == 0
    }
}

/// Two switches behind a router, with port groups, address sets, ACLs, router policies and load
/// balancers that choose machines at random.
fn random_state(dice: &mut Dice) -> Snapshot {
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(dice.0));
    let mut txn = TxnBuilder::new(&database.snapshot());
    let address = |switch: usize, number: usize| format!("10.0.{switch}.{}", number + 10);
    let mut all = Vec::new();
    let mut router = LogicalRouter { name: "r".into(), ..Default::default() };
    for switch in 0..2 {
        let mut row = LogicalSwitch {
            name: format!("s{switch}"),
            other_config: [("subnet".to_owned(), format!("10.0.{switch}.0/24"))].into(),
            ..Default::default()
        };
        for number in 0..MACHINES {
            let mac = format!("0a:00:00:00:0{switch}:{number:02}");
            let port = txn.insert(&LogicalSwitchPort {
                name: format!("ns_m{switch}-{number}"),
                addresses: [format!("{mac} {}", address(switch, number))].into(),
                external_ids: [("pod", "true"), ("namespace", "ns")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
                ..Default::default()
            });
            let port = port.unwrap();
            row.ports.insert(port);
            all.push((port, address(switch, number)));
        }
        row.ports.insert(
            txn.insert(&LogicalSwitchPort {
                name: format!("s{switch}-r"),
                r#type: "router".into(),
                addresses: ["router".to_owned()].into(),
                options: [("router-port".to_owned(), format!("r-s{switch}"))].into(),
                ..Default::default()
            })
            .unwrap(),
        );
        router.ports.insert(
            txn.insert(&LogicalRouterPort {
                name: format!("r-s{switch}"),
                mac: format!("0a:00:00:00:0{switch}:ff"),
                networks: [format!("10.0.{switch}.1/24")].into(),
                ..Default::default()
            })
            .unwrap(),
        );
        txn.insert(&row).unwrap();
    }
    for number in 0..3 {
        let members =
            |dice: &mut Dice| -> Vec<usize> { (0..all.len()).filter(|_| dice.is(3)).collect() };
        let set = members(dice).into_iter().map(|member| all[member].1.clone());
        txn.insert(&AddressSet {
            name: format!("as{number}"),
            addresses: set.collect(),
            ..Default::default()
        })
        .unwrap();
        let single = &all[dice.below(all.len())].1;
        let r#match = match dice.below(4) {
            0 => format!("outport == @pg{number} && ip4.src == $as{number}"),
            1 => format!("outport == @pg{number} && ip4.src == {single}"),
            2 => format!("outport == @pg{number} && tcp.dst == 80"),
            _ => format!("outport == @pg{number} && ip4.src == {{{single}, 10.0.0.0/28}}"),
        };
        let acl = txn.insert(&Acl {
            action: if dice.is(2) { AclAction::Drop } else { AclAction::AllowRelated },
            direction: AclDirection::ToLport,
            priority: 1_000 + number,
            r#match,
            ..Default::default()
        });
        txn.insert(&PortGroup {
            name: format!("pg{number}"),
            ports: members(dice).into_iter().map(|member| all[member].0).collect(),
            acls: [acl.unwrap()].into(),
            ..Default::default()
        })
        .unwrap();
    }
    for number in 0..2 {
        let (one, other) = (&all[dice.below(all.len())].1, &all[dice.below(all.len())].1);
        let r#match = match dice.below(2) {
            0 => format!("ip4.src == {one} && ip4.dst == {other}"),
            _ => format!("ip4.dst == {one}/30"),
        };
        router.policies.insert(
            txn.insert(&LogicalRouterPolicy {
                priority: 100 + number,
                r#match,
                action: LogicalRouterPolicyAction::Drop,
                ..Default::default()
            })
            .unwrap(),
        );
    }
    txn.insert(&router).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    database.snapshot()
}

#[test]
fn classes_of_random_databases_answer_as_all_pairs() {
    let mut dice = Dice(7);
    let (mut changes, mut questions, mut pairs) = (0, 0, 0);
    for _ in 0..12 {
        let before = random_state(&mut dice);
        for after in later_states(&before, dice.below(3)) {
            let (changed, asked) = assert_same(&before, &after, Protocol::Tcp(80));
            changes += changed;
            questions += asked;
            pairs += 2 * MACHINES * (2 * MACHINES - 1);
        }
    }
    assert!(changes > 100, "{changes} ways");
    assert!(questions < pairs, "{questions} questions instead of {pairs}");
}
