//! One JSON-RPC connection without its socket: received bytes in, messages out; messages in, bytes to send out.

use std::time::{Duration, Instant};

use patchbay_schemas::json::{Framer, Json, JsonError, Text, TextBuf, write};

use super::outgoing::{Outbox, Outgoing, Place, request_head};

/// The id of the requests that only ask for a sign of life.
const PROBE_ID: &str = "echo";

/// How many bytes of answers may wait to be sent: far more than a server asks for that reads what it gets.
const MAX_ANSWERS: usize = 1 << 20;

/// The connection's state besides what the messages mean.
#[derive(Debug)]
pub(super) struct Rpc {
    framer: Framer,
    outbox: Outbox,
    /// The length of the answers since nothing waited to be sent.
    answers: usize,
    last_id: i64,
    /// When the last byte was received.
    heard: Instant,
    /// When the server last gave a sign of life.
    active: Instant,
    probe: Option<Duration>,
    /// When the server was asked for a sign of life that it has not given yet.
    probed: Option<Instant>,
}

impl Rpc {
    /// A connection that accepts messages of up to `max_message` bytes.
    pub(super) fn new(max_message: usize, probe: Option<Duration>, now: Instant) -> Self {
        Self {
            framer: Framer::new(max_message),
            outbox: Outbox::default(),
            answers: 0,
            last_id: 0,
            heard: now,
            active: now,
            probe,
            probed: None,
        }
    }

