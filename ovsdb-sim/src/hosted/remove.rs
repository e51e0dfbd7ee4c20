//! A hosted database comes and goes (`ovsdb-server/add-db` and `remove-db` in ovsdb-server(1)).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::uuids::UuidSource;

use crate::server_database::DatabaseRow;

use super::canceled::Canceled;
use super::{Hosted, State};

impl Hosted {
    /// Adds the database's row to `_Server`.
    pub(crate) fn list(&self, row: &DatabaseRow, uuids: UuidSource) {
        if let Some(listing) = &self.listing {
            listing.insert(row, uuids);
        }
    }

    /// Takes the database's row out of `_Server`.
    pub(crate) fn unlist(&self) {
        if let Some(listing) = &self.listing {
            listing.remove(&self.name);
        }
    }

    /// Ends all that is done in the database, for good, and closes its journal, which others can open then. All its
    /// monitors end; clients that are aware of changes are told. So do the transactions that wait, which are left to be
    /// refused.
    pub(crate) fn remove(&self) -> Canceled {
        let mut state = self.state();
        state.is_removed = true;
        state.journal = None;
        let mut canceled = state.cancel_all();
        // Sessions take the lock of their monitors before that of the state.
        drop(state);
        canceled.end_monitors();
        canceled
    }

    /// Whether this is the file that the database is kept in, by whatever name.
    pub(crate) fn is_kept_in(&self, path: &Path) -> bool {
        let state = self.state();
        let identity = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.dev(), file.ino()))
        };
        let own = state
            .journal
            .as_ref()
            .map(|journal| identity(journal.path()));
        own.is_some_and(|own| own.is_some() && own == identity(path))
    }
}

impl State {
    /// Whether anything can be done in the database.
    ///
    /// # Errors
    /// It was removed, after whoever asks had got hold of it.
    pub(crate) fn served(&self) -> Result<(), OvsdbError> {
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

    use crate::Sim;
    use crate::outbox::{Batch, Chunk};

    /// Requests look a database up before they have its lock.
    #[tokio::test]
    async fn nothing_is_done_in_a_database_that_is_removed() {
        let schema = DatabaseSchema::parse(br#"{"name":"D","tables":{}}"#).unwrap();
        let schema = Arc::new(schema);
        let sim = Sim::builder().schema(schema.clone()).build().unwrap();
        let hosted = sim.hosted("D").unwrap();
        assert!(hosted.state().served().is_ok());
        sim.remove_database("D").unwrap();
        let error = hosted.state().served().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown database: database D was removed"
        );
        let transaction = DecodedTransaction::default();
        assert!(hosted.execute(transaction.clone(), &schema).is_err());
        let session = sim.server().connect();
        hosted.transact(&session, Json::string("id"), transaction, &schema);
        let Some((Batch::Chunks(reply), _)) = session.outbox().take().await else {
            panic!("it is answered");
        };
        let reply: Vec<_> = reply.iter().flat_map(Chunk::bytes).copied().collect();
        let reply = String::from_utf8(reply).unwrap();
        assert!(reply.contains("database D was removed"), "{reply}");
        assert!(hosted.convert(schema.clone()).is_err());

        // Nor does it write the row of another of its name.
        let rows = || sim.hosted("_Server").unwrap().snapshot().row_count();
        assert_eq!(rows(), 1);
        sim.add_database(schema).unwrap();
        hosted.unlist();
        assert_eq!(rows(), 2);
    }
}
