//! Reports of parts, and which of them the last plan changed.

use std::collections::BTreeSet;
use std::fmt;

use crate::capability::Capability;
use crate::parts::{PartId, Parts};

/// A report that the last plan changed.
#[derive(Debug)]
pub struct ChangedReport<'e, P, R> {
    /// The part.
    pub part: &'e P,
    /// Report of the plan before. `None`: there was none.
    pub former: Option<&'e R>,
}

/// A part with another report, and the former one.
type Changed<C> = (<C as Capability>::Part, Option<<C as Capability>::Report>);

/// The last report of each part.
pub(crate) struct Reports<C: Capability> {
    by_part: Vec<Option<C::Report>>,
    /// Parts with a report.
    reporting: BTreeSet<PartId>,
    /// Parts with other reports than before the last plan, and the former ones. `None`: the plan
    /// was the first one, and made all of them.
    changed: Option<Vec<Changed<C>>>,
}

impl<C: Capability> fmt::Debug for Reports<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.by_part).finish()
    }
}

impl<C: Capability> Default for Reports<C> {
    fn default() -> Self {
        Self { by_part: Vec::new(), reporting: BTreeSet::new(), changed: None }
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
        if report.is_some() {
            self.reporting.insert(id);
        } else {
            self.reporting.remove(&id);
        }
        if self.by_part.len() <= place {
            self.by_part.resize_with(place + 1, || None);
        }
        let former = std::mem::replace(&mut self.by_part[place], report);
        if let Some(changed) = &mut self.changed {
            changed.push((part.clone(), former));
        }
        true
    }

    /// Parts with a report.
    pub(crate) fn reporting(&self) -> impl Iterator<Item = PartId> {
        self.reporting.iter().copied()
    }

    /// Begins a plan that is not the first one.
    pub(crate) fn begin(&mut self) {
        self.changed = Some(Vec::new());
    }

    /// Reports that the last plan changed.
    pub(crate) fn changed<'e>(
        &'e self,
        parts: &'e Parts<C::Part>,
    ) -> impl Iterator<Item = ChangedReport<'e, C::Part, C::Report>> {
        let first = self
            .changed
            .is_none()
            .then(|| parts.iter())
            .into_iter()
            .flatten()
            .filter(|(_, id)| self.get(*id).is_some())
            .map(|(part, _)| ChangedReport { part, former: None });
        let later = self.changed.iter().flatten();
        first.chain(later.map(|(part, former)| ChangedReport { part, former: former.as_ref() }))
    }
}
