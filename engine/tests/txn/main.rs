//! Operations that the transaction builder collects, and their effect on a database.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Index};
use patchbay_engine::txn::{BuildError, SplitError, TxnBuilder, UpsertOutcome};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{
    self, AddressSet, LogicalRouter, LogicalRouterPort, LogicalSwitch, NbGlobal,
};
use patchbay_schemas::typed::{Column, Ref};
use patchbay_schemas::wire::{Mutator, Operation};
use proptest::prelude::*;
use uuid::Uuid;

mod sequences;

/// Commits a transaction that `change` builds.
fn commit(database: &mut Database, change: impl FnOnce(&mut TxnBuilder)) {
    let mut txn = TxnBuilder::new(&database.snapshot());
    change(&mut txn);
    database.transact(txn.finish().operations()).unwrap();
}

/// A database with a router, and the reference of the router.
fn with_router(router: &LogicalRouter) -> (Database, Ref<LogicalRouter>) {
    let mut database = Database::new(nb::schema());
    let mut inserted = None;
    commit(&mut database, |txn| {
        inserted = Some(txn.insert(router).unwrap());
    });
    (database, inserted.unwrap())
}

/// Names of operations, the `op` of RFC 7047 §5.2.
fn names(operations: &[Operation]) -> Vec<&'static str> {
    operations.iter().map(Operation::name).collect()
}

fn strings(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn changes_to_a_new_row_are_merged_into_its_insert() {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let port =
        txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() }).unwrap();
    let router = txn.insert(&LogicalRouter::default()).unwrap();
    txn.add(router, LogicalRouter::PORTS, [port]).unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "1"), ("b", "1")]).unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "2")]).unwrap();
    txn.remove_keys(router, LogicalRouter::OPTIONS, ["b"]).unwrap();
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
    assert_eq!((row.name.as_str(), row.enabled, row.ports.len()), ("lr0", Some(true), 1));
    assert_eq!(row.options, [("a".to_owned(), "2".to_owned())].into());
}

#[test]
fn an_existing_row_takes_at_most_one_update_and_one_mutate() {
    let (mut database, router) =
        with_router(&LogicalRouter { name: "lr0".into(), ..Default::default() });
    let mut txn = TxnBuilder::new(&database.snapshot());
    for i in 0..20 {
        txn.put(router, LogicalRouter::EXTERNAL_IDS, [(format!("k{i}"), "x")]).unwrap();
        txn.set(router, LogicalRouter::NAME, format!("lr{i}")).unwrap();
        // Operations on other rows do not prevent merging.
        txn.insert(&LogicalSwitch { name: format!("sw{i}"), ..Default::default() }).unwrap();
    }
    // A new value replaces earlier mutations of the column, and later mutations are merged into it.
    txn.add(router, LogicalRouter::LOAD_BALANCER, [Ref::new(Uuid::from_u128(1))]).unwrap();
    txn.set(router, LogicalRouter::LOAD_BALANCER, BTreeSet::new()).unwrap();
    txn.set(router, LogicalRouter::OPTIONS, BTreeMap::new()).unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "1")]).unwrap();
    let transaction = txn.finish();
    let of_router: Vec<_> =
        transaction.operations().iter().filter(|operation| operation.name() != "insert").collect();
    assert_eq!(of_router.len(), 2, "{of_router:?}");
    database.transact(transaction.operations()).unwrap();
    let row = database.snapshot().get(router).unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.external_ids.len()), ("lr19", 20));
    assert_eq!((row.load_balancer.len(), row.options.len()), (0, 1));
}

#[test]
fn deleting_a_row_removes_its_other_operations() {
    let (mut database, router) = with_router(&LogicalRouter::default());
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.set(router, LogicalRouter::NAME, "x".into()).unwrap();
    txn.put(router, LogicalRouter::OPTIONS, [("a", "1")]).unwrap();
    txn.delete(router).unwrap();
    let new = txn.insert(&LogicalSwitch::default()).unwrap();
    txn.delete(new).unwrap();
    assert_eq!(txn.len(), 1);
    let transaction = txn.finish();
    assert_eq!(names(transaction.operations()), ["delete"]);
    database.transact(transaction.operations()).unwrap();
    assert_eq!(database.snapshot().row_count(), 0);
}

#[test]
fn expected_values_are_checked_before_later_changes() {
    let (mut database, router) =
        with_router(&LogicalRouter { name: "a".into(), ..Default::default() });
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
fn guarded_changes_do_not_overwrite_changes_of_other_clients() {
    let (mut database, router) =
        with_router(&LogicalRouter { name: "a".into(), ..Default::default() });
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
    // Columns that no other client has changed may change, several times too. Changes to parts of
    // sets and maps are not guarded.
    let other = guarded(&|txn| {
        txn.set(router, LogicalRouter::ENABLED, Some(true)).unwrap();
        txn.set(router, LogicalRouter::ENABLED, Some(false)).unwrap();
        txn.put(router, LogicalRouter::OPTIONS, [("a", "1")]).unwrap();
        let new = txn.insert(&LogicalRouter::default()).unwrap();
        txn.set(new, LogicalRouter::NAME, "new".into()).unwrap();
    });
    assert_eq!(names(other.operations()), ["wait", "update", "mutate", "insert"]);
    database.transact(other.operations()).unwrap();
}

#[test]
fn expect_none_prevents_a_second_row_with_the_same_value() {
    let mut database = Database::new(nb::schema());
    let insert = |txn: &mut TxnBuilder| {
        txn.expect_none(LogicalSwitch::NAME, &"sw0".to_owned()).unwrap();
        txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() }).unwrap();
    };
    commit(&mut database, insert);
    let mut txn = TxnBuilder::new(&database.snapshot());
    insert(&mut txn);
    assert!(database.transact(txn.finish().operations()).is_err());
    assert_eq!(database.snapshot().row_count(), 1);
}

