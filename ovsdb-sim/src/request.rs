//! The methods (RFC 7047 §4.1 and ovsdb-server(7)).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind};
use patchbay_schemas::schema::{DatabaseSchema, is_id};
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion, decode_transaction};
use uuid::Uuid;

use crate::hosted::Hosted;
use crate::lock::Mode;
use crate::monitor::Spec;
use crate::reply;
use crate::session::{Context, Session, StreamedTransaction};

mod condition_change;

/// A request to be answered.
pub(crate) struct Request<'a> {
    pub(crate) session: &'a Arc<Session>,
    pub(crate) method: &'a str,
    /// At the array of parameters.
    pub(crate) params: Reader<'a>,
    pub(crate) id: Json,
    /// The transaction, if it was decoded while the request was being received.
    pub(crate) streamed: Option<StreamedTransaction>,
}

/// What a method comes to.
enum Answer {
    /// JSON text.
    Result(Vec<u8>),
    /// The reply is sent elsewhere.
    Later,
}

/// An error reply: an `<error>` object or, for some, only a string.
pub(crate) enum Refusal {
    Error(OvsdbError),
    Text(&'static str),
}

impl From<OvsdbError> for Refusal {
    fn from(error: OvsdbError) -> Self {
        Self::Error(error)
    }
}

type Outcome<T = Answer> = Result<T, Refusal>;

impl Request<'_> {
    /// Executes the request and sends the reply.
    pub(crate) fn answer(mut self, context: &mut Context) {
        let faults = self.session.server().faults();
        let outcome = match faults.refusal(self.session.id(), self.method) {
            Some(error) => Err(error.into()),
            None => self.outcome(context),
        };
        let reply = match outcome {
            Ok(Answer::Later) => return,
            Ok(Answer::Result(result)) => {
                reply::success(&self.id, |out| out.extend_from_slice(&result))
            }
            Err(Refusal::Error(error)) => reply::failure(&self.id, &error.to_json()),
            Err(Refusal::Text(text)) => reply::failure(&self.id, &Json::string(text)),
        };
        self.session.reply(reply);
    }

    fn outcome(&mut self, context: &mut Context) -> Outcome {
        let is_conditional = ["monitor_cond", "monitor_cond_since"].contains(&self.method);
        match self.method {
            _ if is_conditional && !self.session.server().knows_monitor_cond() => {
                Err(Refusal::Text("unknown method"))
            }
            "echo" => Ok(json(&self.params_json())),
            "transact" => self.transact(context),
            "convert" => self.convert(),
            "monitor" => self.monitor(MonitorVersion::V1, context),
            "monitor_cond" => self.monitor(MonitorVersion::V2, context),
            "monitor_cond_since" => self.monitor(MonitorVersion::V3, context),
            "monitor_cond_change" => self.monitor_cond_change(context).map(|()| empty_object()),
            "monitor_cancel" => self.monitor_cancel(),
            "list_dbs" => Ok(self.list_dbs()),
            "get_schema" => self.get_schema(),
            "get_server_id" => Ok(json(&Json::string(self.session.server().id().to_string()))),
            "set_db_change_aware" => self.set_db_change_aware(),
            "lock" => self.lock(Mode::Wait),
            "steal" => self.lock(Mode::Steal),
            "unlock" => self.unlock(),
            _ => Err(Refusal::Text("unknown method")),
        }
    }

    fn params_json(&self) -> Json {
        Json::read(&mut self.params.clone())
    }

    /// A complaint about the parameters.
    fn syntax(&self, details: impl Into<String>) -> Refusal {
        OvsdbError::syntax_at(self.params, details).into()
    }

    /// The database that the first parameter names; the reader is left behind it.
    fn database(&self) -> Outcome<(Arc<Hosted>, Reader<'_>)> {
        let mut params = self.params;
        params.enter_array();
        let name = if params.next_element() {
            params.string()
        } else {
            None
        };
        let Some(name) = name else {
            return Err(self.syntax(format!(
                "{} request params must begin with <db-name>",
                self.method
            )));
        };
        let name = String::from_utf8_lossy(&name);
        if let Some(database) = self.session.server().database(&name) {
            return Ok((database, params));
        }
        let details = format!("{} request specifies unknown database {name}", self.method);
        Err(OvsdbError::new("unknown database", details)
            .with_syntax(&self.params_json())
            .into())
    }

