//! A hosted database gets another schema (`convert` in ovsdb-server(7)).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;

use super::Hosted;

impl Hosted {
    /// Puts the database under another schema. All its monitors and waiting transactions end; clients that are
    /// aware of changes are told.
    ///
    /// # Errors
    /// The content does not fit, or the database may not be converted. Nothing changed.
    pub(crate) fn convert(&self, schema: Arc<DatabaseSchema>) -> Result<(), OvsdbError> {
        let refuse = |why| {
            let details = format!("conversion of database {} is not allowed: {why}", self.name);
            Err(OvsdbError::new("not allowed", details))
        };
        if self.reserved {
            return refuse("it is the server's own");
        }
        let mut state = self.state();
        if state.journal.is_some() {
            return refuse("its journal has the old schema");
        }
        state.database.convert(schema)?;
        let monitors = state.monitors.remove_all();
        let blocked = std::mem::take(&mut state.blocked).into_transactions();
        // Sessions take the lock of their monitors before that of the state.
        drop(state);
        for (session, id) in monitors {
            if session.is_change_aware() {
                session.monitor_canceled(&id);
            }
        }
        for transaction in blocked {
            transaction.refuse();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use patchbay_engine::db::Database;
    use patchbay_schemas::wire::DecodedTransaction;

    use super::*;

    /// Its tables and columns would be others.
    #[test]
    fn a_transaction_for_the_old_schema_is_refused() {
        let schema = |column: &str| {
            let text = format!(
                r#"{{"name":"D","tables":{{"T":{{"columns":{{"{column}":{{"type":"integer"}}}}}}}}}}"#
            );
            Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap())
        };
        let (old, new) = (schema("i"), schema("j"));
        let hosted = Arc::new(Hosted::new(Database::new(old.clone()), None, false));
        let transaction = DecodedTransaction::default();
        assert!(hosted.execute(&transaction, &old).is_ok());
        hosted.convert(new.clone()).unwrap();
        let error = hosted.execute(&transaction, &old).unwrap_err();
        assert!(error.to_string().contains("unknown schema"), "{error}");
        assert!(hosted.execute(&transaction, &new).is_ok());
    }
}
