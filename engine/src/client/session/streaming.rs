//! Decodes the rows of a long message while it is being received.
//!
//! The decoded rows are kept until the message has ended. It is then handled like any other
//! message, so that a message that breaks off has no effect. See [`patchbay_schemas::streaming`].

use patchbay_schemas::json::{Json, TextBuf};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::streaming::StreamedRows;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{Message, MonitorVersion, Reply};

use super::{Session, SessionState};
use crate::client::error::{SessionError, unexpected};
use crate::client::retained_state::RetainedState;

/// Minimum length in bytes of complete rows that are removed from a message. Below it, removing
/// them costs more than it saves.
const MIN_ROWS_BYTES: usize = 32 << 10;

/// Decoding state of the message that is being received.
#[derive(Debug, Default)]
pub(super) enum IncomingMessage {
    /// The content is not known yet.
    #[default]
    Unknown,
    /// The message is decoded as a whole.
    Whole,
    /// The message reports rows, of which these were decoded.
    Rows(StreamedRows),
}

impl IncomingMessage {
    /// Returns the decoded rows and starts the next message.
    pub(super) fn take_rows(&mut self) -> StreamedRows {
        match std::mem::take(self) {
            Self::Rows(rows) => rows,
            Self::Unknown | Self::Whole => StreamedRows::default(),
        }
    }

    /// Starts the next message, after the current one has been handled.
    ///
    /// # Errors
    /// Decoded rows were not used, because the end of the message contradicts its start.
    pub(super) fn finish(&mut self) -> Result<(), SessionError> {
        match std::mem::take(self) {
            Self::Unknown | Self::Whole => Ok(()),
            Self::Rows(_) => {
                Err(unexpected("message", "it does not end as what it began as, a report of rows"))
            }
        }
    }
}

impl Session {
    /// Returns the next complete message, after decoding received rows of the current message that
    /// have not been scanned.
    pub(super) fn next_text(
        &mut self,
        retained: &mut RetainedState,
    ) -> Result<Option<TextBuf>, SessionError> {
        if let IncomingMessage::Rows(rows) = &mut self.incoming
            && let Some((schema, version)) = monitored(&self.state)
            && let Some(unvalidated) = self.rpc.framer().unvalidated_rows()?
        {
            rows.take_unvalidated(unvalidated, schema, version, string_cache(retained));
        }
        Ok(self.rpc.next_text()?)
    }

    /// Decodes the complete rows of a long message that is being received.
    pub(super) fn decode_received_rows(&mut self, retained: &mut RetainedState) {
        let Some(open) = self.rpc.framer().open_rows(MIN_ROWS_BYTES) else {
            return;
        };
        if let IncomingMessage::Unknown = self.incoming {
            let is_report =
                open.head().is_ok_and(|head| is_report(&self.state, &self.config.database, &head));
            self.incoming = if is_report {
                IncomingMessage::Rows(StreamedRows::default())
            } else {
                IncomingMessage::Whole
            };
        }
        if let IncomingMessage::Rows(rows) = &mut self.incoming
            && let Some((schema, version)) = monitored(&self.state)
        {
            rows.take(open, schema, version, string_cache(retained));
        }
    }
}

/// Returns schema and monitor version of the reported rows. `None`: no monitor exists.
fn monitored(state: &SessionState) -> Option<(&DatabaseSchema, MonitorVersion)> {
    match state {
        SessionState::StartingMonitor(starting) => Some((&starting.schema, starting.version)),
        SessionState::Live(following) => Some((&following.schema, following.version)),
        _ => None,
    }
}

/// Returns the cache with which the replica shares strings.
fn string_cache(retained: &mut RetainedState) -> &mut StringCache {
    match &mut retained.replica {
        Some(replica) => replica.strings(),
        None => &mut retained.strings,
    }
}

/// `true` if a message with this head reports rows of the database.
///
/// `false` if that depends on a member that follows the rows.
fn is_report(state: &SessionState, database: &str, head: &TextBuf) -> bool {
    match (state, Message::decode(head)) {
        (
            SessionState::StartingMonitor(starting),
            Ok(Message::Reply(Reply { id: Json::Integer(id), outcome: Ok(_) })),
        ) => id == starting.request,
        (SessionState::Live(following), Ok(Message::Notification { method, mut params })) => {
            method == following.version.update_method()
                && params.enter_array()
                && params.next_element()
                && params.string().as_deref() == Some(database.as_bytes())
        }
        _ => false,
    }
}