    fn list_dbs(&self) -> Answer {
        json(&Json::Array(
            self.session
                .server()
                .databases()
                .all()
                .keys()
                .map(|name| Json::string(name.as_str()))
                .collect(),
        ))
    }

    fn get_schema(&self) -> Outcome {
        let (database, _) = self.database()?;
        Ok(json(&database.schema().to_json()))
    }

    fn transact(&mut self, context: &mut Context) -> Outcome {
        let streamed = self.streamed.take();
        let (database, params) = match self.database() {
            // The error would contain the text of the request, of which the operations were removed.
            Err(_) if streamed.is_some() => return Err(Refusal::Text("canceled")),
            found => found?,
        };
        self.check_id()?;
        let StreamedTransaction {
            transaction,
            schema,
        } = streamed.unwrap_or_else(|| {
            let schema = database.schema();
            let (strings, uuids) = (&mut context.strings, &mut context.uuids);
            StreamedTransaction {
                transaction: decode_transaction(params, &schema, strings, uuids),
                schema,
            }
        });
        database.transact(self.session, self.id.clone(), transaction, &schema);
        Ok(Answer::Later)
    }

    /// Refuses the id of a transaction that is still waiting.
    fn check_id(&self) -> Outcome<()> {
        let databases = self.session.server().databases().all();
        let is_blocked = |database: &Arc<Hosted>| database.is_blocked(self.session.id(), &self.id);
        if databases.values().any(is_blocked) {
            return Err(self.syntax(format!("{}: duplicate request ID", self.method)));
        }
        Ok(())
    }

