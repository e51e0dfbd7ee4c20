//! `monitor_cond_change` (ovsdb-server(7) §4.1.13).

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;

use crate::session::monitors::SessionMonitor;
use crate::update::MonitorSpec;

use super::monitors::hold_monitor;
use super::{MethodError, Request, array_len};

impl Request<'_> {
    pub(super) fn monitor_cond_change(&self) -> Result<(), MethodError> {
        if array_len(self.params) != 3 {
            return Err(self.syntax_error("invalid parameters"));
        }
        let mut params = self.params;
        params.enter_array();
        params.next_element();
        let old_id = Json::read(&mut params);
        params.next_element();
        let new_id = Arc::new(Json::read(&mut params));
        params.next_element();
        let mut monitors = self.session.monitors();
        let Some(name) = monitors.get(&old_id).map(|one| one.database.clone()) else {
            return Err(OvsdbError::syntax(&old_id, "unknown monitor session").into());
        };
        if *new_id != old_id && monitors.get(&new_id).is_some() {
            return Err(OvsdbError::syntax(&new_id, "duplicate monitor ID").into());
        }
        if params.kind() != ValueKind::Object {
            let details = "monitor-cond-change-requests must be object";
            return Err(OvsdbError::new("syntax error", details).into());
        }
        let Some(database) = self.session.server().database(&name) else {
            return Err(OvsdbError::syntax(&old_id, "unknown monitor session").into());
        };
        let mut state = database.state();
        let view = state.monitor_view();
        let Some(spec) = state.monitors.spec(self.session.id(), &old_id).cloned() else {
            return Err(OvsdbError::syntax(&old_id, "unknown monitor session").into());
        };
        let new = StringCache::with_thread(|strings| {
            change_conditions(spec, params, view.snapshot.schema(), strings)
        })?;
        // The former request and the new one are there together for a moment, and only that one if the
        // new one is refused.
        let held = hold_monitor(self.session, &new_id, &new)?;
        state.monitors.change(self.session.handle(), (&old_id, new_id.clone()), new, &view);
        monitors.remove(&old_id);
        drop(state);
        let monitor = SessionMonitor { database: name, _held: held };
        monitors.insert(new_id, monitor);
        Ok(())
    }
}

/// Changes the conditions of a monitor's request.
fn change_conditions(
    mut spec: MonitorSpec,
    mut requests: Reader<'_>,
    schema: &DatabaseSchema,
    strings: &mut StringCache,
) -> Result<MonitorSpec, OvsdbError> {
    let syntax_error = |details: String| OvsdbError::new("syntax error", details);
    // If a table is named twice, its last request counts.
    let mut by_name = BTreeMap::new();
    requests.enter_object();
    while let Some(name) = requests.next_member() {
        let name = String::from_utf8_lossy(&name).into_owned();
        by_name.insert(name, requests);
        requests.skip();
    }
    for (name, mut requests) in by_name {
        let (id, table) = schema
            .table_by_name(&name)
            .ok_or_else(|| syntax_error(format!("no table named {name}")))?;
        let Some(monitored) = spec.requests.tables.get_mut(&id) else {
            return Err(syntax_error(format!("no table named {name} in monitor session")));
        };
        if !requests.enter_array() {
            return Err(syntax_error(format!("table {name} no monitor-cond-change JSON array")));
        }
        while requests.next_element() {
            monitored.change_condition(&mut requests, table, spec.version, strings)?;
        }
    }
    Ok(spec)
}
