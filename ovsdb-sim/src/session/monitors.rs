//! Monitors of a session, by their ids.

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;

use patchbay_schemas::json::Json;

use crate::budget::HeldBytes;

/// Monitors of a session in all databases.
#[derive(Debug, Default)]
pub(crate) struct SessionMonitors {
    by_id: HashMap<Arc<Json>, SessionMonitor, RandomState>,
}

/// Monitor of a session.
#[derive(Debug)]
pub(crate) struct SessionMonitor {
    /// Name of the database.
    pub(crate) database: String,
    /// Bytes of the id and of the request.
    pub(crate) _held: HeldBytes,
}

impl SessionMonitors {
    pub(crate) fn get(&self, id: &Json) -> Option<&SessionMonitor> {
        self.by_id.get(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn insert(&mut self, id: Arc<Json>, monitor: SessionMonitor) {
        self.by_id.insert(id, monitor);
    }

    pub(crate) fn remove(&mut self, id: &Json) -> Option<SessionMonitor> {
        self.by_id.remove(id)
    }
}
