//! Declared indexes find the same rows as a walk over the table, after any sequence of changes.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Index, IndexError, IndexKey, IndexSpec, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, AddressSet};
use patchbay_schemas::typed::{Column, Ref};
use proptest::prelude::*;
use uuid::Uuid;

const ID: &str = "k8s.ovn.org/id";

fn indexes() -> [IndexSpec; 5] {
    [
        Index::by(AddressSet::NAME).unique().into(),
        Index::by(AddressSet::EXTERNAL_IDS).into(),
        Index::by_key(AddressSet::EXTERNAL_IDS, ID).and(AddressSet::ADDRESSES).into(),
        Index::by_element(AddressSet::ADDRESSES).into(),
        Index::by_element(AddressSet::ADDRESSES).and_key(AddressSet::EXTERNAL_IDS, ID).into(),
    ]
}

/// Keys of a row in each of [`indexes`].
fn keys(row: &AddressSet) -> [Vec<IndexKey>; 5] {
    let id = row.external_ids.get(ID).map(|id| Datum::scalar(id.as_str()));
    let elements = || row.addresses.iter().map(|ip| Datum::scalar(ip.as_str()));
    let with_id = |ip| Some(IndexKey::from([ip, id.clone()?]));
    [
        vec![row.name.as_str().into()],
        vec![row.external_ids.to_datum().into()],
        id.clone().map(|id| [id, row.addresses.to_datum()].into()).into_iter().collect(),
        elements().map(IndexKey::from).collect(),
        elements().filter_map(with_id).collect(),
    ]
}

/// Keys and rows that the indexes of a snapshot must contain, found by a walk.
fn expected_entries(snapshot: &Snapshot) -> [BTreeMap<String, (IndexKey, BTreeSet<Uuid>)>; 5] {
    let mut expected: [BTreeMap<_, (IndexKey, BTreeSet<Uuid>)>; 5] = Default::default();
    for row in snapshot.typed::<AddressSet>().iter() {
        let (reference, row) = row.unwrap();
        for (found, keys) in expected.iter_mut().zip(keys(&row)) {
            for key in keys {
                let entry = found.entry(key.to_string());
                let (_, rows) = entry.or_insert_with(|| (key, BTreeSet::new()));
                rows.insert(reference.uuid);
            }
        }
    }
    expected
}

/// Checks the indexes of a snapshot.
fn check_indexes(snapshot: &Snapshot) {
    for (spec, expected) in indexes().iter().zip(expected_entries(snapshot)) {
        let index = snapshot.index(spec).unwrap();
        assert_eq!(index.key_count(), expected.len(), "{spec}");
        let shared = expected.values().filter(|(_, rows)| rows.len() > 1).count();
        assert_eq!(index.shared_key_count(), shared, "{spec}");
        for (key, rows) in expected.into_values() {
            let found: BTreeSet<Uuid> = index.all(key.clone()).map(|row| row.uuid).collect();
            assert_eq!(found, rows, "{spec}: {key}");
            assert_eq!(index.count(key.clone()), rows.len());
            match index.one(key) {
                Ok(row) => assert_eq!(Vec::from_iter(rows), [row.unwrap().uuid]),
                Err(error) => assert!(
                    rows.len() > 1 && matches!(error, IndexError::NotUnique { .. }),
                    "{error}"
                ),
            }
        }
    }
}

/// Change of one of four rows.
#[derive(Clone, Debug)]
struct Step {
    row: usize,
    /// `None`: the row is deleted.
    wanted: Option<AddressSet>,
}

fn row() -> impl Strategy<Value = AddressSet> {
    let id = prop::option::of(prop::sample::select(vec!["x", "y"]));
    // Some sets are long enough to be trees, whose differences are computed in another way.
    let addresses = prop_oneof![
        prop::collection::btree_set(0..6_u8, 0..4),
        prop::collection::btree_set(0..80_u8, 30..60)
    ];
    (any::<bool>(), id, addresses).prop_map(|(name, id, addresses)| AddressSet {
        name: name.to_string(),
        external_ids: id.map(|id| (ID.to_owned(), id.to_owned())).into_iter().collect(),
        addresses: addresses.into_iter().map(|last| format!("10.0.0.{last}")).collect(),
        ..Default::default()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..4_usize, prop::option::weighted(0.8, row()));
    prop::collection::vec(step.prop_map(|(row, wanted)| Step { row, wanted }), 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn indexes_find_the_rows_that_a_walk_finds(steps in steps(), declared_at in 0..10_usize) {
        let mut database = Database::new(nb::schema());
        let mut rows: [Option<(Ref<AddressSet>, AddressSet)>; 4] = Default::default();
        let mut earlier = Vec::new();
        for (i, Step { row, wanted }) in steps.into_iter().enumerate() {
            if i == declared_at {
                for index in indexes() {
                    database.add_index(index);
                }
            }
            // The schema requires unique names.
            let wanted = wanted.map(|wanted| AddressSet { name: format!("{row}{}", wanted.name), ..wanted });
            let mut txn = TxnBuilder::new(&database.snapshot());
            rows[row] = match (rows[row].take(), wanted) {
                (None, None) => None,
                (Some((reference, _)), None) => {
                    txn.delete(reference).unwrap();
                    None
                }
                (None, Some(wanted)) => Some((txn.insert(&wanted).unwrap(), wanted)),
                (Some((reference, current)), Some(wanted)) => {
                    txn.update(reference, &current, &wanted).unwrap();
                    Some((reference, wanted))
                }
            };
            database.transact(txn.finish().operations()).unwrap();
            if i >= declared_at {
                check_indexes(&database.snapshot());
                earlier.push(database.snapshot());
            }
        }
        // Later changes must not appear in earlier snapshots and their indexes.
        for snapshot in &earlier {
            check_indexes(snapshot);
        }
    }
}

/// A database with two address sets.
fn sample() -> Database {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    for name in ["a", "b"] {
        let row = AddressSet {
            name: name.into(),
            external_ids: [(ID.to_owned(), name.to_owned())].into(),
            ..Default::default()
        };
        txn.insert(&row).unwrap();
    }
    database.transact(txn.finish().operations()).unwrap();
    database
}

#[test]
fn an_index_can_be_added_to_a_snapshot_alone() {
    let database = sample();
    let by_id = Index::by_key(AddressSet::EXTERNAL_IDS, ID);
    let without = database.snapshot();
    let error = without.typed_index(&by_id).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no index of Address_Set by external_ids:{ID} was declared")
    );
    let with = without.with_index(&by_id);
    let (_, row) = with.typed_index(&by_id).unwrap().one("b").unwrap().unwrap();
    assert_eq!(row.name, "b");
}

#[test]
fn an_index_over_a_column_that_the_schema_lacks_is_empty() {
    let mut database = sample();
    for spec in [IndexSpec::new("Address_Set", ["later"]), IndexSpec::new("Later", ["name"])] {
        database.add_index(spec.clone());
        let snapshot = database.snapshot();
        let index = snapshot.index(&spec).unwrap();
        assert!(index.one("a").unwrap().is_none());
        assert_eq!((index.key_count(), index.count("a")), (0, 0));
    }
}

#[test]
fn a_conversion_to_another_schema_keeps_declared_indexes() {
    let mut database = sample();
    let by_name = Index::by(AddressSet::NAME);
    database.add_index(&by_name);
    database.convert(nb::schema()).unwrap();
    let snapshot = database.snapshot();
    assert_eq!(snapshot.index(by_name.spec()).unwrap().count("a"), 1);
}
