//! Conversion of a database to another schema (`convert` in ovsdb-server(7)).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;

use crate::cluster::check_persistent_columns;

use super::ServedDatabase;
use super::cancellation::Cancellation;

impl ServedDatabase {
    /// `true` if clients cannot convert the database: it is `_Server` or a backup.
    pub(crate) fn is_read_only(&self) -> bool {
        self.server_row.is_none() || self.is_backup()
    }

    /// The error of a conversion that is not allowed, in ovsdb-server's words.
    pub(crate) fn read_only_error(&self) -> OvsdbError {
        let name = &self.name;
        let details = format!("conversion is not allowed for read-only database {name}");
        OvsdbError::new("not allowed", details)
    }

    /// Converts the database to another schema. Cancels its monitors and notifies their clients.
    /// Cancels its waiting transactions, to which the caller replies.
    ///
    /// # Errors
    /// The content does not fit, or the database may not be converted. Nothing changed.
    pub(crate) fn convert(&self, schema: Arc<DatabaseSchema>) -> Result<Cancellation, OvsdbError> {
        let refuse = |why| {
            let details = format!("conversion of database {} is not allowed: {why}", self.name);
            Err(OvsdbError::new("not allowed", details))
        };
        if self.is_relay {
            return refuse("it is a relay's");
        }
        let mut state = self.state();
        state.check_not_removed()?;
        if self.server_row.is_none() || state.is_backup {
            return Err(self.read_only_error());
        }
        if state.cluster().is_some() && check_persistent_columns(&schema).is_err() {
            return refuse("clusters do not support ephemeral columns");
        }
        if !state.role.is_connected() {
            return refuse("its cluster has no leader");
        }
        let former = state.database.convert(schema)?;
        let snapshot = state.database.snapshot();
        if let Err(error) = state.storage.convert(&snapshot) {
            tracing::error!(database = self.name, %error, "cannot write a converted database: rolling the conversion back");
            state.database.revert_conversion(former);
            return Err(error);
        }
        drop(snapshot);
        self.set_schema(state.database.schema());
        // Not a transaction, but those who watch commits must read the content again.
        state.commits.send_modify(|_| {});
        let mut canceled = state.cancel_all();
        drop(state);
        self.update_server_row();
        canceled.notify_monitors();
        Ok(canceled)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::wire::DecodedTransaction;

    use crate::Sim;

    use super::*;

    #[test]
    fn a_transaction_for_the_old_schema_is_rejected() {
        let schema = |column: &str| {
            let text = format!(
                r#"{{"name":"D","tables":{{"T":{{"columns":{{"{column}":{{"type":"integer"}}}}}}}}}}"#
            );
            Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap())
        };
        let (old, new) = (schema("i"), schema("j"));
        let sim = Sim::builder().schema(old.clone()).build().unwrap();
        let database = sim.served_database("D").unwrap();
        let transaction = DecodedTransaction::default();
        assert!(database.execute(transaction.clone(), &old).is_ok());
        database.convert(new.clone()).unwrap().reply_to_transactions();
        let error = database.execute(transaction.clone(), &old).unwrap_err();
        assert!(error.to_string().contains("unknown schema"), "{error}");
        assert!(database.execute(transaction.clone(), &new).is_ok());
    }
}
