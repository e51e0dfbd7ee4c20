//! What the builder makes of changes, and that it does what was meant.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Index};
use patchbay_engine::txn::{BuildError, SplitError, TxnBuilder, Upsert};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{
    self, AddressSet, LogicalRouter, LogicalRouterPort, LogicalSwitch, NbGlobal,
};
use patchbay_schemas::typed::{Column, Ref};
use patchbay_schemas::wire::{Mutator, Operation};
use proptest::prelude::*;
use uuid::Uuid;

mod so_far;

fn commit(database: &mut Database, change: impl FnOnce(&mut TxnBuilder)) {
    let mut txn = TxnBuilder::new(&database.snapshot());
    change(&mut txn);
    database.transact(txn.finish().operations()).unwrap();
}

/// A database with a router, and the router.
fn with_router(router: &LogicalRouter) -> (Database, Ref<LogicalRouter>) {
    let mut database = Database::new(nb::schema());
    let mut made = None;
    commit(&mut database, |txn| {
        made = Some(txn.insert(router).unwrap());
    });
    (database, made.unwrap())
}

fn names(operations: &[Operation]) -> Vec<&'static str> {
    operations.iter().map(Operation::name).collect()
}

fn strings(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn all_changes_to_a_new_row_are_its_insertion() {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let port = txn
        .insert(&LogicalRouterPort {
            name: "lrp0".into(),
            ..Default::default()
        })
        .unwrap();
    let router = txn.insert(&LogicalRouter::default()).unwrap();
    txn.add(router, LogicalRouter::PORTS, [port]).unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "1"), ("b", "1")])
        .unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "2")])
        .unwrap();
    txn.remove_keys(router, LogicalRouter::OPTIONS, ["b"])
        .unwrap();
    txn.set(router, LogicalRouter::NAME, "lr0".into()).unwrap();
    txn.modify(router, |router| {
        assert_eq!((router.name.as_str(), router.ports.len()), ("lr0", 1));
        router.enabled = Some(true);
    })
    .unwrap();
    let transaction = txn.finish();
    assert_eq!(names(transaction.operations()), ["insert", "insert"]);
    database.transact(transaction.operations()).unwrap();
    let row = database.snapshot().get(router).unwrap().unwrap();
    assert_eq!(
        (row.name.as_str(), row.enabled, row.ports.len()),
        ("lr0", Some(true), 1)
    );
    assert_eq!(row.options, [("a".to_owned(), "2".to_owned())].into());
}

#[test]
fn a_row_takes_one_operation_of_each_kind() {
    let (mut database, router) = with_router(&LogicalRouter {
        name: "lr0".into(),
        ..Default::default()
    });
    let mut txn = TxnBuilder::new(&database.snapshot());
    for i in 0..20 {
        txn.put(
            router,
            LogicalRouter::EXTERNAL_IDS,
            [(format!("k{i}"), "x")],
        )
        .unwrap();
        txn.set(router, LogicalRouter::NAME, format!("lr{i}"))
            .unwrap();
        // Other rows in between do not matter.
        txn.insert(&LogicalSwitch {
            name: format!("sw{i}"),
            ..Default::default()
        })
        .unwrap();
    }
    // A value takes the place of changes to it, and changes to it join the value.
    txn.add(
        router,
        LogicalRouter::LOAD_BALANCER,
        [Ref::new(Uuid::from_u128(1))],
    )
    .unwrap();
    txn.set(router, LogicalRouter::LOAD_BALANCER, BTreeSet::new())
        .unwrap();
    txn.set(router, LogicalRouter::OPTIONS, BTreeMap::new())
        .unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "1")])
        .unwrap();
    let transaction = txn.finish();
    let of_router: Vec<_> = transaction
        .operations()
        .iter()
        .filter(|operation| operation.name() != "insert")
        .collect();
    assert_eq!(of_router.len(), 2, "{of_router:?}");
    database.transact(transaction.operations()).unwrap();
    let row = database.snapshot().get(router).unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.external_ids.len()), ("lr19", 20));
    assert_eq!((row.load_balancer.len(), row.options.len()), (0, 1));
}

#[test]
fn what_is_deleted_need_not_be_changed() {
    let (mut database, router) = with_router(&LogicalRouter::default());
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.set(router, LogicalRouter::NAME, "x".into()).unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "1")])
        .unwrap();
    txn.delete(router).unwrap();
    let never = txn.insert(&LogicalSwitch::default()).unwrap();
    txn.delete(never).unwrap();
    assert_eq!(txn.len(), 1);
    let transaction = txn.finish();
    assert_eq!(names(transaction.operations()), ["delete"]);
    database.transact(transaction.operations()).unwrap();
    assert_eq!(database.snapshot().row_count(), 0);
}

