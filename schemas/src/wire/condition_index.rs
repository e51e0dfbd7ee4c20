//! Indexes of long conditions, whose clauses are combined by column: a row is compared with all
//! clauses of a column at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::atom::Atom;
use crate::datum::Datum;
use crate::row::Row;
use crate::schema::ColumnId;

use super::condition::{Clause, Function};

type Hashed<T> = HashSet<T, RandomState>;

/// Index of clauses of which a row must satisfy all.
#[derive(Debug, Default)]
pub(super) struct AllClauses {
    /// `true` if two clauses contradict each other, or a clause is `false`.
    is_never: bool,
    columns: BTreeMap<ColumnId, AllOfColumn>,
}

/// Clauses of one column of which a value must satisfy all.
#[derive(Debug, Default)]
struct AllOfColumn {
    equal: Option<Datum>,
    not_equal: Hashed<Datum>,
    bounds: Bounds,
    /// Elements that a set must have.
    included: Hashed<Atom>,
    /// Pairs that a map must have.
    included_pairs: HashMap<Atom, Atom, RandomState>,
    excluded: Elements,
}

/// Index of clauses of which a row must satisfy at least one.
#[derive(Debug, Default)]
pub(super) struct AnyClauses {
    /// `true` if every row satisfies a clause.
    is_always: bool,
    columns: BTreeMap<ColumnId, AnyOfColumn>,
}

/// Clauses of one column of which a value must satisfy at least one.
#[derive(Debug, Default)]
struct AnyOfColumn {
    equal: Hashed<Datum>,
    not_equal: Option<Datum>,
    bounds: Bounds,
    /// Arguments of one element or pair for `includes`.
    included: Elements,
    /// Arguments of one element or pair for `excludes`.
    excluded: Elements,
    /// Clauses of other arguments, which are compared one by one.
    others: Vec<Clause>,
}

/// Elements of sets, or pairs of maps.
#[derive(Debug, Default)]
struct Elements {
    elements: Hashed<Atom>,
    pairs: Hashed<(Atom, Atom)>,
}

/// Arguments of the relational functions, at most one for each function.
#[derive(Debug, Default)]
struct Bounds {
    less: Option<Atom>,
    less_or_equal: Option<Atom>,
    greater_or_equal: Option<Atom>,
    greater: Option<Atom>,
}

impl AllClauses {
    pub(super) fn new(clauses: &[Clause]) -> Self {
        let mut all = Self::default();
        for clause in clauses {
            match clause {
                Clause::Bool(value) => all.is_never |= !value,
                Clause::Column { column, function, argument } => {
                    let column = all.columns.entry(*column).or_default();
                    all.is_never |= !column.add(*function, argument);
                }
            }
        }
        all
    }

    pub(super) fn matches(&self, row: &Row) -> bool {
        !self.is_never
            && self.columns.iter().all(|(column, clauses)| clauses.matches(&row.get(*column)))
    }
}

impl AllOfColumn {
    /// Adds a clause. Returns `false` if no value satisfies it and an earlier one.
    fn add(&mut self, function: Function, argument: &Datum) -> bool {
        match function {
            Function::Equal => {
                let equal = self.equal.get_or_insert_with(|| argument.clone());
                return equal == argument;
            }
            Function::NotEqual => {
                self.not_equal.insert(argument.clone());
            }
            Function::Includes => match argument {
                Datum::Set(set) => self.included.extend(set.iter().cloned()),
                Datum::Map(map) => {
                    for (key, value) in map {
                        let pairs = &mut self.included_pairs;
                        let required = pairs.entry(key.clone()).or_insert_with(|| value.clone());
                        if required != value {
                            return false;
                        }
                    }
                }
            },
            Function::Excludes => self.excluded.add(argument),
            relational => return self.bounds.tighten(relational, argument),
        }
        true
    }

    fn matches(&self, value: &Datum) -> bool {
        if self.equal.as_ref().is_some_and(|equal| equal != value)
            || !self.not_equal.is_empty() && self.not_equal.contains(value)
            || !self.bounds.contain(value)
        {
            return false;
        }
        match value {
            Datum::Set(set) => {
                self.included.len() <= set.len()
                    && self.included.iter().all(|atom| set.contains(atom))
                    && !self.excluded.meets(value)
            }
            Datum::Map(map) => {
                self.included_pairs.len() <= map.len()
                    && self
                        .included_pairs
                        .iter()
                        .all(|(key, required)| map.get(key) == Some(required))
                    && !self.excluded.meets(value)
            }
        }
    }
}

impl AnyClauses {
    /// `hides_true`: clauses that are `true` do not count.
    pub(super) fn new(clauses: &[Clause], hides_true: bool) -> Self {
        let mut any = Self::default();
        for clause in clauses {
            match clause {
                Clause::Bool(value) => any.is_always |= *value && !hides_true,
                Clause::Column { column, function, argument } => {
                    let column = any.columns.entry(*column).or_default();
                    any.is_always |= column.add(*function, argument, clause);
                }
            }
        }
        any
    }

    pub(super) fn matches(&self, row: &Row) -> bool {
        self.is_always
            || self.columns.iter().any(|(column, clauses)| clauses.matches(&row.get(*column), row))
    }
}

