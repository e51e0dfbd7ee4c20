//! `monitor`, `monitor_cond`, `monitor_cond_since` and `monitor_cancel` (RFC 7047 §4.1.5 and 4.1.7,
//! ovsdb-server(7) §4.1.12 and 4.1.15).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};
use uuid::Uuid;

use super::{MethodError, MethodResult, Request, array_len, empty_object};
use crate::budget::HeldBytes;
use crate::held_size::{ENTRY_BYTES, json_bytes, monitor_bytes};
use crate::limits::resources_exhausted;
use crate::reply;
use crate::served_database::{DatabaseState, ServedDatabase};
use crate::session::handle::SessionHandle;
use crate::session::monitors::SessionMonitor;
use crate::update::MonitorSpec;

impl Request<'_> {
    pub(super) async fn monitor(
        &self,
        version: MonitorVersion,
    ) -> Result<MethodResult, MethodError> {
        let (database, _) = self.database()?;
        let is_long = |state: &DatabaseState| self.is_long() || state.is_large();
        let begin = || self.monitor_in_turn(version);
        database.in_turn(is_long, begin).await
    }

    fn monitor_in_turn(&self, version: MonitorVersion) -> Result<MethodResult, MethodError> {
        let (database, mut params) = self.database()?;
        let expected = match version {
            MonitorVersion::V1 => 3..=usize::MAX,
            MonitorVersion::V2 => 3..=3,
            MonitorVersion::V3 => 4..=4,
        };
        if !expected.contains(&array_len(self.params)) {
            return Err(self.syntax_error("invalid parameters"));
        }
        params.next_element();
        let id = Arc::new(Json::read(&mut params));
        params.next_element();
        if params.kind() != ValueKind::Object {
            return Err(OvsdbError::syntax_at(params, "monitor-requests must be object").into());
        }
        let mut monitors = self.session.monitors();
        if monitors.get(&id).is_some() {
            return Err(OvsdbError::syntax(&id, "duplicate monitor ID").into());
        }
        let limit = self.session.server().limits().monitors;
        if monitors.len() >= limit {
            return Err(resources_exhausted("monitors", limit).into());
        }
        // Until the reply is in the outbox, nothing is committed and the schema stays the same.
        let mut state = database.state();
        state.check_not_removed()?;
        let view = state.monitor_view();
        let schema = view.snapshot.schema();
        let at_requests = params;
        let requests = StringCache::with_thread(|strings| {
            MonitorRequests::decode(&mut params, schema, version, strings)
        })?;
        let since = if version == MonitorVersion::V3 {
            let mut params = at_requests;
            params.skip();
            params.next_element();
            state.changes_since(decode_last_txn_id(params)?)
        } else {
            None
        };
        let spec = MonitorSpec { version, requests };
        let held = hold_monitor(self.session, &id, &spec)?;
        let result =
            state.monitors.add(self.session.handle(), id.clone(), spec, &view, since.as_ref());
        self.session.reply_in_pieces(reply::success_in_pieces(&self.id, result));
        drop(state);
        let monitor = SessionMonitor { database: database.name().to_owned(), _held: held };
        monitors.insert(id, monitor);
        Ok(MethodResult::SentElsewhere)
    }

    pub(super) fn monitor_cancel(&self) -> Result<MethodResult, MethodError> {
        if array_len(self.params) != 1 {
            return Err(MethodError::Text("invalid parameters"));
        }
        let mut params = self.params;
        params.enter_array();
        params.next_element();
        let id = Json::read(&mut params);
        let mut monitors = self.session.monitors();
        let Some(monitor) = monitors.remove(&id) else {
            return Err(MethodError::Text("unknown monitor"));
        };
        if let Some(database) = self.session.server().database(&monitor.database) {
            database.state().monitors.remove(self.session.id(), &id);
        }
        Ok(empty_object())
    }

    /// Finds the database of the monitor that the first parameter names.
    pub(super) fn monitored_database(&self) -> Option<Arc<ServedDatabase>> {
        let mut params = self.params;
        params.enter_array();
        if !params.next_element() {
            return None;
        }
        let id = Json::read(&mut params);
        let name = self.session.monitors().get(&id)?.database.clone();
        self.session.server().database(&name)
    }
}

/// Charges the bytes of a monitor to its session.
///
/// # Errors
/// The session, or all sessions together, would leave behind more than they may.
pub(super) fn hold_monitor(
    session: &SessionHandle,
    id: &Json,
    spec: &MonitorSpec,
) -> Result<HeldBytes, OvsdbError> {
    session.hold(ENTRY_BYTES + json_bytes(id) + monitor_bytes(spec))
}

fn decode_last_txn_id(mut params: Reader<'_>) -> Result<Uuid, OvsdbError> {
    let start = params;
    let text = params
        .string()
        .ok_or_else(|| OvsdbError::syntax_at(start, "last-txn-id must be string"))?;
    patchbay_schemas::atom::parse_uuid(&text)
        .ok_or_else(|| OvsdbError::syntax_at(start, "last-txn-id must be UUID format."))
}
