//! Text of an explanation.

use std::fmt::{self, Display, Formatter};

use super::{ObjectExplanation, ObjectRow, ObjectState, RowState};
use crate::line::line;

/// Maximum number of rows in the text. The others are counted.
const MAX_ROWS: usize = 40;

impl Display for ObjectExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            ObjectState::Ready => "ready",
            ObjectState::Partly => "ready in parts",
            ObjectState::NotReady => "NOT ready",
        };
        line!(f, "{}: {state}", self.object)?;
        for fact in &self.facts {
            line!(f, "  {fact}")?;
        }
        for condition in &self.conditions {
            line!(f, "  condition {condition}")?;
        }
        for reason in &self.reasons {
            line!(f, "  not in effect: {reason}")?;
        }
        for notice in &self.notices {
            line!(f, "  note: {notice}")?;
        }
        // Rows that are not as wanted come first, because the list is cut.
        let (present, others): (Vec<&ObjectRow>, Vec<&ObjectRow>) =
            self.rows.iter().partition(|row| row.state == RowState::Present);
        for row in others.iter().chain(&present).take(MAX_ROWS) {
            line!(f, "  row {row}")?;
        }
        match self.rows.len().saturating_sub(MAX_ROWS) {
            0 => Ok(()),
            more => line!(f, "  {more} more rows"),
        }
    }
}

impl Display for ObjectRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.row)?;
        if let Some(zone) = &self.zone {
            write!(f, " of zone {zone}")?;
        }
        match &self.state {
            RowState::Present => Ok(()),
            RowState::Missing => f.write_str(" is missing: `apply` would insert it"),
            RowState::Different(columns) => {
                write!(f, " is different ({}): `apply` would change it", columns.join(", "))
            }
            RowState::LeftOver => f.write_str(" is left over: `apply` would delete it"),
        }
    }
}
