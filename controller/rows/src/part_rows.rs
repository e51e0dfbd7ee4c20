//! Rows that a part wants.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::typed::TableRow;
use smallvec::SmallVec;
use smol_str::SmolStr;
use uuid::Uuid;

use crate::reader::PartRow;
use crate::table::{Holding, Phases, Table, TablePlace};

/// Collects the rows that a part wants.
#[derive(Debug)]
pub struct PartRows<R> {
    pub(crate) wanted: Vec<WantedRow>,
    pub(crate) kept: Vec<Uuid>,
    pub(crate) keeps_rest: bool,
    /// Members of rows of any part: table and name of the row, and the member.
    pub(crate) members: Vec<(TablePlace, SmolStr, Atom)>,
    pub(crate) report: Option<R>,
}

/// A row that should be there.
#[derive(Debug)]
pub(crate) struct WantedRow {
    pub(crate) table: TablePlace,
    /// Values of the managed columns.
    pub(crate) data: Vec<Datum>,
    /// Rows of other tables that hold it, by name.
    pub(crate) held_by: SmallVec<[(Holding, SmolStr); 1]>,
    /// Rows of other tables that it holds, by name.
    pub(crate) holds: Vec<(Holding, SmolStr)>,
    /// `None`: those of the table.
    pub(crate) phases: Option<Phases>,
    /// Number of the steps that stay together.
    pub(crate) together: Option<u32>,
}

/// A wanted row that was just added.
#[derive(Debug)]
pub struct Added<'r>(&'r mut WantedRow);

impl<R> PartRows<R> {
    /// No rows, with the memory of earlier ones.
    pub(crate) fn new(wanted: Vec<WantedRow>) -> Self {
        Self { wanted, kept: Vec::new(), keeps_rest: false, members: Vec::new(), report: None }
    }

    /// Adds a row.
    pub fn put<T: TableRow>(&mut self, table: Table<T>, row: &T) -> Added<'_> {
        let place = self.wanted.len();
        self.wanted.push(WantedRow {
            table: table.place,
            data: row.to_data(),
            held_by: SmallVec::new(),
            holds: Vec::new(),
            phases: None,
            together: None,
        });
        Added(&mut self.wanted[place])
    }

    /// Adds a member to the contributed column ([`Declared::members`]) of the row of this name,
    /// whichever part wants the row. If several parts contribute a member, it stays until the last
    /// of them does not. As long as no part wants the row, nothing happens.
    ///
    /// [`Declared::members`]: crate::Declared::members
    pub fn member<T>(&mut self, table: Table<T>, row: impl Into<SmolStr>, member: Atom) {
        self.members.push((table.place, row.into(), member));
    }

    /// Leaves a row of the part as it is.
    pub fn keep(&mut self, row: PartRow<'_>) {
        self.kept.push(row.owned.uuid);
    }

    /// Leaves all rows of the part that it does not want as they are.
    pub fn keep_rest(&mut self) {
        self.keeps_rest = true;
    }

    /// Sets the part's report.
    pub fn report(&mut self, report: R) {
        self.report = Some(report);
    }
}

impl Added<'_> {
    /// The row of this name holds the added one. As long as it is missing, a row that can only be
    /// held waits for it.
    pub fn held_by(&mut self, holding: Holding, holder: impl Into<SmolStr>) -> &mut Self {
        self.0.held_by.push((holding, holder.into()));
        self
    }

    /// The added row holds the row of this name, once that is there.
    pub fn holds(&mut self, holding: Holding, held: impl Into<SmolStr>) -> &mut Self {
        self.0.holds.push((holding, held.into()));
        self
    }

    /// Sets other phases than those of the table.
    pub fn phases(&mut self, phases: Phases) -> &mut Self {
        self.0.phases = Some(phases);
        self
    }

    /// Keeps the row's steps in one transaction with those of other rows that have the same phase
    /// and number. They come after the phase's other steps.
    pub fn together(&mut self, number: u32) -> &mut Self {
        self.0.together = Some(number);
        self
    }
}
