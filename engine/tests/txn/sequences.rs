//! Sequences of changes in one transaction: each applies to the row as the changes before it leave
//! it.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Index};
use patchbay_engine::txn::{BuildError, TxnBuilder, UpsertOutcome};
use patchbay_schemas::nb::{self, AddressSet, LogicalRouter, NbGlobal};
use patchbay_schemas::typed::Ref;
use patchbay_schemas::uuids::UuidSource;
use proptest::prelude::*;

use super::{Change, change, commit, texts, with_router};

fn options(keys: &[&str]) -> BTreeMap<String, String> {
    let pair = |key: &&str| ((*key).to_owned(), "1".to_owned());
    keys.iter().map(pair).collect()
}

/// Sets an option of a router with [`TxnBuilder::modify`].
fn set_option(txn: &mut TxnBuilder, router: Ref<LogicalRouter>, key: &str) {
    let changed = txn.modify(router, |router| {
        router.options.insert(key.to_owned(), "1".to_owned());
    });
    assert!(changed.unwrap());
}

#[test]
fn modify_sees_the_changes_before_it() {
    type RouterStep = fn(&mut TxnBuilder, Ref<LogicalRouter>);
    let between: [RouterStep; 7] = [
        |_, _| {},
        |txn, router| txn.verify(router, LogicalRouter::NAME).unwrap(),
        |txn, router| txn.verify(router, LogicalRouter::OPTIONS).unwrap(),
        |txn, _| {
            let name = "another".to_owned();
            txn.expect_none(LogicalRouter::NAME, &name).unwrap();
        },
        |txn, _| txn.allow_split(),
        |txn, router| txn.read(router).unwrap(),
        |txn, router| {
            txn.allow_split();
            txn.verify(router, LogicalRouter::OPTIONS).unwrap();
            txn.allow_split();
        },
    ];
    let first: [RouterStep; 3] = [
        |txn, router| set_option(txn, router, "a"),
        |txn, router| {
            let a = [("a", "1")];
            txn.put(router, LogicalRouter::OPTIONS, a).unwrap();
        },
        |txn, router| {
            let a = options(&["a"]);
            txn.set(router, LogicalRouter::OPTIONS, a).unwrap();
        },
    ];
    for (i, between) in between.iter().enumerate() {
        for (j, first) in first.iter().enumerate() {
            for guarded in [false, true] {
                let (mut database, router) = with_router(&LogicalRouter::default());
                commit(&mut database, |txn| {
                    if guarded {
                        txn.guard_changes();
                    }
                    first(txn, router);
                    between(txn, router);
                    set_option(txn, router, "b");
                    between(txn, router);
                    set_option(txn, router, "c");
                });
                let row = database.snapshot().get(router).unwrap().unwrap();
                let all = options(&["a", "b", "c"]);
                assert_eq!(row.options, all, "{i} after {j}, guarded: {guarded}");
            }
        }
    }
}

#[test]
fn a_new_row_can_be_modified_after_a_read() {
    let mut database = Database::new(nb::schema());
    commit(&mut database, |txn| {
        let router = txn.insert(&LogicalRouter::default()).unwrap();
        set_option(txn, router, "a");
        let name = "another".to_owned();
        txn.expect_none(LogicalRouter::NAME, &name).unwrap();
        set_option(txn, router, "b");
        txn.allow_split();
        set_option(txn, router, "c");
    });
    let snapshot = database.snapshot();
    let routers: Vec<_> = snapshot.typed::<LogicalRouter>().iter().collect();
    let (_, router) = routers[0].as_ref().unwrap();
    assert_eq!(router.options, options(&["a", "b", "c"]));
}