#[test]
fn what_is_expected_stays_before_what_changes_it() {
    let (mut database, router) = with_router(&LogicalRouter {
        name: "a".into(),
        ..Default::default()
    });
    let name = |name: &str| Datum::scalar(name);
    commit(&mut database, |txn| {
        txn.set(router, LogicalRouter::NAME, "b".into()).unwrap();
        txn.expect(router, "name", name("b")).unwrap();
        txn.set(router, LogicalRouter::NAME, "c".into()).unwrap();
        txn.expect(router, "name", name("c")).unwrap();
    });
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.expect(router, "name", name("a")).unwrap();
    assert!(database.transact(txn.finish().operations()).is_err());
}

#[test]
fn guarded_changes_do_not_overwrite_others() {
    let (mut database, router) = with_router(&LogicalRouter {
        name: "a".into(),
        ..Default::default()
    });
    let seen = database.snapshot();
    let guarded = |change: &dyn Fn(&mut TxnBuilder)| {
        let mut txn = TxnBuilder::new(&seen);
        txn.guard_changes();
        change(&mut txn);
        txn.finish()
    };
    commit(&mut database, |txn| {
        txn.set(router, LogicalRouter::NAME, "b".into()).unwrap();
    });

    let rename = guarded(&|txn| txn.set(router, LogicalRouter::NAME, "c".into()).unwrap());
    assert!(database.transact(rename.operations()).is_err());
    let verified = guarded(&|txn| {
        txn.verify(router, LogicalRouter::NAME).unwrap();
        txn.set(router, LogicalRouter::ENABLED, Some(true)).unwrap();
    });
    assert!(database.transact(verified.operations()).is_err());
    // What nobody else has changed can be changed, twice too, as can sets and maps by parts.
    let other = guarded(&|txn| {
        txn.set(router, LogicalRouter::ENABLED, Some(true)).unwrap();
        txn.set(router, LogicalRouter::ENABLED, Some(false))
            .unwrap();
        txn.put(router, LogicalRouter::OPTIONS, [("a", "1")])
            .unwrap();
        let new = txn.insert(&LogicalRouter::default()).unwrap();
        txn.set(new, LogicalRouter::NAME, "new".into()).unwrap();
    });
    assert_eq!(
        names(other.operations()),
        ["wait", "update", "mutate", "insert"]
    );
    database.transact(other.operations()).unwrap();
}

#[test]
fn a_row_is_inserted_only_if_there_is_none_like_it() {
    let mut database = Database::new(nb::schema());
    let insert = |txn: &mut TxnBuilder| {
        txn.expect_none(LogicalSwitch::NAME, &"sw0".to_owned())
            .unwrap();
        txn.insert(&LogicalSwitch {
            name: "sw0".into(),
            ..Default::default()
        })
        .unwrap();
    };
    commit(&mut database, insert);
    let mut txn = TxnBuilder::new(&database.snapshot());
    insert(&mut txn);
    assert!(database.transact(txn.finish().operations()).is_err());
    assert_eq!(database.snapshot().row_count(), 1);
}

#[test]
fn upserts_send_what_differs() {
    let by_id = Index::by_key(LogicalRouter::EXTERNAL_IDS, "id").unique();
    let mut database = Database::new(nb::schema());
    let wanted = LogicalRouter {
        name: "lr0".into(),
        external_ids: [("id".to_owned(), "1".to_owned())].into(),
        ..Default::default()
    };
    let without = TxnBuilder::new(&database.snapshot()).upsert(&by_id, &wanted, &[]);
    assert!(matches!(without, Err(BuildError::Index(_))), "{without:?}");

    database.add_index(&by_id);
    let mut rows = BTreeSet::new();
    let renamed = LogicalRouter {
        name: "lr1".into(),
        enabled: Some(true),
        ..wanted.clone()
    };
    for (wanted, expected, operations) in [
        (&wanted, Upsert::Inserted, 1),
        (&wanted, Upsert::Unchanged, 0),
        (&renamed, Upsert::Updated, 1),
    ] {
        let mut txn = TxnBuilder::new(&database.snapshot());
        let (row, upsert) = txn.upsert(&by_id, wanted, &["enabled"]).unwrap();
        assert_eq!((upsert, txn.len()), (expected, operations));
        database.transact(txn.finish().operations()).unwrap();
        rows.insert(row);
    }
    assert_eq!(rows.len(), 1);
    let row = database
        .snapshot()
        .get(*rows.first().unwrap())
        .unwrap()
        .unwrap();
    assert_eq!((row.name.as_str(), row.enabled), ("lr1", None));
    // A row without the key is none that could be there already.
    let mut txn = TxnBuilder::new(&database.snapshot());
    let (_, upsert) = txn.upsert(&by_id, &LogicalRouter::default(), &[]).unwrap();
    assert_eq!(upsert, Upsert::Inserted);
}

