//! Least change that leads from one value of a column to another.

use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::schema::ColumnId;
use patchbay_schemas::wire::{Mutation, Mutator};

/// Greatest number of elements or pairs of a value that is sent whole when it changes. Of a longer
/// value only the difference is sent.
const REWRITE_MAX_ELEMENTS: usize = 8;

/// Change of a column from one value to another.
pub(super) enum ColumnChange {
    Set(Datum),
    Mutate(Vec<Mutation>),
}

/// Returns the shortest change from `current` to `wanted`.
pub(super) fn column_change(column: ColumnId, current: &Datum, wanted: Datum) -> ColumnChange {
    if current.len().max(wanted.len()) <= REWRITE_MAX_ELEMENTS {
        ColumnChange::Set(wanted)
    } else {
        ColumnChange::Mutate(difference(column, current, &wanted))
    }
}

/// Mutations that lead from one value to another.
fn difference(column: ColumnId, current: &Datum, wanted: &Datum) -> Vec<Mutation> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let (mut pairs, is_map) = (Vec::new(), wanted.as_map().is_some());
    match (current, wanted) {
        (Datum::Set(current), Datum::Set(wanted)) => {
            current.diff(
                wanted,
                |atom| removed.push(atom.clone()),
                |atom| added.push(atom.clone()),
            );
        }
        (Datum::Map(current), Datum::Map(wanted)) => current.diff(wanted, |key, old, new| {
            removed.extend(old.map(|_| key.clone()));
            pairs.extend(new.map(|value| (key.clone(), value.clone())));
        }),
        _ => {}
    }
    let delete = Datum::Set(Set::from_vec(removed));
    let insert = if is_map {
        Datum::Map(pairs.into_iter().collect::<Map>())
    } else {
        Datum::Set(Set::from_vec(added))
    };
    [(Mutator::Delete, delete), (Mutator::Insert, insert)]
        .into_iter()
        .filter(|(_, argument)| !argument.is_empty())
        .map(|(mutator, argument)| Mutation { column, mutator, argument })
        .collect()
}
