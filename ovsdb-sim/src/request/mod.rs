//! Execution of requests: the methods of RFC 7047 §4.1 and ovsdb-server(7).

mod condition_change;
mod convert;
mod locks;
mod monitors;
mod transact;

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader};
use patchbay_schemas::wire::MonitorVersion;

use crate::locks::LockMode;
use crate::long_work::{LONG_TEXT_BYTES, run};
use crate::reply;
use crate::served_database::{DatabaseState, ServedDatabase};
use crate::session::{DecodeContext, Session, StreamedTransaction};

pub(crate) use transact::cancel;

/// Request of a client.
pub(crate) struct Request<'a> {
    pub(crate) session: &'a Session,
    pub(crate) method: &'a str,
    /// Reader at the array of parameters.
    pub(crate) params: Reader<'a>,
    pub(crate) id: Json,
    /// Transaction that was decoded while the request was received.
    pub(crate) streamed: Option<StreamedTransaction>,
    /// Length of the text in bytes.
    pub(crate) len: usize,
}

/// Success of a method.
enum MethodResult {
    /// JSON text of the reply's `result`.
    Reply(Vec<u8>),
    /// The reply is sent elsewhere: it is already in the outbox, or the transaction waits.
    SentElsewhere,
}

/// Failure of a method: the `error` of the reply, an `<error>` object or, of some methods, a
/// string.
enum MethodError {
    Error(OvsdbError),
    Text(&'static str),
}

impl From<OvsdbError> for MethodError {
    fn from(error: OvsdbError) -> Self {
        Self::Error(error)
    }
}

impl Request<'_> {
    /// Executes the request and sends the reply.
    pub(crate) async fn answer(mut self, context: &mut DecodeContext) {
        let faults = self.session.server().faults();
        let executed = match faults.refusal(self.session.id(), self.method) {
            Some(error) => Err(error.into()),
            None => self.execute(context).await,
        };
        let reply = match executed {
            Ok(MethodResult::SentElsewhere) => return,
            Ok(MethodResult::Reply(result)) => {
                reply::success(&self.id, |out| out.extend_from_slice(&result))
            }
            Err(MethodError::Error(error)) => reply::failure(&self.id, &error.to_json()),
            Err(MethodError::Text(text)) => reply::failure(&self.id, &Json::string(text)),
        };
        self.session.reply(reply);
    }

    async fn execute(&mut self, context: &mut DecodeContext) -> Result<MethodResult, MethodError> {
        let is_long = self.is_long();
        let is_conditional = ["monitor_cond", "monitor_cond_since"].contains(&self.method);
        match self.method {
            _ if is_conditional && !self.session.server().supports_monitor_cond() => {
                Err(MethodError::Text("unknown method"))
            }
            "echo" => Ok(run(is_long, || json_result(&self.params_json()))),
            "transact" => self.transact(context).await,
            "convert" => self.convert().await,
            "monitor" => self.monitor(MonitorVersion::V1).await,
            "monitor_cond" => self.monitor(MonitorVersion::V2).await,
            "monitor_cond_since" => self.monitor(MonitorVersion::V3).await,
            "monitor_cond_change" => {
                let Some(database) = self.monitored_database() else {
                    return self.monitor_cond_change().map(|()| empty_object());
                };
                let change = || self.monitor_cond_change().map(|()| empty_object());
                let is_long = |state: &DatabaseState| is_long || state.is_large();
                database.in_turn(is_long, change).await
            }
            "monitor_cancel" => {
                let Some(database) = self.monitored_database() else {
                    return self.monitor_cancel();
                };
                database.in_turn(|_| false, || self.monitor_cancel()).await
            }
            "list_dbs" => Ok(self.list_dbs()),
            "get_schema" => self.get_schema(),
            "get_server_id" => {
                Ok(json_result(&Json::string(self.session.server().id().to_string())))
            }
            "set_db_change_aware" => self.set_db_change_aware(),
            "lock" => self.lock(LockMode::Wait),
            "steal" => self.lock(LockMode::Steal),
            "unlock" => self.unlock(),
            _ => Err(MethodError::Text("unknown method")),
        }
    }

    /// `true` if the text is so long that its decoding is long work.
    fn is_long(&self) -> bool {
        self.len > LONG_TEXT_BYTES
    }

    fn params_json(&self) -> Json {
        Json::read(&mut self.params.clone())
    }

    /// The error for wrong parameters.
    fn syntax_error(&self, details: impl Into<String>) -> MethodError {
        OvsdbError::syntax_at(self.params, details).into()
    }

    /// Finds the database that the first parameter names. The reader is at the second parameter.
    fn database(&self) -> Result<(Arc<ServedDatabase>, Reader<'_>), MethodError> {
        let mut params = self.params;
        params.enter_array();
        let name = if params.next_element() { params.string() } else { None };
        let Some(name) = name else {
            return Err(self.syntax_error(format!(
                "{} request params must begin with <db-name>",
                self.method
            )));
        };
        let name = String::from_utf8_lossy(&name);
        if let Some(database) = self.session.server().database(&name) {
            if database.is_available() {
                return Ok((database, params));
            }
            // The words of ovsdb-server, for relays, too.
            let details = format!(
                "{} request specifies database {name} which is not yet available because it has \
                 not completed joining its cluster",
                self.method
            );
            return Err(OvsdbError::new("database not available", details).into());
        }
        let details = format!("{} request specifies unknown database {name}", self.method);
        Err(OvsdbError::new("unknown database", details).with_syntax(&self.params_json()).into())
    }

    fn list_dbs(&self) -> MethodResult {
        let names = self.session.server().databases().names_in_hash_order();
        json_result(&Json::Array(names.into_iter().map(Json::string).collect()))
    }

    fn get_schema(&self) -> Result<MethodResult, MethodError> {
        let (database, _) = self.database()?;
        Ok(MethodResult::Reply(database.schema().to_text().as_text().bytes().to_vec()))
    }

    /// Checks that no waiting transaction of the session has the request's id.
    fn check_id(&self) -> Result<(), MethodError> {
        if self.session.is_waiting(&self.id) {
            return Err(self.syntax_error(format!("{}: duplicate request ID", self.method)));
        }
        Ok(())
    }

    fn set_db_change_aware(&self) -> Result<MethodResult, MethodError> {
        let mut params = self.params;
        params.enter_array();
        let aware = if array_len(self.params) == 1 && params.next_element() {
            params.boolean()
        } else {
            None
        };
        let Some(aware) = aware else {
            return Err(self.syntax_error("set_db_change_aware: true or false parameter expected"));
        };
        self.session.set_change_aware(aware);
        Ok(empty_object())
    }
}

fn json_result(value: &Json) -> MethodResult {
    let mut out = Vec::new();
    value.write(&mut out);
    MethodResult::Reply(out)
}

fn empty_object() -> MethodResult {
    MethodResult::Reply(b"{}".to_vec())
}

fn array_len(mut params: Reader<'_>) -> usize {
    let mut len = 0;
    if params.enter_array() {
        while params.next_element() {
            params.skip();
            len += 1;
        }
    }
    len
}
