//! What a server does wrong because a test wants it to.

mod registry;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use serde::{Deserialize, Serialize};

use crate::session::SessionId;

pub(crate) use registry::{Direction, Faults};

/// Something that goes wrong on a connection.
///
/// In the control API's JSON: `"drop"`, `{"drop_after_sent":{"bytes":100}}`, `{"lose_reply":"disconnected"}`,
/// `{"delay_replies":{"ms":250}}`, `{"refuse":{"method":"transact","error":{"error":"overloaded"}}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// The connection ends at once, one to come as soon as it is made. What was to be sent is not sent.
    Drop,
    /// The connection ends when the server has received so many bytes, counted from when the fault is set or the
    /// connection begins. What these bytes ask for is done and answered before.
    DropAfterReceived {
        /// How many.
        bytes: u64,
    },
    /// The connection ends when so many bytes have been sent to the client, counted from when the fault is set or the
    /// connection begins.
    DropAfterSent {
        /// How many.
        bytes: u64,
    },
    /// A transaction that changes something is committed and never answered.
    LoseReply(Loss),
    /// A reply is held back, and with it whatever is sent after it.
    DelayReplies {
        /// For so long; milliseconds in the control API.
        #[serde(rename = "ms", with = "milliseconds")]
        by: Duration,
    },
    /// A request is not looked at and answered with an error.
    Refuse {
        /// Requests of this method; none for those of any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// The `error` member of the reply.
        #[serde(with = "ErrorObject")]
        error: OvsdbError,
    },
    /// A transaction that would change something is executed and fails at its commit, as on a server whose disk is
    /// full: nothing has changed, and its results end with this error.
    FailCommit(#[serde(with = "ErrorObject")] OvsdbError),
    /// The server does not look at what the client sends, as if it hung, until the fault is cleared.
    StopReading,
}

/// What becomes of the connection when the reply to a transaction is [lost](Fault::LoseReply).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// It goes on; monitors tell the client of the changes.
    Swallowed,
    /// It ends after monitors have told the client of the changes.
    Disconnected,
    /// It ends before monitors tell the client of the changes.
    Crashed,
}

/// The connections on which something goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Those that are there and those to come.
    #[default]
    All,
    /// The one that is made next.
    Next,
    /// This one.
    One(ConnectionId),
}

/// Tells the connections of one simulator apart. They are numbered in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub(crate) SessionId);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.0, f)
    }
}

/// Tells the faults of one simulator apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(u64);

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What goes wrong, where and how often. A [`Fault`] alone goes wrong everywhere and always.
///
/// ```
/// use ovsdb_sim::{Fault, FaultRule, Loss};
///
/// let rule = FaultRule::from(Fault::LoseReply(Loss::Disconnected)).on_next_connection().once();
/// let text = r#"{"fault":{"lose_reply":"disconnected"},"connections":"next","times":1}"#;
/// assert_eq!(serde_json::from_str::<FaultRule>(text)?, rule);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// What.
    pub fault: Fault,
    /// Where.
    #[serde(default)]
    pub connections: Connections,
    /// How often; none for always. [`Fault::Drop`] and [`Fault::StopReading`] count connections, the others what their
    /// documentation speaks of: replies, requests, transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<NonZeroU32>,
}

impl From<Fault> for FaultRule {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            connections: Connections::All,
            times: None,
        }
    }
}

impl FaultRule {
    /// Only once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(NonZeroU32::MIN)
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: NonZeroU32) -> Self {
        self.times = Some(times);
        self
    }

    /// Only on the connection that is made next.
    #[must_use]
    pub fn on_next_connection(mut self) -> Self {
        self.connections = Connections::Next;
        self
    }

    /// Only on this connection.
    #[must_use]
    pub fn on_connection(mut self, connection: ConnectionId) -> Self {
        self.connections = Connections::One(connection);
        self
    }
}

/// A fault that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// To clear it.
    pub id: FaultId,
    /// As it was set, except that [`Connections::Next`] becomes [`Connections::One`] when there is a next one.
    pub rule: FaultRule,
    /// How often it has gone wrong.
    pub struck: u64,
}

/// The `<error>` object of RFC 7047.
#[derive(Serialize, Deserialize)]
#[serde(remote = "OvsdbError", deny_unknown_fields)]
struct ErrorObject {
    #[serde(rename = "error")]
    tag: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    syntax: Option<String>,
}

/// A [`Duration`] as a number.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u64::try_from(time.as_millis())
            .unwrap_or(u64::MAX)
            .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests;
