//! Compaction of a database's file: the content is written as one record.

use std::time::Instant;

use patchbay_schemas::error::OvsdbError;

use crate::long_work::run_long;

use super::DatabaseState;

impl DatabaseState {
    /// Compacts the file.
    ///
    /// # Errors
    /// The file could not be written, or that of a cluster has no entry behind its snapshot. It
    /// stays as it is.
    pub(super) fn compact(&mut self) -> Result<(), OvsdbError> {
        let snapshot = self.database.snapshot();
        self.storage.compact(&snapshot)
    }

    /// Compacts the file if it has grown much, as ovsdb-server does. Called after a commit, because
    /// a file does not grow otherwise. A failure is logged: the former file stays in use.
    pub(super) fn compact_if_due(&mut self) {
        if !self.storage.is_compaction_due() {
            return;
        }
        let database = self.database.schema().name.clone();
        let begin = Instant::now();
        match run_long(|| self.compact()) {
            Ok(()) => {
                let elapsed = begin.elapsed();
                tracing::info!(%database, ?elapsed, "compacted the file");
            }
            Err(error) => {
                self.storage.postpone_compaction();
                tracing::warn!(%database, %error, "cannot compact the file");
            }
        }
    }
}
