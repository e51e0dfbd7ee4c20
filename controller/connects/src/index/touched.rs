//! Parts, names and tables that a database change affects.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use foldhash::fast::RandomState;
use uuid::Uuid;

use super::{Owned, TableKind};
use crate::part::Part;

/// Effects of a database change on connects.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Parts, by connect, with rows that changed or that other rows refer to than before. May hold
    /// a part more than once.
    pub(crate) parts: BTreeMap<String, Vec<Part>>,
    /// Rows whose parts are in `parts`.
    pub(super) rows: HashSet<Uuid, RandomState>,
    /// Rows that other rows refer to than before.
    pub(super) moved: Vec<(TableKind, Uuid)>,
    /// New rows by connect, until they are added to the index.
    pub(super) gained: BTreeMap<String, Vec<Owned>>,
    /// Names of routers and switches that were inserted, renamed or deleted.
    pub(crate) router_and_switch_names: BTreeSet<String>,
    /// Names of changed ports. Recorded only while a link waits for a port name.
    pub(crate) ports: BTreeSet<String>,
    /// Names of networks whose load balancers changed.
    pub(crate) load_balancers: BTreeSet<String>,
    /// `true` if the shared `Copp` row changed.
    pub(crate) copp: bool,
}

impl Touched {
    pub(super) fn mark_part(&mut self, connect: &str, part: Part) {
        match self.parts.get_mut(connect) {
            Some(parts) => parts.push(part),
            None => {
                self.parts.insert(connect.to_owned(), vec![part]);
            }
        }
    }
}
