//! Monitors of a session, by their ids.

use std::collections::HashMap;
use std::hash::RandomState;

use patchbay_schemas::json::Json;

/// Monitors of a session in all databases.
#[derive(Debug, Default)]
pub(crate) struct SessionMonitors {
    by_id: HashMap<Json, SessionMonitor, RandomState>,
    /// Sum of the monitors' bytes.
    bytes: usize,
}

/// Monitor of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionMonitor {
    /// Name of the database.
    pub(crate) database: String,
    /// Length of the longest request for the monitor, for its share of the
    /// [limit](crate::Limits::monitor_bytes).
    pub(crate) bytes: usize,
}

impl SessionMonitors {
    pub(crate) fn get(&self, id: &Json) -> Option<&SessionMonitor> {
        self.by_id.get(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Sum of the lengths of the requests for the monitors.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn insert(&mut self, id: Json, monitor: SessionMonitor) {
        self.remove(&id);
        self.bytes += monitor.bytes;
        self.by_id.insert(id, monitor);
    }

    pub(crate) fn remove(&mut self, id: &Json) -> Option<SessionMonitor> {
        let removed = self.by_id.remove(id)?;
        self.bytes -= removed.bytes;
        Some(removed)
    }
}
