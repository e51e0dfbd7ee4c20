//! `convert` (ovsdb-server(7) §4.1.19).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;

use super::{MethodError, MethodResult, Request, array_len};
use crate::reply;

impl Request<'_> {
    pub(super) async fn convert(&self) -> Result<MethodResult, MethodError> {
        let (database, _) = self.database()?;
        database.in_turn(|_| true, || self.convert_in_turn()).await
    }

    fn convert_in_turn(&self) -> Result<MethodResult, MethodError> {
        let (database, mut params) = self.database()?;
        self.check_id()?;
        // As in ovsdb-server, before the schema is read.
        if let Some(client) = self.session.restricted_client() {
            return Err(client.conversion_refusal(database.name()).into());
        }
        if self.session.is_read_only() || database.is_read_only() {
            return Err(database.read_only_error().into());
        }
        if array_len(self.params) != 2 {
            return Err(self.syntax_error("array expected"));
        }
        params.next_element();
        let mut schema = DatabaseSchema::read(&mut params)?;
        if schema.name != database.name() {
            let details = format!(
                "new schema name ({}) does not match database name ({})",
                schema.name,
                database.name()
            );
            return Err(OvsdbError::new("invalid parameters", details).into());
        }
        let server = self.session.server();
        schema.reorder_as_copy();
        let mut cancellation = database.convert(Arc::new(schema))?;
        // Selected before the reply: a client that connects after it keeps its session.
        let mut sessions = server.select_sessions(|_| true);
        let is_clustered = database.is_clustered();
        if !is_clustered {
            // As ovsdb-server goes on: with the sessions behind this one, and then from the first.
            let behind = sessions.partition_point(|session| session.id() <= self.session.id());
            sessions.rotate_left(behind);
        }
        let sessions: Vec<_> =
            sessions.into_iter().map(|session| (session.is_change_aware(), session)).collect();
        // Before the reply, because ovsdb-server executes no request of these sessions after it.
        for (_, session) in sessions.iter().filter(|(is_aware, _)| !is_aware) {
            session.outbox().announce_close();
        }
        let reply = reply::success(&self.id, |out| out.extend_from_slice(b"{}"));
        if !is_clustered {
            self.session.reply(reply.clone());
        }
        // In this order, because the locks of a session that ends go to others.
        for (is_aware, session) in &sessions {
            cancellation.reply_to_session(session.id());
            if !is_aware {
                server.close_session(session);
            } else if is_clustered && session.id() == self.session.id() {
                // As in a real cluster, where the reply comes later than the conversion: the
                // connection of a client that is not aware of changes is closed by then.
                self.session.reply(reply.clone());
            }
        }
        Ok(MethodResult::SentElsewhere)
    }
}
