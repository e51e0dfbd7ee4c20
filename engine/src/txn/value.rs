//! Values that a column can hold, and the way from one to another.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{ColumnId, ColumnType};
use patchbay_schemas::wire::{Mutation, Mutator};

/// Sets and maps up to this size are rewritten when they change; of longer ones only the difference is sent.
const REWRITE_UP_TO: usize = 8;

/// How a column gets from one value to another.
pub(super) enum Step {
    Set(Datum),
    Mutate(Vec<Mutation>),
}

/// The least to send that makes `current` become `wanted`.
pub(super) fn step(column: ColumnId, current: &Datum, wanted: Datum) -> Step {
    if current.len().max(wanted.len()) <= REWRITE_UP_TO {
        Step::Set(wanted)
    } else {
        Step::Mutate(difference(column, current, &wanted))
    }
}

/// Whether a column that the schema lacks can be said to hold this.
pub(super) fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default)
}

/// Whether a column of this type can hold the value.
pub(super) fn check(datum: &Datum, ty: &ColumnType) -> Result<(), OvsdbError> {
    let within = datum.len() >= ty.min as usize && datum.len() <= ty.max as usize;
    check_elements(datum, ty, within)
}

/// Whether a mutation of a column of this type can have this argument.
pub(super) fn check_argument(
    mutator: Mutator,
    datum: &Datum,
    ty: &ColumnType,
) -> Result<(), OvsdbError> {
    let arithmetic = !matches!(mutator, Mutator::Insert | Mutator::Delete);
    if arithmetic {
        let number = datum.as_scalar().map(Atom::atom_type) == Some(ty.key.atom);
        return if number && !ty.is_map() {
            Ok(())
        } else {
            Err(mismatch(ty))
        };
    }
    // Keys of a map can be deleted whatever their values.
    if mutator == Mutator::Delete && ty.is_map() && datum.as_set().is_some() {
        let keys = ColumnType {
            value: None,
            ..ty.clone()
        };
        return check_elements(datum, &keys, true);
    }
    check_elements(datum, ty, !ty.is_scalar())
}

fn check_elements(datum: &Datum, ty: &ColumnType, within: bool) -> Result<(), OvsdbError> {
    let typed = match (datum, &ty.value) {
        (Datum::Set(set), None) => match set.as_one() {
            Some(atom) => atom.atom_type() == ty.key.atom,
            None => set.iter().all(|atom| atom.atom_type() == ty.key.atom),
        },
        (Datum::Map(map), Some(value)) => map
            .iter()
            .all(|(key, have)| key.atom_type() == ty.key.atom && have.atom_type() == value.atom),
        _ => false,
    };
    if !(typed && within) {
        return Err(mismatch(ty));
    }
    ty.check(datum)
}

fn mismatch(ty: &ColumnType) -> OvsdbError {
    OvsdbError::constraint(format!("the column is a {}", ty.to_english()))
}

/// The mutations that lead from one value to another.
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
        .map(|(mutator, argument)| Mutation {
            column,
            mutator,
            argument,
        })
        .collect()
}
