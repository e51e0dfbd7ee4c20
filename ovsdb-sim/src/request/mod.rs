//! Execution of requests: the methods of RFC 7047 §4.1 and ovsdb-server(7).

mod condition_change;

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind};
use patchbay_schemas::schema::{DatabaseSchema, is_id};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{
    MonitorRequests, MonitorVersion, decode_transaction, decode_with_templates,
};
use uuid::Uuid;

use crate::limits::resources_exhausted;
use crate::locks::LockMode;
use crate::long_work::{LONG_TEXT_BYTES, run};
use crate::reply;
use crate::served_database::{DatabaseState, RequestParams, ServedDatabase};
use crate::session::{DecodeContext, Session, StreamedTransaction};
use crate::session_monitors::{SessionMonitor, SessionMonitors};
use crate::update::MonitorSpec;

/// Length in bytes up to which a request's rows become templates. It bounds what a session keeps of
/// them: one row for each table.
const MAX_TEMPLATE_REQUEST_BYTES: usize = 1 << 12;

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
            "get_server_id" => Ok(json_result(&Json::string(
                self.session.server().id().to_string(),
            ))),
            "set_db_change_aware" => self.set_db_change_aware(),
            "lock" => self.lock(LockMode::Wait),
            "steal" => self.lock(LockMode::Steal),
            "unlock" => self.unlock(),
            _ => Err(MethodError::Text("unknown method")),
        }
    }

    /// True if the text is so long that its decoding is long work.
    fn is_long(&self) -> bool {
        self.len > LONG_TEXT_BYTES
    }

    /// Checks that the session's monitors may have this many more bytes.
    fn check_monitor_bytes(
        &self,
        monitors: &SessionMonitors,
        more: usize,
    ) -> Result<(), OvsdbError> {
        let limit = self.session.server().limits().monitor_bytes;
        if more > 0 && monitors.bytes() + more > limit {
            return Err(resources_exhausted("bytes of monitors", limit));
        }
        Ok(())
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
        let name = if params.next_element() {
            params.string()
        } else {
            None
        };
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
        Err(OvsdbError::new("unknown database", details)
            .with_syntax(&self.params_json())
            .into())
    }

    fn list_dbs(&self) -> MethodResult {
        json_result(&Json::Array(
            self.session
                .server()
                .databases()
                .all()
                .keys()
                .map(|name| Json::string(name.as_str()))
                .collect(),
        ))
    }

    fn get_schema(&self) -> Result<MethodResult, MethodError> {
        let (database, _) = self.database()?;
        Ok(json_result(&database.schema().to_json()))
    }

    /// Finds the database of the monitor that the first parameter names.
    fn monitored_database(&self) -> Option<Arc<ServedDatabase>> {
        let mut params = self.params;
        params.enter_array();
        if !params.next_element() {
            return None;
        }
        let id = Json::read(&mut params);
        let name = self.session.monitors().get(&id)?.database.clone();
        self.session.server().database(&name)
    }

    async fn transact(&mut self, context: &mut DecodeContext) -> Result<MethodResult, MethodError> {
        let streamed = self.streamed.take();
        let (database, params) = match self.database() {
            // The database was removed meanwhile. The error needs the request's text, which is
            // gone.
            Err(_) if streamed.is_some() => return Err(MethodError::Text("canceled")),
            found => found?,
        };
        self.check_id()?;
        let StreamedTransaction {
            transaction,
            schema,
        } = streamed.unwrap_or_else(|| {
            let schema = database.schema();
            let DecodeContext { uuids, templates } = context;
            let decode = || {
                StringCache::with_thread(|strings| {
                    if self.len > MAX_TEMPLATE_REQUEST_BYTES {
                        return decode_transaction(params, &schema, strings, uuids);
                    }
                    decode_with_templates(params, &schema, strings, uuids, templates)
                })
            };
            StreamedTransaction {
                transaction: run(self.is_long(), decode),
                schema,
            }
        });
        let (session, id) = (self.session.handle(), self.id.clone());
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
    /// The connections would hold too many bytes.
    fn params_text(&self) -> Result<RequestParams, OvsdbError> {
        let mut text = Vec::new();
        self.params_json().write(&mut text);
        let mut charge = self.session.server().budget().charge();
        let charged = charge.resize(text.len());
        charged.map_err(|error| OvsdbError::new("resources exhausted", error.to_string()))?;
        Ok(RequestParams { text, charge })
    }

    /// Checks that no waiting transaction of the session has the request's id.
    fn check_id(&self) -> Result<(), MethodError> {
        if self.session.is_waiting(&self.id) {
            return Err(self.syntax_error(format!("{}: duplicate request ID", self.method)));
        }
        Ok(())
    }

    async fn convert(&self) -> Result<MethodResult, MethodError> {
        let (database, _) = self.database()?;
        database.in_turn(|_| true, || self.convert_in_turn()).await
    }

    fn convert_in_turn(&self) -> Result<MethodResult, MethodError> {
        let (database, mut params) = self.database()?;
        self.check_id()?;
        if self.session.is_read_only() {
            let name = database.name();
            let details = format!("conversion is not allowed for read-only database {name}");
            return Err(OvsdbError::new("not allowed", details).into());
        }
        if array_len(self.params) != 2 {
            return Err(self.syntax_error("array expected"));
        }
        params.next_element();
        let schema = Arc::new(DatabaseSchema::from_json(&Json::read(&mut params))?);
        if schema.name != database.name() {
            let details = format!(
                "new schema name ({}) does not match database name ({})",
                schema.name,
                database.name()
            );
            return Err(OvsdbError::new("invalid parameters", details).into());
        }
        let server = self.session.server();
        let cancellation = database.convert(schema)?;
        let reply = reply::success(&self.id, |out| out.extend_from_slice(b"{}"));
        if database.is_clustered() {
            // As in a real cluster, where the reply comes later than the conversion: the connection
            // of a client that is not aware of changes is closed by then.
            cancellation.reply_to_transactions();
            if self.session.is_change_aware() {
                self.session.reply(reply);
            }
            server.close_unaware_sessions();
        } else {
            // Selected before the reply: a client that connects after it keeps its session.
            let unaware = server.select_sessions(|session| !session.is_change_aware());
            self.session.reply(reply);
            server.close_each(&unaware);
            cancellation.reply_to_transactions();
        }
        Ok(MethodResult::SentElsewhere)
    }

    async fn monitor(&self, version: MonitorVersion) -> Result<MethodResult, MethodError> {
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
        let id = Json::read(&mut params);
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
        self.check_monitor_bytes(&monitors, self.len)?;
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
        let result = state.monitors.add(
            self.session.handle(),
            id.clone(),
            spec,
            &view,
            since.as_ref(),
        );
        self.session
            .reply_in_pieces(reply::success_in_pieces(&self.id, result));
        drop(state);
        let monitor = SessionMonitor {
            database: database.name().to_owned(),
            bytes: self.len,
        };
        monitors.insert(id, monitor);
        Ok(MethodResult::SentElsewhere)
    }

    fn monitor_cancel(&self) -> Result<MethodResult, MethodError> {
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

    /// The only parameter of the lock methods.
    fn lock_name(&self) -> Result<String, MethodError> {
        let mut params = self.params;
        params.enter_array();
        let name = if array_len(self.params) == 1 && params.next_element() {
            params.string()
        } else {
            None
        };
        name.map(|name| String::from_utf8_lossy(&name).into_owned())
            .filter(|name| is_id(name))
            .ok_or_else(|| {
                self.syntax_error(format!("{} request params must be <id>", self.method))
            })
    }

    /// Checks that the session may use locks.
    fn check_locks_allowed(&self) -> Result<(), MethodError> {
        if self.session.is_read_only() {
            let text = "lock and unlock methods not allowed, DB server is read only.";
            return Err(MethodError::Text(text));
        }
        Ok(())
    }

    fn lock(&self, mode: LockMode) -> Result<MethodResult, MethodError> {
        self.check_locks_allowed()?;
        let name = self.lock_name()?;
        let server = self.session.server();
        // Locked until the victim is notified, so that notifications are in the order of events.
        let mut locks = server.lock_table();
        let limit = server.limits().locks;
        if locks.count(self.session.id()) >= limit {
            return Err(resources_exhausted("locks", limit).into());
        }
        let Some(granted) = locks.lock(self.session.id(), &name, mode) else {
            return Err(self.syntax_error(format!(
                "must issue \"unlock\" before new \"{}\"",
                self.method
            )));
        };
        if let Some(victim) = granted.victim.and_then(|victim| server.session(victim)) {
            victim.notify_lock("stolen", &name);
        }
        Ok(json_result(&Json::object([(
            "locked",
            Json::Bool(granted.locked),
        )])))
    }

    fn unlock(&self) -> Result<MethodResult, MethodError> {
        self.check_locks_allowed()?;
        let name = self.lock_name()?;
        let server = self.session.server();
        let mut locks = server.lock_table();
        let Ok(owner) = locks.unlock(self.session.id(), &name) else {
            return Err(self.syntax_error("unlock: \"unlock\" without \"lock\" or \"steal\""));
        };
        if let Some(owner) = owner.and_then(|owner| server.session(owner)) {
            owner.notify_lock("locked", &name);
        }
        Ok(empty_object())
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

fn decode_last_txn_id(mut params: Reader<'_>) -> Result<Uuid, OvsdbError> {
    let start = params;
    let text = params
        .string()
        .ok_or_else(|| OvsdbError::syntax_at(start, "last-txn-id must be string"))?;
    patchbay_schemas::atom::parse_uuid(&text)
        .ok_or_else(|| OvsdbError::syntax_at(start, "last-txn-id must be UUID format."))
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
