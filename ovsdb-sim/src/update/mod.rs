//! Updates: the text of the changes that a monitor reports.
//!
//! A monitor is described by its [`MonitorSpec`]. From that and the changes of a commit, [`encode`]
//! makes `<table-updates>` or `<table-updates2>`, and [`initial`] makes the content of the first
//! reply. Nothing here knows clients or sessions.

mod encode;
mod initial;
mod net_changes;
mod text;

use patchbay_engine::db::RowChange;
use patchbay_schemas::wire::{MonitorRequests, MonitorTable, MonitorVersion, RowEvent};

pub(crate) use encode::{encode_changes, encode_condition_change};
pub(crate) use initial::encode_initial;
pub(crate) use net_changes::NetChanges;
pub(crate) use text::UpdateText;

/// Request of a monitor: tables, columns, kinds of changes and conditions, in one version of the
/// protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MonitorSpec {
    pub(crate) version: MonitorVersion,
    pub(crate) requests: MonitorRequests,
}

impl MonitorSpec {
    /// Returns the event that a monitor reports for a change of a row, and the request for the
    /// row's table. `None`: the monitor does not report the change.
    pub(crate) fn event<'a>(&self, change: &'a RowChange) -> Option<(&MonitorTable, RowEvent<'a>)> {
        let request = self.requests.tables.get(&change.table)?;
        let event = request.event(change.old.as_deref(), change.new.as_deref())?;
        Some((request, event))
    }
}
