//! Checks of values and mutation arguments against column types.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::ColumnType;
use patchbay_schemas::wire::Mutator;

/// `true` if a value is a default. A column that the schema lacks accepts only default values.
pub(super) fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default)
}

/// Checks that a column of this type can hold the value.
pub(super) fn check_value(datum: &Datum, ty: &ColumnType) -> Result<(), OvsdbError> {
    let has_valid_len = datum.len() >= ty.min as usize && datum.len() <= ty.max as usize;
    check_elements(datum, ty, has_valid_len)
}

/// Checks that a mutation of a column of this type can have the argument.
pub(super) fn check_argument(
    mutator: Mutator,
    datum: &Datum,
    ty: &ColumnType,
) -> Result<(), OvsdbError> {
    let arithmetic = !matches!(mutator, Mutator::Insert | Mutator::Delete);
    if arithmetic {
        let number = datum.as_scalar().map(Atom::atom_type) == Some(ty.key.atom);
        return if number && !ty.is_map() { Ok(()) } else { Err(mismatch_error(ty)) };
    }
    // A set of keys deletes pairs of a map whatever their values.
    if mutator == Mutator::Delete && ty.is_map() && datum.as_set().is_some() {
        let keys = ColumnType { value: None, ..ty.clone() };
        return check_elements(datum, &keys, true);
    }
    check_elements(datum, ty, !ty.is_scalar())
}

fn check_elements(datum: &Datum, ty: &ColumnType, has_valid_len: bool) -> Result<(), OvsdbError> {
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
    if !(typed && has_valid_len) {
        return Err(mismatch_error(ty));
    }
    ty.check(datum)
}

fn mismatch_error(ty: &ColumnType) -> OvsdbError {
    OvsdbError::constraint(format!("the column is a {}", ty.to_english()))
}
