//! Rows are decoded while the message that reports them arrives: that of a large database is never there as a whole.
//!
//! What was decoded waits for the end of the message, which is then dealt with like any other. Only there is found
//! whether all of it makes sense, so that a message that breaks off changes nothing.

use patchbay_schemas::json::{Json, TextBuf};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::Strings;
use patchbay_schemas::wire::{ArrivedRows, Message, MonitorVersion, Reply};

use super::{Session, SessionState};
use crate::client::error::{SessionError, unexpected};
use crate::client::retained_state::RetainedState;

/// What is done with a message that is arriving.
#[derive(Debug, Default)]
pub(super) enum Partial {
    /// It is not known yet what it is.
    #[default]
    Unknown,
    /// It is awaited as a whole.
    Awaited,
    /// It reports rows; these have come.
    Rows(ArrivedRows),
}

impl Partial {
    /// The rows that have come.
    pub(super) fn take_rows(&mut self) -> ArrivedRows {
        match std::mem::take(self) {
            Self::Rows(rows) => rows,
            Self::Unknown | Self::Awaited => ArrivedRows::default(),
        }
    }

    /// The message has ended and was dealt with.
    pub(super) fn end(&mut self) -> Result<(), SessionError> {
        match std::mem::take(self) {
            Self::Unknown | Self::Awaited => Ok(()),
            Self::Rows(_) => Err(unexpected(
                "message",
                "it does not end as what it began as, a report of rows",
            )),
        }
    }
}

impl Session {
    /// The next whole message. Of one that reports rows, those are decoded first that nobody has looked at.
    pub(super) fn next_text(
        &mut self,
        retained: &mut RetainedState,
    ) -> Result<Option<TextBuf>, SessionError> {
        if let Partial::Rows(rows) = &mut self.partial
            && let Some((schema, version)) = reported(&self.state)
            && let Some(unproven) = self.rpc.unproven()?
        {
            rows.take_unproven(unproven, schema, version, shared_strings(retained));
        }
        Ok(self.rpc.next_text()?)
    }

    /// Decodes what has arrived of a long message.
    pub(super) fn decode_what_has_arrived(&mut self, retained: &mut RetainedState) {
        let Some(arriving) = self.rpc.arriving() else {
            return;
        };
        if let Partial::Unknown = self.partial {
            let is_report = arriving
                .head()
                .is_ok_and(|head| is_report(&self.state, &self.config.database, &head));
            self.partial = if is_report {
                Partial::Rows(ArrivedRows::default())
            } else {
                Partial::Awaited
            };
        }
        if let Partial::Rows(rows) = &mut self.partial
            && let Some((schema, version)) = reported(&self.state)
        {
            rows.take(arriving, schema, version, shared_strings(retained));
        }
    }
}

/// What the rows that are reported are of.
fn reported(state: &SessionState) -> Option<(&DatabaseSchema, MonitorVersion)> {
    match state {
        SessionState::StartingMonitor(starting) => Some((&starting.schema, starting.version)),
        SessionState::Live(following) => Some((&following.schema, following.version)),
        _ => None,
    }
}

fn shared_strings(retained: &mut RetainedState) -> &mut Strings {
    match &mut retained.replica {
        Some(replica) => replica.strings(),
        None => &mut retained.strings,
    }
}

/// Whether a message that begins so reports rows of the database. Where this cannot be told yet, because a member
/// comes later, it does not.
fn is_report(state: &SessionState, database: &str, head: &TextBuf) -> bool {
    match (state, Message::decode(head)) {
        (
            SessionState::StartingMonitor(starting),
            Ok(Message::Reply(Reply {
                id: Json::Integer(id),
                outcome: Ok(_),
            })),
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
