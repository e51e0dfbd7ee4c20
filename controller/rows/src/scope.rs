//! Objects whose rows may go.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use patchbay_schemas::atom::Atom;
use smol_str::SmolStr;
use uuid::Uuid;

/// Name of an object that a row is about, with its kind, such as `Pod blue/web`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectName(SmolStr);

impl ObjectName {
    /// Name of the object of a kind.
    pub fn new(kind: &str, name: impl fmt::Display) -> Self {
        Self(smol_str::format_smolstr!("{kind} {name}"))
    }

    /// Kind and name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ObjectName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Limit of what goes, for inputs that do not name all objects.
///
/// A row that no part wants goes if the inputs name all objects that the row is about. Otherwise
/// the first object that they do not name decides: the row goes if the object is in
/// [`recorded`](Self::recorded), and stays if not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scope {
    /// Objects that the inputs name.
    pub named: Arc<BTreeSet<ObjectName>>,
    /// Objects of earlier inputs.
    pub recorded: Arc<BTreeSet<ObjectName>>,
    /// Contributed members that stay although no part contributes them.
    pub members: Arc<BTreeSet<Atom>>,
}

impl Scope {
    /// `true` if rows about an object may go.
    pub fn may_go(&self, object: &ObjectName) -> bool {
        self.named.contains(object) || self.recorded.contains(object)
    }

    /// The object because of which a row about these objects stays. `None`: the row goes.
    pub(crate) fn keeper(
        &self,
        objects: impl IntoIterator<Item = ObjectName>,
    ) -> Option<ObjectName> {
        let mut objects = objects.into_iter();
        let first = objects.find(|object| !self.named.contains(object))?;
        (!self.recorded.contains(&first)).then_some(first)
    }
}

/// Row that stays, because the inputs do not name its object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeptRow {
    /// The object.
    pub object: ObjectName,
    /// Name of the table.
    pub table: &'static str,
    /// UUID of the row.
    pub row: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_object_that_is_not_named_decides() {
        let set = |names: &[&str]| Arc::new(names.iter().map(|name| (*name).into()).collect());
        let scope = Scope {
            named: set(&["network red", "Node n1"]),
            recorded: set(&["network blue"]),
            ..Scope::default()
        };
        let keeper = |objects: &[&str]| scope.keeper(objects.iter().map(|name| (*name).into()));
        assert_eq!(keeper(&[]), None);
        assert_eq!(keeper(&["network red", "Node n1"]), None);
        assert_eq!(keeper(&["network blue", "Node n9"]), None);
        assert_eq!(keeper(&["network red", "Node n9"]), Some("Node n9".into()));
        assert_eq!(keeper(&["network green", "Node n1"]), Some("network green".into()));
    }
}
