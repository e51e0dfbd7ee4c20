//! `monitor_cond_change` (ovsdb-server(7) §4.1.13).

use std::collections::BTreeMap;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;

use crate::monitor::Spec;
use crate::session::Context;

use super::{Outcome, Request, array_len};

impl Request<'_> {
    pub(super) fn monitor_cond_change(&self, context: &mut Context) -> Outcome<()> {
        if array_len(self.params) != 3 {
            return Err(self.syntax("invalid parameters"));
        }
        let mut params = self.params;
        params.enter_array();
        params.next_element();
        let old_id = Json::read(&mut params);
        params.next_element();
        let new_id = Json::read(&mut params);
        params.next_element();
        let mut monitors = self.session.monitors();
        let Some(database) = monitors.get(&old_id).cloned() else {
            return Err(OvsdbError::syntax(&old_id, "unknown monitor session").into());
        };
        if new_id != old_id && monitors.contains_key(&new_id) {
            return Err(OvsdbError::syntax(&new_id, "duplicate monitor ID").into());
        }
        if params.kind() != ValueKind::Object {
            let details = "monitor-cond-change-requests must be object";
            return Err(OvsdbError::new("syntax error", details).into());
        }
        let mut state = database.state();
        let view = state.view();
        let Some(spec) = state.monitors.spec(self.session.id(), &old_id).cloned() else {
            return Err(OvsdbError::syntax(&old_id, "unknown monitor session").into());
        };
        let new = changed(spec, params, view.snapshot.schema(), &mut context.strings)?;
        state
            .monitors
            .change(self.session, (&old_id, new_id.clone()), new, &view);
        monitors.remove(&old_id);
        drop(state);
        monitors.insert(new_id, database);
        Ok(())
    }
}

/// What the monitor asks for with the new conditions.
fn changed(
    mut spec: Spec,
    mut requests: Reader<'_>,
    schema: &DatabaseSchema,
    strings: &mut StringCache,
) -> Result<Spec, OvsdbError> {
    let complaint = |details: String| OvsdbError::new("syntax error", details);
    // Of a table that is named twice, the last request counts.
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
            .ok_or_else(|| complaint(format!("no table named {name}")))?;
        let Some(monitored) = spec.requests.tables.get_mut(&id) else {
            return Err(complaint(format!(
                "no table named {name} in monitor session"
            )));
        };
        if !requests.enter_array() {
            return Err(complaint(format!(
                "table {name} no monitor-cond-change JSON array"
            )));
        }
        while requests.next_element() {
            monitored.change_condition(&mut requests, table, spec.version, strings)?;
        }
    }
    Ok(spec)
}