impl AnyOfColumn {
    /// Adds a clause. Returns `true` if every value satisfies it or an earlier one.
    fn add(&mut self, function: Function, argument: &Datum, clause: &Clause) -> bool {
        match function {
            Function::Equal => {
                self.equal.insert(argument.clone());
            }
            Function::NotEqual => {
                let not_equal = self.not_equal.get_or_insert_with(|| argument.clone());
                return not_equal != argument;
            }
            Function::Includes | Function::Excludes if argument.is_empty() => return true,
            Function::Includes if argument.len() == 1 => self.included.add(argument),
            Function::Excludes if argument.len() == 1 => self.excluded.add(argument),
            Function::Includes | Function::Excludes => self.others.push(clause.clone()),
            relational => self.bounds.loosen(relational, argument),
        }
        false
    }

    fn matches(&self, value: &Datum, row: &Row) -> bool {
        !self.equal.is_empty() && self.equal.contains(value)
            || self.not_equal.as_ref().is_some_and(|not| not != value)
            || self.bounds.meet(value)
            || self.included.meets(value)
            || self.excluded.are_not_all_in(value)
            || self.others.iter().any(|clause| clause.matches(row))
    }
}

impl Elements {
    fn add(&mut self, argument: &Datum) {
        match argument {
            Datum::Set(set) => self.elements.extend(set.iter().cloned()),
            Datum::Map(map) => {
                let pairs = map.iter().map(|(key, value)| (key.clone(), value.clone()));
                self.pairs.extend(pairs);
            }
        }
    }

    /// `true` if a value has any of the elements or pairs.
    fn meets(&self, value: &Datum) -> bool {
        match value {
            Datum::Set(set) if self.elements.len() < set.len() => {
                self.elements.iter().any(|atom| set.contains(atom))
            }
            Datum::Set(set) => has_any(&self.elements, set.iter()),
            Datum::Map(map) if self.pairs.len() < map.len() => {
                self.pairs.iter().any(|(key, expected)| map.get(key) == Some(expected))
            }
            Datum::Map(map) => {
                let pairs = map.iter().map(|(key, value)| (key.clone(), value.clone()));
                !self.pairs.is_empty() && pairs.into_iter().any(|pair| self.pairs.contains(&pair))
            }
        }
    }

    /// `true` if a value lacks any of the elements or pairs.
    fn are_not_all_in(&self, value: &Datum) -> bool {
        match value {
            Datum::Set(set) => {
                self.elements.len() > set.len()
                    || self.elements.iter().any(|atom| !set.contains(atom))
            }
            Datum::Map(map) => {
                self.pairs.len() > map.len()
                    || self.pairs.iter().any(|(key, expected)| map.get(key) != Some(expected))
            }
        }
    }
}

fn has_any<'a, T: Eq + Hash + 'a>(
    hashed: &Hashed<T>,
    mut items: impl Iterator<Item = &'a T>,
) -> bool {
    !hashed.is_empty() && items.any(|item| hashed.contains(item))
}

impl Bounds {
    /// Adds a clause that a value must satisfy beside the others. Returns `false` if the argument
    /// is not a scalar, which no value satisfies.
    fn tighten(&mut self, function: Function, argument: &Datum) -> bool {
        let is_tighter = |new: &Atom, old: &Atom| match function {
            Function::Less | Function::LessOrEqual => new < old,
            _ => new > old,
        };
        self.replace(function, argument, is_tighter)
    }

    /// Adds a clause as an alternative to the others.
    fn loosen(&mut self, function: Function, argument: &Datum) {
        let is_looser = |new: &Atom, old: &Atom| match function {
            Function::Less | Function::LessOrEqual => new > old,
            _ => new < old,
        };
        self.replace(function, argument, is_looser);
    }

    fn replace(
        &mut self,
        function: Function,
        argument: &Datum,
        replaces: impl Fn(&Atom, &Atom) -> bool,
    ) -> bool {
        let bound = match function {
            Function::Less => &mut self.less,
            Function::LessOrEqual => &mut self.less_or_equal,
            Function::GreaterOrEqual => &mut self.greater_or_equal,
            _ => &mut self.greater,
        };
        let Some(new) = argument.as_scalar() else {
            return false;
        };
        if bound.as_ref().is_none_or(|old| replaces(new, old)) {
            *bound = Some(new.clone());
        }
        true
    }

    fn is_empty(&self) -> bool {
        let Self { less, less_or_equal, greater_or_equal, greater } = self;
        [less, less_or_equal, greater_or_equal, greater].iter().all(|bound| bound.is_none())
    }

    /// Comparisons of a scalar with the bounds.
    fn comparisons<'a>(&'a self, value: &'a Atom) -> impl Iterator<Item = bool> + 'a {
        [
            self.less.as_ref().map(|bound| value < bound),
            self.less_or_equal.as_ref().map(|bound| value <= bound),
            self.greater_or_equal.as_ref().map(|bound| value >= bound),
            self.greater.as_ref().map(|bound| value > bound),
        ]
        .into_iter()
        .flatten()
    }

    /// `true` if a value satisfies all bounds.
    fn contain(&self, value: &Datum) -> bool {
        self.is_empty()
            || value.as_scalar().is_some_and(|value| self.comparisons(value).all(|holds| holds))
    }

    /// `true` if a value satisfies any bound.
    fn meet(&self, value: &Datum) -> bool {
        value.as_scalar().is_some_and(|value| self.comparisons(value).any(|holds| holds))
    }
}
