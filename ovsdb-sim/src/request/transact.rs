//! `transact` and `cancel` (RFC 7047 §4.1.3 and 4.1.4).

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{decode_transaction, decode_with_templates};

use super::{MethodError, MethodResult, Request};
use crate::long_work::run;
use crate::served_database::{DatabaseState, RequestParams};
use crate::session::{DecodeContext, Session, StreamedTransaction};

/// Length in bytes up to which a request's rows become templates. It bounds what a session keeps of
/// them: one row for each table.
const MAX_TEMPLATE_REQUEST_BYTES: usize = 1 << 12;

impl Request<'_> {
    pub(super) async fn transact(
        &mut self,
        context: &mut DecodeContext,
    ) -> Result<MethodResult, MethodError> {
        let streamed = self.streamed.take();
        let (database, params) = match self.database() {
            // The database was removed meanwhile. The error needs the request's text, which is
            // gone.
            Err(_) if streamed.is_some() => return Err(MethodError::Text("canceled")),
            found => found?,
        };
        self.check_id()?;
        let StreamedTransaction { transaction, schema } = streamed.unwrap_or_else(|| {
            let schema = database.schema();
            let DecodeContext { uuids, templates, .. } = context;
            let decode = || {
                StringCache::with_thread(|strings| {
                    if self.len > MAX_TEMPLATE_REQUEST_BYTES {
                        return decode_transaction(params, &schema, strings, uuids);
                    }
                    decode_with_templates(params, &schema, strings, uuids, templates)
                })
            };
            StreamedTransaction { transaction: run(self.is_long(), decode), schema }
        });
        context.charge_templates(self.session);
        let (session, id) = (self.session.handle(), self.id.clone());
        let reading = database.read_beside_writers(session, &id, transaction, &schema);
        let Some(transaction) = reading.await else {
            return Ok(MethodResult::SentElsewhere);
        };
        // Another schema's tables are not this one's; such a transaction is canceled.
        let is_long = |state: &DatabaseState| {
            self.is_long() || !state.has_schema(&schema) || state.is_long(&transaction)
        };
        let params_text = || run(self.is_long(), || self.params_text());
        let params = database.is_relay().then(params_text).transpose()?;
        let turn = database.begin_turn(is_long).await;
        turn.work(|| database.transact(session, id, transaction, &schema, params));
        Ok(MethodResult::SentElsewhere)
    }

    /// Encodes the parameters for the source of a relay, with reals as ovsdb-server writes them.
    /// Otherwise the source could have values that it cannot report to the relay.
    ///
    /// # Errors
    /// The session, or all sessions together, would leave behind more than they may.
    fn params_text(&self) -> Result<RequestParams, OvsdbError> {
        let mut text = Vec::new();
        self.params_json().write(&mut text);
        let held = self.session.hold(text.len())?;
        Ok(RequestParams { text, held })
    }
}

/// Executes a `cancel` notification (RFC 7047 §4.1.4). Only clients that are aware of changes get a
/// reply to the canceled transaction.
pub(crate) async fn cancel(session: &Session, mut params: Reader<'_>) {
    params.enter_array();
    if !params.next_element() {
        return;
    }
    let id = Json::read(&mut params);
    if !session.is_waiting(&id) {
        return;
    }
    let databases = session.server().databases().all();
    for database in databases.values() {
        let cancel = || database.cancel(session.id(), &id);
        if database.in_turn(|_| false, cancel).await {
            return;
        }
    }
}
