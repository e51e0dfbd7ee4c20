//! Long conditions, whose index must give the same answers as their clauses one by one, and
//! mutations of many elements.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::row::{Row, Values};
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::wire::{Clause, Condition, Function};
use proptest::prelude::*;
use uuid::Uuid;

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{
    "map":{"type":{"key":"integer","value":"integer","min":0,"max":"unlimited"}},
    "number":{"type":"integer"},
    "optional":{"type":{"key":"integer","min":0,"max":1}},
    "set":{"type":{"key":"integer","min":0,"max":"unlimited"}}}}}}"#;
const COLUMNS: [&str; 4] = ["map", "number", "optional", "set"];

fn integers(values: &[i64]) -> Datum {
    Datum::Set(values.iter().map(|value| Atom::Integer(*value)).collect())
}

fn pairs(pairs: &[(i64, i64)]) -> Datum {
    let atoms = pairs.iter().map(|(key, value)| (Atom::Integer(*key), Atom::Integer(*value)));
    Datum::Map(atoms.collect())
}

/// A value of a column, by the column's position.
fn value(column: usize) -> BoxedStrategy<Datum> {
    match column {
        0 => prop::collection::vec((0..3_i64, 0..3_i64), 0..4)
            .prop_map(|values| pairs(&values))
            .boxed(),
        1 => (0..4_i64).prop_map(Datum::scalar).boxed(),
        2 => prop::collection::vec(0..4_i64, 0..2).prop_map(|values| integers(&values)).boxed(),
        _ => prop::collection::vec(0..4_i64, 0..4).prop_map(|values| integers(&values)).boxed(),
    }
}

fn clause() -> BoxedStrategy<Clause> {
    let general = [Function::Equal, Function::NotEqual, Function::Includes, Function::Excludes];
    let relational =
        [Function::Less, Function::LessOrEqual, Function::GreaterOrEqual, Function::Greater];
    let column = (0..4_usize).prop_flat_map(move |column| {
        let function = prop::sample::select(general.to_vec());
        (Just(column), function, value(column))
    });
    // Relational functions compare scalars.
    let number = (1..3_usize).prop_flat_map(move |column| {
        let function = prop::sample::select(relational.to_vec());
        (Just(column), function, value(1))
    });
    let to_clause = |(column, function, argument): (usize, Function, Datum)| Clause::Column {
        column: ColumnId(column as u16),
        function,
        argument,
    };
    prop_oneof![
        8 => column.prop_map(to_clause),
        3 => number.prop_map(to_clause),
        1 => any::<bool>().prop_map(Clause::Bool),
    ]
    .boxed()
}

/// Clauses of one function and column, of which long conditions usually consist, or of any.
fn clauses() -> BoxedStrategy<Vec<Clause>> {
    let functions = [Function::Equal, Function::NotEqual, Function::Includes, Function::Excludes];
    let alike = (0..4_usize, prop::sample::select(functions.to_vec())).prop_flat_map(
        |(column, function)| {
            let clause = value(column).prop_map(move |argument| Clause::Column {
                column: ColumnId(column as u16),
                function,
                argument,
            });
            prop::collection::vec(clause, 9..16)
        },
    );
    prop_oneof![prop::collection::vec(clause(), 0..24), alike].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_gives_the_answers_of_the_clauses(
        clauses in clauses(),
        values in (value(0), value(1), value(2), value(3)),
    ) {
        let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
        let table = &schema.tables[0];
        let columns = COLUMNS.map(|name| table.column_id(name).unwrap());
        prop_assert_eq!(columns, [0, 1, 2, 3].map(ColumnId));
        let given = [values.0, values.1, values.2, values.3];
        let row = Row {
            uuid: Uuid::nil(),
            version: Uuid::nil(),
            values: Values::new(table, columns.into_iter().zip(given)),
        };
        let condition = Condition::new(clauses.clone());
        prop_assert_eq!(condition.matches_all(&row), clauses.iter().all(|clause| clause.matches(&row)));
        // `true` counts unless a monitor looks the values of all other clauses up.
        let falses = clauses.iter().filter(|clause| **clause == Clause::Bool(false)).count();
        let is_equality = |clause: &Clause| {
            matches!(clause, Clause::Bool(_) | Clause::Column { function: Function::Equal, .. })
        };
        let ignores_true = falses > 1 && clauses.iter().all(is_equality);
        let any = clauses.iter().any(|clause| match clause {
            Clause::Bool(value) => *value && !ignores_true,
            column @ Clause::Column { .. } => column.matches(&row),
        });
        prop_assert_eq!(condition.matches_any(&row), any || clauses.is_empty());
    }

    #[test]
    fn many_elements_are_added_and_removed_like_one_by_one(
        old in prop::collection::vec((0..80_i64, 0..2_i64), 0..60),
        argument in prop::collection::vec((0..80_i64, 0..2_i64), 0..60),
    ) {
        let [Datum::Map(old), Datum::Map(argument)] = [pairs(&old), pairs(&argument)] else {
            panic!("maps")
        };
        let keys: Set = argument.iter().map(|(key, _)| key.clone()).collect();
        let (mut added, mut without_pairs, mut without_keys) = (old.clone(), old.clone(), old.clone());
        let mut expected = [added.clone(), added.clone(), added.clone()];
        added.insert_missing(&argument);
        without_pairs.remove_pairs(&argument);
        without_keys.remove_keys(&keys);
        for (key, value) in &argument {
            if old.get(key).is_none() {
                expected[0].insert(key.clone(), value.clone());
            }
            if old.get(key) == Some(value) {
                expected[1].remove(key);
            }
            expected[2].remove(key);
        }
        let is_sorted = |map: &Map| map.iter().is_sorted_by(|a, b| a.0 < b.0);
        for map in [&added, &without_pairs, &without_keys] {
            prop_assert!(is_sorted(map));
        }
        prop_assert_eq!(&[added, without_pairs, without_keys], &expected);

        let mut set: Set = old.iter().map(|(key, _)| key.clone()).collect();
        let mut rest = set.clone();
        set.remove_all(&keys);
        for key in &keys {
            rest.remove(key);
        }
        prop_assert_eq!(set, rest);
    }
}