    /// Where to append received bytes (then call [`received`](Self::received)), and what to send next (then call
    /// [`sent`](Self::sent)).
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &[u8]) {
        (self.framer.buffer_mut(), self.outbox.next())
    }

    pub(super) fn received(&mut self, now: Instant) {
        self.heard = now;
        self.moved(now);
    }

    /// Bytes that had to wait because too many were on their way to the server have been taken from us. That is a sign of
    /// life, as in OVSDB's own clients: a long request may take longer than the server may be silent. Bytes that need not wait
    /// are none; a connection that is dead takes many of them.
    pub(super) fn moved(&mut self, now: Instant) {
        self.active = now;
        self.probed = None;
    }

    pub(super) fn sent(&mut self, len: usize) {
        self.outbox.sent(len);
        if self.unsent() == 0 {
            self.answers = 0;
        }
    }

    /// When the last byte was received.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Whether a message has arrived in part; to be asked when there is no whole one.
    pub(super) fn is_receiving(&mut self) -> bool {
        !self.framer.buffer_mut().is_empty()
    }

    /// How many bytes wait to be sent; what is not encoded yet is counted by operations.
    pub(super) fn unsent(&self) -> usize {
        self.outbox.unsent()
    }

    /// Up to where everything has been sent.
    pub(super) fn sent_up_to(&self) -> Place {
        self.outbox.sent_up_to()
    }

    /// The next complete message.
    pub(super) fn next_text(&mut self) -> Result<Option<TextBuf>, JsonError> {
        self.framer.next_text()
    }

    /// Returns the received bytes, for decoding a message while it is being received.
    pub(super) fn framer(&mut self) -> &mut Framer {
        &mut self.framer
    }

    /// Sends a request and returns its id.
    pub(super) fn request(&mut self, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> i64 {
        let mut request = request_head(method);
        params(&mut request);
        self.request_from_head(request).0
    }

    /// Sends a request of which everything is there but the id: [`request_head`] and the parameters. Returns its id,
    /// and up to where in what is sent it goes.
    pub(super) fn request_from_head(&mut self, request: impl Into<Outgoing>) -> (i64, Place) {
        let mut request = request.into();
        self.last_id += 1;
        let end = request.end();
        end.extend_from_slice(b",\"id\":");
        write::integer(end, self.last_id);
        end.push(b'}');
        (self.last_id, self.outbox.push(request))
    }

    /// Answers a request: with a result, or with an error that is a bare string. False when the server asks for more
    /// than it reads.
    #[must_use]
    pub(super) fn answer(&mut self, id: &Json, outcome: Result<Text<'_>, &str>) -> bool {
        let mut answer = b"{\"result\":".to_vec();
        match outcome {
            Ok(result) => {
                answer.extend_from_slice(result.bytes());
                answer.extend_from_slice(b",\"error\":null");
            }
            Err(error) => {
                answer.extend_from_slice(b"null,\"error\":");
                write::string(&mut answer, error.as_bytes());
            }
        }
        answer.extend_from_slice(b",\"id\":");
        id.write(&mut answer);
        answer.push(b'}');
        self.answers += answer.len();
        self.outbox.push(answer.into());
        self.answers <= MAX_ANSWERS
    }

    /// Whether an id is that of a probe.
    pub(super) fn is_probe(id: &Json) -> bool {
        id.as_str() == Some(PROBE_ID)
    }

    /// When to call [`on_deadline`](Self::on_deadline).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.probed.unwrap_or(self.active).checked_add(self.probe?)
    }

    /// Asks for a sign of life, or returns for how long there has been none.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Result<(), Duration> {
        match self.deadline() {
            Some(deadline) if deadline <= now => {}
            _ => return Ok(()),
        }
        if self.probed.is_some() {
            return Err(now - self.active);
        }
        self.probed = Some(now);
        let mut request = b"{\"method\":\"echo\",\"params\":[],\"id\":".to_vec();
        write::string(&mut request, PROBE_ID.as_bytes());
        request.push(b'}');
        self.outbox.push(request.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn output(rpc: &mut Rpc) -> String {
        let mut out = String::new();
        loop {
            let (_, next) = rpc.buffers();
            if next.is_empty() {
                return out;
            }
            out.push_str(std::str::from_utf8(next).unwrap());
            let len = next.len();
            rpc.sent(len);
        }
    }

    #[test]
    fn requests_have_ids_and_places_in_what_is_sent() {
        let mut rpc = Rpc::new(1000, None, Instant::now());
        assert_eq!(
            rpc.request("list_dbs", |out| out.extend_from_slice(b"[]")),
            1
        );
        let mut big = request_head("x");
        big.extend_from_slice(&[b' '; 16_384]);
        big.extend_from_slice(b"[]");
        let (id, end) = rpc.request_from_head(big);
        assert_eq!(id, 2);
        let unsent = rpc.unsent();
        assert!(rpc.sent_up_to() < end);
        let out = output(&mut rpc);
        assert!(
            out.starts_with(r#"{"method":"list_dbs","params":[],"id":1}{"method":"x","params": "#)
        );
        assert!(out.ends_with(r#"[],"id":2}"#));
        assert_eq!((out.len(), rpc.unsent()), (unsent, 0));
        assert!(rpc.sent_up_to() >= end);
    }

    #[test]
    fn silence_is_probed_and_then_reported() {
        let start = Instant::now();
        let mut rpc = Rpc::new(1000, Some(5 * SECOND), start);
        assert_eq!(rpc.deadline(), Some(start + 5 * SECOND));
        assert_eq!(rpc.on_deadline(start + 4 * SECOND), Ok(()));
        assert_eq!(output(&mut rpc), "");
        assert_eq!(rpc.on_deadline(start + 6 * SECOND), Ok(()));
        assert_eq!(
            output(&mut rpc),
            r#"{"method":"echo","params":[],"id":"echo"}"#
        );
        assert_eq!(rpc.deadline(), Some(start + 11 * SECOND));

        rpc.received(start + 10 * SECOND);
        assert_eq!(rpc.on_deadline(start + 11 * SECOND), Ok(()));
        assert_eq!(rpc.deadline(), Some(start + 15 * SECOND));
        rpc.on_deadline(start + 15 * SECOND).unwrap();
        assert_eq!(rpc.on_deadline(start + 20 * SECOND), Err(10 * SECOND));
    }

    #[test]
    fn who_takes_what_had_to_wait_is_not_silent() {
        let start = Instant::now();
        let mut rpc = Rpc::new(1000, Some(5 * SECOND), start);
        for seconds in (4..40).step_by(4) {
            rpc.on_deadline(start + seconds * SECOND).unwrap();
            rpc.moved(start + seconds * SECOND);
        }
        assert_eq!(output(&mut rpc), "");
        assert_eq!(rpc.deadline(), Some(start + 41 * SECOND));
        // A probe that is taken at once is no sign of life.
        rpc.on_deadline(start + 41 * SECOND).unwrap();
        assert!(!output(&mut rpc).is_empty());
        assert_eq!(rpc.on_deadline(start + 46 * SECOND), Err(10 * SECOND));
    }

    #[test]
    fn without_an_interval_nothing_is_probed() {
        let start = Instant::now();
        let mut rpc = Rpc::new(1000, None, start);
        assert_eq!(rpc.deadline(), None);
        assert_eq!(rpc.on_deadline(start + 1000 * SECOND), Ok(()));
        assert_eq!(output(&mut rpc), "");
    }
}
