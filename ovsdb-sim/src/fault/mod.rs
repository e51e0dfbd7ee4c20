//! Faults that tests inject into a server.

mod registry;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use serde::{Deserialize, Serialize};

use crate::session::id::SessionId;

pub(crate) use registry::{Direction, Faults, MAX_FAULTS};

/// Fault on a connection.
///
/// In the control API's JSON: `"drop"`, `{"drop_after_sent":{"bytes":100}}`,
/// `{"lose_reply":"disconnected"}`, `{"delay_replies":{"ms":250}}`,
/// `{"refuse":{"method":"transact","error":{"error":"overloaded"}}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// The connection ends at once, and a future one as soon as it is made. Unwritten bytes are not
    /// sent.
    Drop,
    /// The connection ends when the server has received `bytes` bytes since the fault was set or
    /// the connection was made. Complete requests within these bytes are executed and answered
    /// before.
    DropAfterReceived {
        /// The number of bytes.
        bytes: u64,
    },
    /// The connection ends when the server has sent `bytes` bytes since the fault was set or the
    /// connection was made.
    DropAfterSent {
        /// The number of bytes.
        bytes: u64,
    },
    /// A transaction that changes something is committed, and its reply is lost.
    LoseReply(Loss),
    /// A reply is delayed, and with it everything that is sent after it.
    DelayReplies {
        /// The delay; in milliseconds in the control API.
        #[serde(rename = "ms", with = "milliseconds")]
        #[cfg_attr(feature = "control-api", schemars(with = "u64"))]
        by: Duration,
    },
    /// A request is not executed and is answered with an error.
    Refuse {
        /// Method of the requests. `None`: any method.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// The `error` member of the reply.
        #[serde(with = "ErrorObject")]
        #[cfg_attr(feature = "control-api", schemars(with = "ErrorObject"))]
        error: OvsdbError,
    },
    /// A transaction that would change something is executed and fails at its commit, as on a
    /// server with a full disk. Nothing changes, and its results end with this error.
    FailCommit(
        #[serde(with = "ErrorObject")]
        #[cfg_attr(feature = "control-api", schemars(with = "ErrorObject"))]
        OvsdbError,
    ),
    /// The server does not read from the client, as if it hung, until the fault is cleared.
    StopReading,
}

/// Effect on the connection when the reply to a transaction is lost: [`Fault::LoseReply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The connection stays open. The client's monitors report the changes.
    Swallowed,
    /// The connection ends after the client's monitors have reported the changes.
    Disconnected,
    /// The connection ends before the client's monitors report the changes.
    Crashed,
}

/// Connections that a fault affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// All open and future connections.
    #[default]
    All,
    /// The next connection.
    Next,
    /// One open connection.
    One(ConnectionId),
}

/// Number of a connection. The connections of one simulator are numbered in the order in which they
/// are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ConnectionId(
    #[cfg_attr(feature = "control-api", schemars(with = "u64"))] pub(crate) SessionId,
);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.0, f)
    }
}

/// Number of a fault. The faults of one simulator are numbered in the order in which they are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct FaultId(u64);

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Fault with the connections that it affects and the number of times that it strikes. A [`Fault`]
/// converts to a rule for all connections without an end.
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
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The fault.
    pub fault: Fault,
    /// The connections that the fault affects.
    #[serde(default)]
    pub connections: Connections,
    /// Number of times that the fault strikes. `None`: no end. [`Fault::Drop`], the `DropAfter`
    /// faults and [`Fault::StopReading`] count connections, the others replies, requests or
    /// transactions.
    ///
    /// In the control API's JSON: a number, or `"always"`. A rule that does not say it strikes once.
    #[serde(default = "times::once", with = "times")]
    #[cfg_attr(feature = "control-api", schemars(schema_with = "times::schema"))]
    pub times: Option<NonZeroU32>,
}

impl From<Fault> for FaultRule {
    fn from(fault: Fault) -> Self {
        Self { fault, connections: Connections::All, times: None }
    }
}

impl FaultRule {
    /// Lets the fault strike only once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(NonZeroU32::MIN)
    }

    /// Lets the fault strike `times` times.
    #[must_use]
    pub fn times(mut self, times: NonZeroU32) -> Self {
        self.times = Some(times);
        self
    }

    /// Restricts the fault to the next connection.
    #[must_use]
    pub fn on_next_connection(mut self) -> Self {
        self.connections = Connections::Next;
        self
    }

    /// Restricts the fault to an open connection.
    #[must_use]
    pub fn on_connection(mut self, connection: ConnectionId) -> Self {
        self.connections = Connections::One(connection);
        self
    }
}

/// Fault that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
pub struct FaultStatus {
    /// Number of the fault, with which it can be cleared.
    pub id: FaultId,
    /// The rule. When the next connection is made, [`Connections::Next`] becomes
    /// [`Connections::One`].
    pub rule: FaultRule,
    /// Number of times that the fault has struck.
    pub struck: u64,
}

/// The `<error>` object of RFC 7047.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "control-api", derive(schemars::JsonSchema))]
#[serde(remote = "OvsdbError", deny_unknown_fields)]
struct ErrorObject {
    #[serde(rename = "error")]
    tag: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    syntax: Option<Box<str>>,
    #[serde(default, rename = "io-error", skip_serializing_if = "Option::is_none")]
    io_error: Option<Box<str>>,
}

/// JSON form of a [`Duration`]: a number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// JSON form of the number of times that a fault strikes: a number, or `"always"`.
mod times {
    use std::num::NonZeroU32;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const ALWAYS: &str = "always";

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a nonzero number of times or the word always")]
    enum Times {
        Number(NonZeroU32),
        Word(Word),
    }

    #[derive(Deserialize)]
    enum Word {
        #[serde(rename = "always")]
        Always,
    }

    #[expect(clippy::unnecessary_wraps, reason = "the default of an optional field")]
    pub(super) fn once() -> Option<NonZeroU32> {
        Some(NonZeroU32::MIN)
    }

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde calls"
    )]
    pub(super) fn serialize<S: Serializer>(
        times: &Option<NonZeroU32>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match times {
            Some(times) => times.serialize(to),
            None => ALWAYS.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<NonZeroU32>, D::Error> {
        Ok(match Times::deserialize(from)? {
            Times::Number(times) => Some(times),
            Times::Word(Word::Always) => None,
        })
    }

    #[cfg(feature = "control-api")]
    pub(super) fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Number of times that the fault strikes, or \"always\"",
            "default": 1,
            "oneOf": [{"type": "integer", "minimum": 1}, {"const": ALWAYS}],
        })
    }
}

#[cfg(test)]
mod tests;
