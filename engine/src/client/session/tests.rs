//! Sessions with a server that the test scripts.

mod misbehaving;
mod setup;
mod streaming;
mod updates;

use std::time::Duration;

use patchbay_schemas::json::Framer;

use super::*;
use crate::client::filter::{Filter, FilterChange, FilterError};

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{"name":{"type":"string"},
    "set":{"type":{"key":"string","min":0,"max":"unlimited"}}}}}}"#;
/// Contents of `_Server` of a standalone server.
const SERVER: &str = r#"{"Database":{"00000000-0000-4000-8000-00000000000d":{"initial":{"name":"D","model":"standalone","connected":true,"leader":true}}}}"#;
/// Contents of `_Server` of a cluster member.
const MEMBER: &str = r#"{"Database":{"00000000-0000-4000-8000-00000000000d":{"initial":{"name":"D","model":"clustered","connected":true,"leader":true,"index":7}}}}"#;
const ROW: &str = "00000000-0000-4000-8000-000000000001";
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// A session and the script of its server.
struct Scene {
    session: Session,
    retained: RetainedState,
    now: Instant,
    received: Framer,
}

impl Scene {
    fn new() -> Self {
        Self::with(Config::new(Remote::Unix("x".into()).into(), "D"), &Remote::Unix("x".into()))
    }

    fn with(config: Config, remote: &Remote) -> Self {
        let now = Instant::now();
        let retained = RetainedState::new(&config);
        let session = Session::new(Arc::new(config), remote, "patchbay_1".into(), now);
        Self { session, retained, now, received: Framer::new(usize::MAX) }
    }

    /// Takes the messages that the session has sent.
    fn take_sent(&mut self) -> Vec<String> {
        loop {
            let (_, output) = self.session.buffers();
            let len = output.len();
            self.received.push(output);
            self.session.on_sent(len);
            if len == 0 {
                break;
            }
        }
        let texts = std::iter::from_fn(|| self.received.next_text().unwrap());
        texts.map(|text| String::from_utf8(text.as_text().bytes().to_vec()).unwrap()).collect()
    }

    /// Sends messages to the session and returns its events.
    fn send(&mut self, messages: &str) -> Result<Vec<SessionEvent>, SessionError> {
        self.session.buffers().0.extend_from_slice(messages.as_bytes());
        self.session.on_received(self.now);
        std::iter::from_fn(|| self.session.next_event(&mut self.retained).transpose()).collect()
    }

    /// Replies to all requests before the monitor.
    fn until_monitor(&mut self) {
        self.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
        self.send(r#"{"id":2,"result":{"locked":true},"error":null}"#).unwrap();
        self.send(r#"{"id":3,"result":{},"error":null}"#).unwrap();
        self.send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#)).unwrap();
        self.take_sent();
    }

    /// Replies to all requests up to the live state, with a row named `a`.
    fn until_live(&mut self) {
        self.until_monitor();
        let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"a"}}}}}}}}"#);
        let events =
            self.send(&format!(r#"{{"id":5,"result":[false,"{ZERO}",{contents}],"error":null}}"#));
        assert!(matches!(events.unwrap()[..], [SessionEvent::ReplicaReady(_)]));
        self.check_schema();
    }

    /// Replies to the second request for the schema with the same schema.
    fn check_schema(&mut self) {
        assert_eq!(self.take_sent(), [r#"{"method":"get_schema","params":["D"],"id":6}"#]);
        let answer = format!(r#"{{"id":6,"result":{SCHEMA},"error":null}}"#);
        assert!(self.send(&answer).unwrap().is_empty());
    }

    /// Starts another connection of the same client.
    fn connect_again(&mut self) {
        let remote = Remote::Unix("x".into());
        let config = self.session.config.clone();
        self.session = Session::new(config, &remote, "patchbay_1".into(), self.now);
    }

    fn update3(&mut self, row_update: &str) -> Result<Vec<SessionEvent>, SessionError> {
        self.send(&format!(
            r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"T":{{"{ROW}":{row_update}}}}}]}}"#
        ))
    }

    /// Returns the names in the replica.
    fn names(&self) -> Vec<String> {
        let snapshot = self.retained.replica.as_ref().unwrap().snapshot();
        let (id, table) = snapshot.schema().table_by_name("T").unwrap();
        let name = table.column_id("name").unwrap();
        snapshot.table(id).iter().map(|row| row.get(name).to_string()).collect()
    }
}