#[test]
fn counters_count_and_are_read_back() {
    let mut database = Database::new(nb::schema());
    let mut global = None;
    commit(&mut database, |txn| {
        let row = txn
            .insert(&NbGlobal {
                nb_cfg: 5,
                ..Default::default()
            })
            .unwrap();
        // Of a new row the sum is known.
        txn.increase(row, NbGlobal::NB_CFG, 2).unwrap();
        assert_eq!(txn.len(), 1);
        global = Some(row);
    });
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.increase(global.unwrap(), NbGlobal::NB_CFG, 1).unwrap();
    txn.increase(global.unwrap(), NbGlobal::NB_CFG, 1).unwrap();
    txn.read(global.unwrap()).unwrap();
    let transaction = txn.finish();
    assert_eq!(names(transaction.operations()), ["mutate", "select"]);
    database.transact(transaction.operations()).unwrap();
    let row = database.snapshot().get(global.unwrap()).unwrap().unwrap();
    assert_eq!(row.nb_cfg, 9);
}

#[test]
fn errors_name_the_table_the_row_and_the_column() {
    let (database, router) = with_router(&LogicalRouter::default());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let new = txn.insert(&LogicalSwitch::default()).unwrap();
    let error = |result: Result<(), BuildError>| result.unwrap_err().to_string();
    assert_eq!(
        error(txn.set_row("Logical_Switch", new.uuid, [("name", Datum::scalar(5))])),
        "column name of table Logical_Switch cannot hold 5 (new row): constraint violation: the column is a string"
    );
    assert_eq!(
        error(txn.mutate_row(
            "Logical_Router",
            router.uuid,
            "name",
            Mutator::Insert,
            Datum::scalar("x")
        )),
        format!(
            "column name of table Logical_Router cannot hold x (row {router}): constraint violation: the column is a string"
        )
    );
    assert_eq!(
        error(txn.set_row(
            "Logical_Router",
            router.uuid,
            [("later", Datum::scalar("x"))]
        )),
        format!(
            "table Logical_Router of database OVN_Northbound has no column later to hold x (row {router})"
        )
    );
    let gone = Ref::<LogicalRouter>::new(Uuid::from_u128(7));
    assert_eq!(
        txn.modify(gone, |_| {}).unwrap_err().to_string(),
        format!("table Logical_Router has no row {gone}")
    );
    assert_eq!(
        error(txn.insert_row("Later", []).map(|_| ())),
        "database OVN_Northbound has no table Later"
    );
}

#[test]
fn untyped_rows_do_what_typed_ones_do() {
    let mut database = Database::new(nb::schema());
    let id = Uuid::from_u128(7);
    let mut other = None;
    commit(&mut database, |txn| {
        let addresses = strings(&["10.0.0.1"]).to_datum();
        txn.insert_row_as(
            id,
            "Address_Set",
            [("name", Datum::scalar("a")), ("addresses", addresses)],
        )
        .unwrap();
        other = Some(
            txn.insert_row("Address_Set", [("name", Datum::scalar("b"))])
                .unwrap(),
        );
    });
    commit(&mut database, |txn| {
        let more = strings(&["10.0.0.2"]).to_datum();
        txn.mutate_row("Address_Set", id, "addresses", Mutator::Insert, more)
            .unwrap();
        txn.delete_row("Address_Set", other.unwrap()).unwrap();
    });
    let row = database
        .snapshot()
        .get(Ref::<AddressSet>::new(id))
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.name.as_str(), row.addresses),
        ("a", strings(&["10.0.0.1", "10.0.0.2"]))
    );
    assert_eq!(database.snapshot().row_count(), 1);
    // The same row again is refused, not doubled.
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.insert_row_as(id, "Address_Set", [("name", Datum::scalar("c"))])
        .unwrap();
    assert!(database.transact(txn.finish().operations()).is_err());
}

#[test]
fn a_transaction_is_split_only_where_it_may_be() {
    let (database, router) = with_router(&LogicalRouter::default());
    let build = |split: bool| {
        let mut txn = TxnBuilder::new(&database.snapshot());
        for i in 0..10 {
            // A port and the router that holds it must go together.
            let port = LogicalRouterPort {
                name: format!("lrp{i}"),
                ..Default::default()
            };
            let port = txn.insert(&port).unwrap();
            txn.add(router, LogicalRouter::PORTS, [port]).unwrap();
            if split {
                txn.allow_split();
            }
        }
        txn
    };
    let whole = build(true).finish_split(usize::MAX).unwrap();
    assert_eq!(whole.len(), 1);
    let parts = build(true).finish_split(1500).unwrap();
    assert!((3..10).contains(&parts.len()), "{}", parts.len());
    for part in &parts {
        let mut request = Vec::new();
        part.write_params(&mut request);
        assert!(request.len() <= 1500);
    }
    assert!(matches!(
        build(false).finish_split(1500),
        Err(SplitError::TooLarge { .. })
    ));

    // An embedded database keeps the placeholders, so the parts can be executed as they are.
    let mut database = database;
    for part in parts {
        database.transact(part.operations()).unwrap();
    }
    assert_eq!(
        database
            .snapshot()
            .get(router)
            .unwrap()
            .unwrap()
            .ports
            .len(),
        10
    );
}

