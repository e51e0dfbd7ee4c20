//! Comparison of a wanted row with an existing one, column by column.

use std::borrow::Cow;

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;

use crate::resolved::ResolvedTable;

/// Rule for the value of a column in an existing row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    /// The value stays: members of the column are managed one by one.
    Leave,
    /// The wanted value, and nothing else.
    Replace,
    /// The wanted value, if there is one; a map may hold more, but none of these keys.
    Extend(&'static [&'static str]),
}

impl ResolvedTable {
    /// Returns `true` if an existing row is not as wanted.
    pub(crate) fn differs(&self, existing: &Row, wanted: &[Datum]) -> bool {
        self.differences(existing, wanted).next().is_some()
    }

    /// Columns of an existing row that are not as wanted: name, present value, wanted value.
    pub(crate) fn differences<'d>(
        &'d self,
        existing: &'d Row,
        wanted: &'d [Datum],
    ) -> impl Iterator<Item = (&'static str, Datum, Datum)> + use<'d> {
        let columns = self.columns.iter().zip(wanted);
        columns.filter_map(|((name, column, rule), wanted)| {
            let Some(have) = column.and_then(|column| existing.values.get(column)) else {
                // The builder of the transaction refuses what a missing column should hold.
                let is_missing = *rule != Rule::Leave && !is_default(wanted);
                return is_missing.then(|| (*name, default_like(wanted), wanted.clone()));
            };
            let merged = merge(*rule, have, wanted)?;
            (*merged != *have).then(|| (*name, have.clone(), merged.into_owned()))
        })
    }

    /// Returns `true` if two versions of a row differ in a column that parts may have read.
    pub(crate) fn changed(&self, old: &Row, new: &Row) -> bool {
        let columns = self.columns.iter();
        let managed = columns.filter(|(_, _, rule)| *rule != Rule::Leave);
        let mut ids =
            managed.filter_map(|(_, id, _)| *id).chain(self.external_ids).chain(self.name_column);
        ids.any(|id| {
            let (old, new) = (old.values.get(id), new.values.get(id));
            match (old, new) {
                (Some(old), Some(new)) => !old.shares_with(new) && old != new,
                _ => old.is_some() != new.is_some(),
            }
        })
    }
}

/// Value that a column is to have. `None`: the value that it has.
fn merge<'d>(rule: Rule, have: &'d Datum, wanted: &'d Datum) -> Option<Cow<'d, Datum>> {
    match (rule, have, wanted) {
        (Rule::Leave, ..) => None,
        // Most rows are as wanted.
        (Rule::Extend(_), Datum::Map(have), Datum::Map(wanted)) if have == wanted => None,
        (Rule::Extend([]), ..) if is_default(wanted) => None,
        (Rule::Extend(own_keys), Datum::Map(have), Datum::Map(wanted)) => {
            let mut merged = have.clone();
            for key in own_keys {
                merged.remove(&Atom::from(*key));
            }
            for (key, value) in wanted {
                merged.insert(key.clone(), value.clone());
            }
            Some(Cow::Owned(Datum::Map(merged)))
        }
        (Rule::Extend(_), ..) if is_default(wanted) => None,
        (Rule::Replace | Rule::Extend(_), ..) => Some(Cow::Borrowed(wanted)),
    }
}

/// Returns `true` for a value that a column which the schema lacks can be considered to hold.
fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default)
}

fn default_like(datum: &Datum) -> Datum {
    match datum {
        Datum::Set(_) => Datum::EMPTY_SET,
        Datum::Map(_) => Datum::EMPTY_MAP,
    }
}