#[test]
fn a_change_and_its_reversal_leave_the_row_unchanged() {
    let keys: Vec<String> = (0..12).map(|i| i.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let long = LogicalRouter { options: options(&keys), ..Default::default() };
    let (mut database, router) = with_router(&long);
    commit(&mut database, |txn| {
        for value in ["2", "1"] {
            let changed = txn.modify(router, |router| {
                router.options.insert("5".to_owned(), value.to_owned());
            });
            assert!(changed.unwrap());
        }
    });
    assert_eq!(database.snapshot().get(router).unwrap().unwrap(), long);
}

#[test]
fn a_deleted_row_cannot_be_modified_or_verified() {
    let (database, router) = with_router(&LogicalRouter::default());
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.delete(router).unwrap();
    let modified = txn.modify(router, |_| {});
    assert!(matches!(modified, Err(BuildError::NoRow { .. })));
    let verified = txn.verify(router, LogicalRouter::NAME);
    assert!(matches!(verified, Err(BuildError::NoRow { .. })));
}

#[test]
fn modifying_a_row_after_a_mutation_that_overflows_fails() {
    let mut database = Database::new(nb::schema());
    let mut global = None;
    commit(&mut database, |txn| {
        let row = NbGlobal { nb_cfg: i64::MAX, ..Default::default() };
        global = Some(txn.insert(&row).unwrap());
    });
    let mut txn = TxnBuilder::new(&database.snapshot());
    // Other clients may have decreased the counter, so the increase alone is no error.
    txn.increase(global.unwrap(), NbGlobal::NB_CFG, 1).unwrap();
    for _ in 0..2 {
        let modified = txn.modify(global.unwrap(), |global| global.name = "x".to_owned());
        assert!(matches!(modified, Err(BuildError::Value { .. })), "{modified:?}");
        txn.allow_split();
    }
}

#[test]
fn a_guard_expects_the_value_before_the_transaction() {
    let (mut database, router) = with_router(&LogicalRouter::default());
    let seen = database.snapshot();
    let parts = || {
        let mut txn = TxnBuilder::new(&seen);
        txn.guard_changes();
        let a = [("a", "1")];
        txn.put(router, LogicalRouter::OPTIONS, a).unwrap();
        txn.allow_split();
        let c = options(&["c"]);
        txn.set(router, LogicalRouter::OPTIONS, c).unwrap();
        txn.finish()
    };
    database.transact(parts().operations()).unwrap();
    let row = database.snapshot().get(router).unwrap().unwrap();
    assert_eq!(row.options, options(&["c"]));
    // The second execution would overwrite the change of the first one.
    assert!(database.transact(parts().operations()).is_err());
}

#[test]
fn an_upsert_finds_rows_that_the_transaction_inserts() {
    let by_name = Index::by(AddressSet::NAME).unique();
    let mut database = Database::new(nb::schema());
    database.add_index(&by_name);
    let set = |addresses: &[u8]| AddressSet {
        name: "as0".to_owned(),
        addresses: texts(&addresses.iter().copied().collect()),
        ..Default::default()
    };
    for expected in [UpsertOutcome::Inserted, UpsertOutcome::Updated] {
        let mut txn = TxnBuilder::new(&database.snapshot());
        let (first, outcome) = txn.upsert(&by_name, &set(&[1]), &[]).unwrap();
        assert_eq!(outcome, expected);
        let (again, outcome) = txn.upsert(&by_name, &set(&[1]), &[]).unwrap();
        assert_eq!((again, outcome), (first, UpsertOutcome::Unchanged));
        txn.allow_split();
        let (again, outcome) = txn.upsert(&by_name, &set(&[1, 2]), &[]).unwrap();
        assert_eq!((again, outcome), (first, UpsertOutcome::Updated));
        database.transact(txn.finish().operations()).unwrap();
        let row = database.snapshot().get(first).unwrap().unwrap();
        assert_eq!(row, set(&[1, 2]));
    }
    // After a deletion, an upsert inserts a new row.
    commit(&mut database, |txn| {
        let (first, _) = txn.upsert(&by_name, &set(&[]), &[]).unwrap();
        txn.delete(first).unwrap();
        let (another, outcome) = txn.upsert(&by_name, &set(&[3]), &[]).unwrap();
        assert_eq!(outcome, UpsertOutcome::Inserted);
        assert_ne!(first, another);
    });
}

/// Step of a sequence on a few rows. Rows are numbered modulo their count.
#[derive(Clone, Debug)]
enum Step {
    Insert(Change),
    /// Collects an operation.
    Change(usize, Change),
    /// Modifies a copy.
    Modify(usize, Change),
    Upsert(usize, Change, bool),
    Delete(usize),
    Increase(i8),
    /// Doubles the counter in a copy.
    Double,
    SetCounter(i8),
    Verify(usize, bool),
    ExpectNone,
    AllowSplit,
    GuardChanges,
}

fn step() -> impl Strategy<Value = Step> {
    let row = || 0..4_usize;
    prop_oneof![
        2 => change().prop_map(Step::Insert),
        5 => (row(), change()).prop_map(|(row, change)| Step::Change(row, change)),
        6 => (row(), change()).prop_map(|(row, change)| Step::Modify(row, change)),
        3 => (row(), change(), any::<bool>())
            .prop_map(|(row, change, keep)| Step::Upsert(row, change, keep)),
        1 => row().prop_map(Step::Delete),
        1 => any::<i8>().prop_map(Step::Increase),
        1 => Just(Step::Double),
        1 => any::<i8>().prop_map(Step::SetCounter),
        2 => (row(), any::<bool>()).prop_map(|(row, addresses)| Step::Verify(row, addresses)),
        1 => Just(Step::ExpectNone),
        2 => Just(Step::AllowSplit),
        1 => Just(Step::GuardChanges),
    ]
}

/// Rows that steps change.
#[derive(Clone)]
struct Rows {
    index: Index<AddressSet>,
    global: Ref<NbGlobal>,
    sets: Vec<Ref<AddressSet>>,
}

impl Rows {
    /// Adds a step to a transaction.
    fn build(&mut self, step: &Step, txn: &mut TxnBuilder) -> Result<(), BuildError> {
        let set = |place: &usize| self.sets[*place % self.sets.len()];
        match step {
            Step::Insert(start) => {
                let mut row =
                    AddressSet { name: format!("as{}", self.sets.len()), ..Default::default() };
                start.apply(&mut row);
                self.sets.push(txn.insert(&row)?);
                Ok(())
            }
            Step::Change(row, change) => change.build(txn, set(row)),
            Step::Modify(row, change) => txn.modify(set(row), |row| change.apply(row)).map(drop),
            Step::Upsert(row, change, keep) => {
                let mut wanted = AddressSet { name: format!("as{row}"), ..Default::default() };
                change.apply(&mut wanted);
                let keep: &[&str] = if *keep { &["external_ids"] } else { &[] };
                txn.upsert(&self.index, &wanted, keep).map(drop)
            }
            Step::Delete(row) => txn.delete(set(row)),
            Step::Increase(by) => txn.increase(self.global, NbGlobal::NB_CFG, i64::from(*by)),
            Step::Double => txn.modify(self.global, |global| global.nb_cfg *= 2).map(drop),
            Step::SetCounter(to) => txn.set(self.global, NbGlobal::NB_CFG, i64::from(*to)),
            Step::Verify(row, true) => txn.verify(set(row), AddressSet::ADDRESSES),
            Step::Verify(row, false) => txn.verify(set(row), AddressSet::NAME),
            Step::ExpectNone => txn.expect_none(AddressSet::NAME, &"another".to_owned()),
            Step::AllowSplit => {
                txn.allow_split();
                Ok(())
            }
            Step::GuardChanges => {
                txn.guard_changes();
                Ok(())
            }
        }
    }
}

/// A database with a counter and two address sets, which `change` has changed.
fn start(change: &Change) -> (Database, Rows) {
    let index = Index::by(AddressSet::NAME).unique();
    let mut database = Database::new(nb::schema());
    database.add_index(&index);
    let mut txn = TxnBuilder::with_uuids(&database.snapshot(), UuidSource::seeded(1));
    let global = txn.insert(&NbGlobal::default()).unwrap();
    let mut sets = Vec::new();
    for i in 0..2 {
        let mut row = AddressSet { name: format!("as{i}"), ..Default::default() };
        change.apply(&mut row);
        sets.push(txn.insert(&row).unwrap());
    }
    database.transact(txn.finish().operations()).unwrap();
    let rows = Rows { index, global, sets };
    (database, rows)
}

/// Address sets by name, and the counter.
fn contents(database: &Database, rows: &Rows) -> (BTreeMap<String, AddressSet>, i64) {
    let snapshot = database.snapshot();
    let sets = snapshot.typed::<AddressSet>();
    let by_name = |row: Result<(_, AddressSet), _>| row.map(|(_, row)| (row.name.clone(), row));
    let sets: Result<_, _> = sets.iter().map(by_name).collect();
    let global = snapshot.get(rows.global).unwrap().unwrap();
    (sets.unwrap(), global.nb_cfg)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn steps_have_the_same_effect_in_one_transaction_and_in_one_each(
        before in change(),
        steps in prop::collection::vec(step(), 0..16),
    ) {
        let (mut each, mut rows) = start(&before);
        // Steps that cannot be built, or whose transaction fails, when each has its own
        // transaction.
        let mut refused = BTreeSet::new();
        for (i, step) in steps.iter().enumerate() {
            let mut txn = TxnBuilder::new(&each.snapshot());
            let had = rows.sets.len();
            let built = rows.build(step, &mut txn).is_ok();
            if !(built && each.transact(txn.finish().operations()).is_ok()) {
                rows.sets.truncate(had);
                refused.insert(i);
            }
        }
        let wanted = contents(&each, &rows);

        let build = || {
            let (database, mut rows) = start(&before);
            let mut txn = TxnBuilder::new(&database.snapshot());
            for (i, step) in steps.iter().enumerate() {
                let verifies = matches!(step, Step::Verify(..));
                // A row that the snapshot does not contain cannot be verified.
                if verifies || !refused.contains(&i) {
                    let built = rows.build(step, &mut txn);
                    assert!(built.is_ok() || verifies, "{step:?}: {built:?}");
                } else if matches!(step, Step::Modify(..)) {
                    assert!(rows.build(step, &mut txn).is_err(), "{step:?}");
                }
            }
            (database, rows, txn)
        };
        let (mut one, rows, txn) = build();
        one.transact(txn.finish().operations()).unwrap();
        prop_assert_eq!(contents(&one, &rows), wanted.clone());

        let (mut parts, rows, txn) = build();
        if let Ok(split) = txn.finish_split(2000) {
            for part in split {
                parts.transact(part.operations()).unwrap();
            }
            prop_assert_eq!(contents(&parts, &rows), wanted);
        }
    }
}