#[test]
fn an_upsert_sends_only_the_columns_that_differ() {
    let by_id = Index::by_key(LogicalRouter::EXTERNAL_IDS, "id").unique();
    let mut database = Database::new(nb::schema());
    let wanted = LogicalRouter {
        name: "lr0".into(),
        external_ids: [("id".to_owned(), "1".to_owned())].into(),
        ..Default::default()
    };
    let undeclared = TxnBuilder::new(&database.snapshot()).upsert(&by_id, &wanted, &[]);
    assert!(matches!(undeclared, Err(BuildError::Index(_))), "{undeclared:?}");

    database.add_index(&by_id);
    let mut rows = BTreeSet::new();
    let renamed = LogicalRouter { name: "lr1".into(), enabled: Some(true), ..wanted.clone() };
    for (wanted, expected, operations) in [
        (&wanted, UpsertOutcome::Inserted, 1),
        (&wanted, UpsertOutcome::Unchanged, 0),
        (&renamed, UpsertOutcome::Updated, 1),
    ] {
        let mut txn = TxnBuilder::new(&database.snapshot());
        let (row, outcome) = txn.upsert(&by_id, wanted, &["enabled"]).unwrap();
        assert_eq!((outcome, txn.len()), (expected, operations));
        database.transact(txn.finish().operations()).unwrap();
        rows.insert(row);
    }
    assert_eq!(rows.len(), 1);
    let row = database.snapshot().get(*rows.first().unwrap()).unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.enabled), ("lr1", None));
    // A row without a key is always inserted.
    let mut txn = TxnBuilder::new(&database.snapshot());
    let (_, outcome) = txn.upsert(&by_id, &LogicalRouter::default(), &[]).unwrap();
    assert_eq!(outcome, UpsertOutcome::Inserted);
}

#[test]
fn counters_are_increased_and_read_in_one_transaction() {
    let mut database = Database::new(nb::schema());
    let mut global = None;
    commit(&mut database, |txn| {
        let row = txn.insert(&NbGlobal { nb_cfg: 5, ..Default::default() }).unwrap();
        // The sum is part of the insertion of a new row.
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
        error(txn.set_row("Logical_Router", router.uuid, [("later", Datum::scalar("x"))])),
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
fn untyped_methods_change_rows_like_typed_ones() {
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
        other = Some(txn.insert_row("Address_Set", [("name", Datum::scalar("b"))]).unwrap());
    });
    commit(&mut database, |txn| {
        let more = strings(&["10.0.0.2"]).to_datum();
        txn.mutate_row("Address_Set", id, "addresses", Mutator::Insert, more).unwrap();
        txn.delete_row("Address_Set", other.unwrap()).unwrap();
    });
    let row = database.snapshot().get(Ref::<AddressSet>::new(id)).unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.addresses), ("a", strings(&["10.0.0.1", "10.0.0.2"])));
    assert_eq!(database.snapshot().row_count(), 1);
    // A second row with the same UUID is refused.
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.insert_row_as(id, "Address_Set", [("name", Datum::scalar("c"))]).unwrap();
    assert!(database.transact(txn.finish().operations()).is_err());
}

#[test]
fn a_transaction_is_split_only_where_splits_are_allowed() {
    let (database, router) = with_router(&LogicalRouter::default());
    let build = |split: bool| {
        let mut txn = TxnBuilder::new(&database.snapshot());
        for i in 0..10 {
            // A port and the reference from its router must be in one part.
            let port = LogicalRouterPort { name: format!("lrp{i}"), ..Default::default() };
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
    assert!(matches!(build(false).finish_split(1500), Err(SplitError::TooLarge { .. })));

    // An embedded database keeps the placeholders, so the parts can be executed unchanged.
    let mut database = database;
    for part in parts {
        database.transact(part.operations()).unwrap();
    }
    assert_eq!(database.snapshot().get(router).unwrap().unwrap().ports.len(), 10);
}

/// Change of an address set.
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
    numbers.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

impl Change {
    /// Applies the change to a typed row.
    fn apply(&self, row: &mut AddressSet) {
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

    /// Adds the change to a transaction.
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
    fn merged_changes_have_the_effect_of_single_changes(
        start in change(),
        changes in prop::collection::vec((any::<bool>(), change()), 0..12),
    ) {
        let mut database = Database::new(nb::schema());
        let mut old_expected = AddressSet { name: "old".into(), ..Default::default() };
        start.apply(&mut old_expected);
        let mut new_expected = AddressSet { name: "new".into(), ..Default::default() };
        let mut txn = TxnBuilder::new(&database.snapshot());
        let old = txn.insert(&old_expected).unwrap();
        database.transact(txn.finish().operations()).unwrap();

        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.guard_changes();
        let new = txn.insert(&new_expected).unwrap();
        for (is_new, change) in &changes {
            let (row, expected) = if *is_new { (new, &mut new_expected) } else { (old, &mut old_expected) };
            change.apply(expected);
            change.build(&mut txn, row).unwrap();
        }
        // One `insert`, and for the existing row at most two `wait`s, an `update` and a `mutate`.
        prop_assert!(txn.len() <= 5);
        database.transact(txn.finish().operations()).unwrap();
        let snapshot = database.snapshot();
        prop_assert_eq!(snapshot.get(old).unwrap().unwrap(), old_expected);
        prop_assert_eq!(snapshot.get(new).unwrap().unwrap(), new_expected);
    }
}
