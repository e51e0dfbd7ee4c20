//! Splitting of transactions that are too large for one request.

use super::builder::TxnBuilder;
use super::error::SplitError;
use super::transaction::Transaction;

impl TxnBuilder {
    /// Finishes the transaction in as few parts as possible, each with a request of at most `limit`
    /// bytes.
    ///
    /// Splits occur only where [`allow_split`](Self::allow_split) was called. Commit the parts in
    /// order, see [`Client::transact_parts`](crate::client::Client::transact_parts). Other clients
    /// see the states between the parts. A row of a non-root table that no row refers to at the end
    /// of a part does not exist in the next part.
    ///
    /// ```
    /// use patchbay_engine::db::Snapshot;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalSwitch};
    ///
    /// let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
    /// for i in 0..100 {
    ///     txn.insert(&LogicalSwitch { name: format!("sw{i}"), ..Default::default() })?;
    ///     txn.allow_split();
    /// }
    /// let parts = txn.finish_split(4000)?;
    /// assert!(parts.len() > 1 && parts.len() < 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The operations between two calls of [`allow_split`](Self::allow_split) exceed the limit.
    pub fn finish_split(self, limit: usize) -> Result<Vec<Transaction>, SplitError> {
        let mut parts: Vec<Transaction> = Vec::new();
        let mut last_bytes = 0;
        for section in self.finish_sections().filter(|section| !section.is_empty()) {
            let bytes = section.request_bytes();
            if bytes > limit {
                return Err(SplitError::TooLarge { bytes, limit });
            }
            match parts.last_mut() {
                Some(last) if last_bytes + bytes <= limit => {
                    last.operations.extend(section.operations);
                    last_bytes += bytes;
                }
                _ => {
                    parts.push(section);
                    last_bytes = bytes;
                }
            }
        }
        Ok(parts)
    }
}