    fn convert(&self) -> Outcome {
        let (database, mut params) = self.database()?;
        self.check_id()?;
        if array_len(self.params) != 2 {
            return Err(self.syntax("array expected"));
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
        let canceled = database.convert(schema)?;
        let reply = reply::success(&self.id, |out| out.extend_from_slice(b"{}"));
        if database.is_clustered() {
            // As there, where the reply comes later than the change: a client that is not aware of changes is gone by then.
            canceled.refuse();
            if self.session.is_change_aware() {
                self.session.reply(reply);
            }
            server.close_unaware_sessions();
        } else {
            self.session.reply(reply);
            server.close_unaware_sessions();
            canceled.refuse();
        }
        Ok(Answer::Later)
    }

    fn monitor(&self, version: MonitorVersion, context: &mut Context) -> Outcome {
        let (database, mut params) = self.database()?;
        let expected = match version {
            MonitorVersion::V1 => 3..=usize::MAX,
            MonitorVersion::V2 => 3..=3,
            MonitorVersion::V3 => 4..=4,
        };
        if !expected.contains(&array_len(self.params)) {
            return Err(self.syntax("invalid parameters"));
        }
        params.next_element();
        let id = Json::read(&mut params);
        params.next_element();
        if params.kind() != ValueKind::Object {
            return Err(OvsdbError::syntax_at(params, "monitor-requests must be object").into());
        }
        let mut monitors = self.session.monitors();
        if monitors.contains_key(&id) {
            return Err(OvsdbError::syntax(&id, "duplicate monitor ID").into());
        }
        let limit = self.session.server().limits().monitors;
        if monitors.len() >= limit {
            return Err(exhausted("monitors", limit).into());
        }
        // Nothing is committed and the schema stays the same until the reply is on its way.
        let mut state = database.state();
        state.served()?;
        let view = state.view();
        let schema = view.snapshot.schema();
        let at_requests = params;
        let requests = MonitorRequests::decode(&mut params, schema, version, &mut context.strings)?;
        let since = if version == MonitorVersion::V3 {
            let mut params = at_requests;
            params.skip();
            params.next_element();
            state.changes_since(last_txn_id(params)?)
        } else {
            None
        };
        let spec = Spec { version, requests };
        let result = state
            .monitors
            .add(self.session, id.clone(), spec, &view, since.as_ref());
        self.session
            .reply_in_pieces(reply::success_in_pieces(&self.id, result));
        drop(state);
        monitors.insert(id, database);
        Ok(Answer::Later)
    }

    fn monitor_cancel(&self) -> Outcome {
        if array_len(self.params) != 1 {
            return Err(Refusal::Text("invalid parameters"));
        }
        let mut params = self.params;
        params.enter_array();
        params.next_element();
        let id = Json::read(&mut params);
        let mut monitors = self.session.monitors();
        let Some(database) = monitors.remove(&id) else {
            return Err(Refusal::Text("unknown monitor"));
        };
        database.state().monitors.remove(self.session.id(), &id);
        Ok(empty_object())
    }

    fn set_db_change_aware(&self) -> Outcome {
        let mut params = self.params;
        params.enter_array();
        let aware = if array_len(self.params) == 1 && params.next_element() {
            params.boolean()
        } else {
            None
        };
        let Some(aware) = aware else {
            return Err(self.syntax("set_db_change_aware: true or false parameter expected"));
        };
        self.session.set_change_aware(aware);
        Ok(empty_object())
    }

    /// The only parameter of the lock methods.
    fn lock_name(&self) -> Outcome<String> {
        let mut params = self.params;
        params.enter_array();
        let name = if array_len(self.params) == 1 && params.next_element() {
            params.string()
        } else {
            None
        };
        name.map(|name| String::from_utf8_lossy(&name).into_owned())
            .filter(|name| is_id(name))
            .ok_or_else(|| self.syntax(format!("{} request params must be <id>", self.method)))
    }

    fn lock(&self, mode: Mode) -> Outcome {
        let name = self.lock_name()?;
        let server = self.session.server();
        // Held until the victim is told, so that notifications come in the order of events.
        let mut locks = server.lock_table();
        let limit = server.limits().locks;
        if locks.count(self.session.id()) >= limit {
            return Err(exhausted("locks", limit).into());
        }
        let Some(granted) = locks.lock(self.session.id(), &name, mode) else {
            return Err(self.syntax(format!(
                "must issue \"unlock\" before new \"{}\"",
                self.method
            )));
        };
        if let Some(victim) = granted.victim.and_then(|victim| server.session(victim)) {
            victim.notify_lock("stolen", &name);
        }
        Ok(json(&Json::object([(
            "locked",
            Json::Bool(granted.locked),
        )])))
    }

    fn unlock(&self) -> Outcome {
        let name = self.lock_name()?;
        let server = self.session.server();
        let mut locks = server.lock_table();
        let Ok(owner) = locks.unlock(self.session.id(), &name) else {
            return Err(self.syntax("unlock: \"unlock\" without \"lock\" or \"steal\""));
        };
        if let Some(owner) = owner.and_then(|owner| server.session(owner)) {
            owner.notify_lock("locked", &name);
        }
        Ok(empty_object())
    }
}

/// The `cancel` notification. Only clients that are aware of changes hear of it.
pub(crate) fn cancel(session: &Arc<Session>, mut params: Reader<'_>) {
    params.enter_array();
    if !params.next_element() {
        return;
    }
    let id = Json::read(&mut params);
    let databases = session.server().databases().all();
    let mut databases = databases.values();
    databases.any(|database| database.cancel(session.id(), &id));
}

fn last_txn_id(mut params: Reader<'_>) -> Result<Uuid, OvsdbError> {
    let start = params;
    let text = params
        .string()
        .ok_or_else(|| OvsdbError::syntax_at(start, "last-txn-id must be string"))?;
    patchbay_schemas::atom::parse_uuid(&text)
        .ok_or_else(|| OvsdbError::syntax_at(start, "last-txn-id must be UUID format."))
}

/// A connection has as much of something as it may have.
pub(crate) fn exhausted(what: &str, limit: usize) -> OvsdbError {
    let details = format!("a connection may not have more than {limit} {what}");
    OvsdbError::new("resources exhausted", details)
}

fn json(value: &Json) -> Answer {
    let mut out = Vec::new();
    value.write(&mut out);
    Answer::Result(out)
}

fn empty_object() -> Answer {
    Answer::Result(b"{}".to_vec())
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