/// One change to one of two rows: one that is there and a new one.
#[derive(Clone, Debug)]
enum Change {
    Set(BTreeSet<u8>),
    Add(BTreeSet<u8>),
    Remove(BTreeSet<u8>),
    SetMap(BTreeMap<u8, u8>),
    Put(BTreeMap<u8, u8>),
    RemoveKeys(BTreeSet<u8>),
    InsertPairs(BTreeMap<u8, u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let set = || prop::collection::btree_set(0..20_u8, 0..14);
    let map = || prop::collection::btree_map(0..20_u8, 0..3_u8, 0..14);
    prop_oneof![
        set().prop_map(Change::Set),
        set().prop_map(Change::Add),
        set().prop_map(Change::Remove),
        map().prop_map(Change::SetMap),
        map().prop_map(Change::Put),
        set().prop_map(Change::RemoveKeys),
        map().prop_map(Change::InsertPairs),
    ]
}

fn texts(numbers: &BTreeSet<u8>) -> BTreeSet<String> {
    numbers.iter().map(u8::to_string).collect()
}

fn pairs(numbers: &BTreeMap<u8, u8>) -> BTreeMap<String, String> {
    numbers
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

impl Change {
    /// What it is meant to do.
    fn model(&self, row: &mut AddressSet) {
        match self {
            Self::Set(all) => row.addresses = texts(all),
            Self::Add(more) => row.addresses.extend(texts(more)),
            Self::Remove(less) => row.addresses.retain(|have| !texts(less).contains(have)),
            Self::SetMap(all) => row.external_ids = pairs(all),
            Self::Put(more) => row.external_ids.extend(pairs(more)),
            Self::RemoveKeys(less) => row.external_ids.retain(|key, _| !texts(less).contains(key)),
            Self::InsertPairs(more) => {
                for (key, value) in pairs(more) {
                    row.external_ids.entry(key).or_insert(value);
                }
            }
        }
    }

    fn build(&self, txn: &mut TxnBuilder, row: Ref<AddressSet>) -> Result<(), BuildError> {
        match self {
            Self::Set(all) => txn.set(row, AddressSet::ADDRESSES, texts(all)),
            Self::Add(more) => txn.add(row, AddressSet::ADDRESSES, texts(more)),
            Self::Remove(less) => txn.remove(row, AddressSet::ADDRESSES, texts(less)),
            Self::SetMap(all) => txn.set(row, AddressSet::EXTERNAL_IDS, pairs(all)),
            Self::Put(more) => txn.put(row, AddressSet::EXTERNAL_IDS, pairs(more)),
            Self::RemoveKeys(less) => txn.remove_keys(row, AddressSet::EXTERNAL_IDS, texts(less)),
            Self::InsertPairs(more) => {
                txn.mutate_insert(row, "external_ids", pairs(more).to_datum())
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn merged_changes_do_what_they_would_one_by_one(
        start in change(),
        changes in prop::collection::vec((any::<bool>(), change()), 0..12),
    ) {
        let mut database = Database::new(nb::schema());
        let mut old_model = AddressSet { name: "old".into(), ..Default::default() };
        start.model(&mut old_model);
        let mut new_model = AddressSet { name: "new".into(), ..Default::default() };
        let mut txn = TxnBuilder::new(&database.snapshot());
        let old = txn.insert(&old_model).unwrap();
        database.transact(txn.finish().operations()).unwrap();

        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.guard_changes();
        let new = txn.insert(&new_model).unwrap();
        for (is_new, change) in &changes {
            let (row, model) = if *is_new { (new, &mut new_model) } else { (old, &mut old_model) };
            change.model(model);
            change.build(&mut txn, row).unwrap();
        }
        // One insertion; of the other row at most a wait for each column, an update and a mutation.
        prop_assert!(txn.len() <= 5);
        database.transact(txn.finish().operations()).unwrap();
        let snapshot = database.snapshot();
        prop_assert_eq!(snapshot.get(old).unwrap().unwrap(), old_model);
        prop_assert_eq!(snapshot.get(new).unwrap().unwrap(), new_model);
    }
}
