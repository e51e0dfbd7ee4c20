//! A hosted database gets another schema (`convert` in ovsdb-server(7)).

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;

use super::Hosted;
use super::canceled::Canceled;

impl Hosted {
    /// Puts the database under another schema. All its monitors end; clients that are aware of changes are told. So do
    /// the transactions that wait, which are left to be refused.
    ///
    /// # Errors
    /// The content does not fit, or the database may not be converted. Nothing changed.
    pub(crate) fn convert(&self, schema: Arc<DatabaseSchema>) -> Result<Canceled, OvsdbError> {
        let refuse = |why| {
            let details = format!("conversion of database {} is not allowed: {why}", self.name);
            Err(OvsdbError::new("not allowed", details))
        };
        if self.listing.is_none() {
            return refuse("it is the server's own");
        }
        let mut state = self.state();
        state.served()?;
        if state.history.is_some() && has_ephemeral_columns(&schema) {
            return refuse("clusters do not support ephemeral columns");
        }
        if !state.role.is_connected() {
            return refuse("its cluster has no leader");
        }
        let former = state.database.convert(schema)?;
        let snapshot = state.database.snapshot();
        if let Some(journal) = &mut state.journal
            && let Err(error) = journal.rewrite(&snapshot)
        {
            tracing::error!(database = self.name, %error, "a conversion fails because it cannot be written");
            state.database.revert_conversion(former);
            return Err(error);
        }
        if let Some(history) = &mut state.history {
            history.restart(&snapshot);
        }
        drop(snapshot);
        // No transaction, but whoever follows the content looks again.
        state.commits.send_modify(|_| {});
        let mut canceled = state.cancel_all();
        // Sessions take the lock of their monitors before that of the state.
        drop(state);
        self.update_listing();
        canceled.end_monitors();
        Ok(canceled)
    }
}

fn has_ephemeral_columns(schema: &DatabaseSchema) -> bool {
    let mut columns = schema.tables.iter().flat_map(|table| &table.columns);
    columns.any(|column| column.ephemeral)
}

/// The schema with all columns persistent, as those of clusters are; none when it has no others.
pub(crate) fn without_ephemeral_columns(schema: &DatabaseSchema) -> Option<DatabaseSchema> {
    if !has_ephemeral_columns(schema) {
        return None;
    }
    let mut schema = schema.clone();
    for table in &mut schema.tables {
        for column in &mut table.columns {
            column.ephemeral = false;
        }
    }
    Some(schema)
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::wire::DecodedTransaction;

    use crate::Sim;

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
        let sim = Sim::builder().schema(old.clone()).build().unwrap();
        let hosted = sim.hosted("D").unwrap();
        let transaction = DecodedTransaction::default();
        assert!(hosted.execute(transaction.clone(), &old).is_ok());
        hosted.convert(new.clone()).unwrap().refuse();
        let error = hosted.execute(transaction.clone(), &old).unwrap_err();
        assert!(error.to_string().contains("unknown schema"), "{error}");
        assert!(hosted.execute(transaction.clone(), &new).is_ok());
    }
}
