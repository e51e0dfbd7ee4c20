//! Removal of a database from the server (`ovsdb-server/remove-db` in ovsdb-server(1)).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use patchbay_schemas::error::OvsdbError;

use super::cancellation::Cancellation;
use super::{DatabaseState, ServedDatabase};

impl ServedDatabase {
    /// Marks the database as removed and closes its journal, which other programs can then open.
    /// Cancels its monitors and notifies their clients. Cancels its waiting transactions, to which
    /// the caller replies.
    pub(crate) fn remove(&self) -> Cancellation {
        let mut state = self.state();
        state.is_removed = true;
        state.storage.close();
        let mut canceled = state.cancel_all();
        drop(state);
        canceled.notify_monitors();
        canceled
    }

    /// `true` if `path` is the database's journal, under any name.
    pub(crate) fn is_kept_in(&self, path: &Path) -> bool {
        let state = self.state();
        let identity = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.dev(), file.ino()))
        };
        state.storage.path().and_then(identity).is_some_and(|own| identity(path) == Some(own))
    }
}

impl DatabaseState {
    /// Checks that the database is still served. It can be removed between the moment when a
    /// request finds it and the moment when the request has locked its state.
    ///
    /// # Errors
    /// The database was removed.
    pub(crate) fn check_not_removed(&self) -> Result<(), OvsdbError> {
        if !self.is_removed {
            return Ok(());
        }
        let details = format!("database {} was removed", self.database.schema().name);
        Err(OvsdbError::new("unknown database", details))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use patchbay_schemas::json::Json;
    use patchbay_schemas::schema::DatabaseSchema;
    use patchbay_schemas::wire::DecodedTransaction;

    use tokio::sync::watch;

    use crate::Sim;
    use crate::chunk::Chunk;
    use crate::outbox::Batch;

    #[tokio::test]
    async fn a_removed_database_rejects_what_found_it_before() {
        let schema = DatabaseSchema::parse(br#"{"name":"D","tables":{}}"#).unwrap();
        let schema = Arc::new(schema);
        let sim = Sim::builder().schema(schema.clone()).build().unwrap();
        let database = sim.served_database("D").unwrap();
        assert!(database.state().check_not_removed().is_ok());
        sim.remove_database("D").unwrap();
        let error = database.state().check_not_removed().unwrap_err();
        assert_eq!(error.to_string(), "unknown database: database D was removed");
        let transaction = DecodedTransaction::default();
        assert!(database.execute(transaction.clone(), &schema).is_err());
        let session = sim.server().connect(watch::Sender::default().subscribe(), None);
        database.transact(&session, Json::string("id"), transaction, &schema, None);
        let Some((Batch::Chunks(reply), _)) = session.outbox().take().await else {
            panic!("there is a reply");
        };
        let reply: Vec<_> = reply.iter().flat_map(Chunk::bytes).copied().collect();
        let reply = String::from_utf8(reply).unwrap();
        assert!(reply.contains("database D was removed"), "{reply}");
        assert!(database.convert(schema.clone()).is_err());

        // A row of another database with its name stays.
        let rows = || sim.served_database("_Server").unwrap().snapshot().row_count();
        assert_eq!(rows(), 1);
        sim.add_database(schema).unwrap();
        database.remove_server_row();
        assert_eq!(rows(), 2);
    }
}
