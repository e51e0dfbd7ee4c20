//! Reports of parts, and which of them the last plan changed.

use std::fmt;

use crate::capability::Capability;
use crate::parts::PartId;

/// A report that the last plan changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangedReport<P, R> {
    /// The part.
    pub part: P,
    /// Report of the plan before. `None`: there was none.
    pub former: Option<R>,
}

/// The last report of each part.
pub(crate) struct Reports<C: Capability> {
    by_part: Vec<Option<C::Report>>,
    pub(crate) changed: Vec<ChangedReport<C::Part, C::Report>>,
}

impl<C: Capability> fmt::Debug for Reports<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.by_part).finish()
    }
}

impl<C: Capability> Default for Reports<C> {
    fn default() -> Self {
        Self {
            by_part: Vec::new(),
            changed: Vec::new(),
        }
    }
}

impl<C: Capability> Reports<C> {
    pub(crate) fn get(&self, part: PartId) -> Option<&C::Report> {
        self.by_part.get(part.0 as usize)?.as_ref()
    }

    /// Replaces a report. Returns `true` if the new one differs.
    pub(crate) fn set(
        &mut self,
        (id, part): (PartId, &C::Part),
        report: Option<C::Report>,
    ) -> bool {
        let place = id.0 as usize;
        if self.get(id) == report.as_ref() {
            return false;
        }
        if self.by_part.len() <= place {
            self.by_part.resize_with(place + 1, || None);
        }
        let former = std::mem::replace(&mut self.by_part[place], report);
        self.changed.push(ChangedReport {
            part: part.clone(),
            former,
        });
        true
    }
}
