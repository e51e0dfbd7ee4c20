//! Changes to be made, in pieces between which a transaction may be cut.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::wire::Mutator;
use smallvec::SmallVec;
use uuid::Uuid;

use crate::index::RowKey;
use crate::parts::PartId;
use crate::table::{Holding, Phase, TablePlace};

/// One step of a plan.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) phase: Phase,
    /// Steps of one phase and number stay together.
    pub(crate) together: Option<u32>,
    /// The part that is not as it should be.
    pub(crate) part: PartId,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    /// In a box, because steps are moved several times.
    Insert(Box<NewRow>),
    Update {
        table: TablePlace,
        row: Uuid,
        /// Name, present value and wanted value of each column that differs.
        columns: Vec<(&'static str, Datum, Datum)>,
    },
    /// A row gains a reference to another.
    Attach(Membership),
    /// A row loses a reference to another.
    Detach {
        holding: Holding,
        holder: Uuid,
        held: Uuid,
        /// `true` if the held row should go. A row that nothing holds goes by itself.
        goes: bool,
    },
    Delete {
        table: TablePlace,
        row: Uuid,
    },
    /// A column of contributed members gains or loses some.
    Mutate {
        table: TablePlace,
        row: Uuid,
        mutator: Mutator,
        members: Vec<Atom>,
    },
}

/// A row that should come.
#[derive(Debug)]
pub(crate) struct NewRow {
    pub(crate) table: TablePlace,
    /// Its name to other new rows; `None` for rows that nothing can refer to.
    pub(crate) key: Option<RowKey>,
    pub(crate) data: Vec<Datum>,
    pub(crate) held_by: SmallVec<[(Holding, Target); 1]>,
    pub(crate) holds: Vec<(Holding, Target)>,
}

/// One row holds another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub(crate) holding: Holding,
    pub(crate) holder: Target,
    pub(crate) held: Target,
}

/// A row that a step refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    There(Uuid),
    /// A new row, if the plan has one of this identity.
    New(RowKey),
}

impl Step {
    pub(crate) fn is_insert(&self) -> bool {
        matches!(self.action, Action::Insert(_))
    }

    /// Identities of new rows that the step refers to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = RowKey> {
        let (rows, membership) = match &self.action {
            Action::Insert(row) => (Some(&**row), None),
            Action::Attach(membership) => (None, Some(membership)),
            Action::Update { .. }
            | Action::Detach { .. }
            | Action::Delete { .. }
            | Action::Mutate { .. } => (None, None),
        };
        let of_rows = rows
            .into_iter()
            .flat_map(|row| row.held_by.iter().chain(&row.holds))
            .map(|(_, target)| *target);
        let of_membership = membership.into_iter().flat_map(|held| [held.holder, held.held]);
        of_rows.chain(of_membership).filter_map(Target::key)
    }
}

impl Target {
    /// `true` if the target is this row of the database.
    pub(crate) fn is(self, row: Uuid) -> bool {
        matches!(self, Self::There(uuid) if uuid == row)
    }

    fn key(self) -> Option<RowKey> {
        match self {
            Self::There(_) => None,
            Self::New(key) => Some(key),
        }
    }
}
