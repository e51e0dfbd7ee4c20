//! The JSON-RPC state of one connection, without its socket (RFC 7047 section 4).

use std::time::{Duration, Instant};

use patchbay_schemas::json::{Framer, Json, JsonError, Text, TextBuf, write};

use super::outgoing::{Outbox, Outgoing, SendPosition, request_head};

/// Id of `echo` requests.
const PROBE_ID: &str = "echo";

/// Maximum number of unsent bytes of replies to the server's own requests. A server that reads its
/// replies never has that many outstanding.
const MAX_UNSENT_REPLY_BYTES: usize = 1 << 20;

/// Framing, outgoing messages, request ids and probes.
#[derive(Debug)]
pub(super) struct Rpc {
    framer: Framer,
    outbox: Outbox,
    /// Bytes of replies queued since the outbox was last empty.
    unsent_reply_bytes: usize,
    last_id: i64,
    /// Time at which the last byte was received.
    last_received: Instant,
    /// Time of the server's last sign of life.
    last_activity: Instant,
    probe_interval: Option<Duration>,
    /// Time of an `echo` request without a sign of life since then.
    probe_sent_at: Option<Instant>,
}

impl Rpc {
    /// A connection that accepts the messages of the framer. `probe_interval` is `None` for no
    /// probes.
    pub(super) fn new(framer: Framer, probe_interval: Option<Duration>, now: Instant) -> Self {
        Self {
            framer,
            outbox: Outbox::default(),
            unsent_reply_bytes: 0,
            last_id: 0,
            last_received: now,
            last_activity: now,
            probe_interval,
            probe_sent_at: None,
        }
    }

    /// Changes the probe interval. `None`: no probes.
    pub(super) fn set_probe_interval(&mut self, interval: Option<Duration>) {
        self.probe_interval = interval;
    }

    /// The buffer for received bytes (then call [`on_received`](Self::on_received)), and the bytes
    /// to send next (then call [`on_sent`](Self::on_sent)).
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &[u8]) {
        (self.framer.buffer_mut(), self.outbox.next())
    }

    pub(super) fn on_received(&mut self, now: Instant) {
        self.last_received = now;
        self.on_send_progress(now);
    }

    /// Handles progress of a write that had to wait, which is a sign of life, as in OVSDB's own
    /// clients. A long request may take longer than the server may be silent. A write that does not
    /// wait is no sign of life, because a dead connection accepts bytes for a while.
    pub(super) fn on_send_progress(&mut self, now: Instant) {
        self.last_activity = now;
        self.probe_sent_at = None;
    }

    pub(super) fn on_sent(&mut self, len: usize) {
        self.outbox.sent(len);
        if self.unsent_bytes() == 0 {
            self.unsent_reply_bytes = 0;
        }
    }

    /// Time at which the last byte was received.
    pub(super) fn last_received(&self) -> Instant {
        self.last_received
    }

    /// `true` if a message was received in part. Call this when no complete message is left.
    pub(super) fn is_receiving(&mut self) -> bool {
        !self.framer.buffer_mut().is_empty()
    }

    /// Number of bytes that wait to be sent. Operations that are not encoded yet are estimated.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.outbox.unsent_bytes()
    }

    /// Position up to which everything has been sent.
    pub(super) fn sent_position(&self) -> SendPosition {
        self.outbox.sent_position()
    }

    /// Takes the next complete message.
    pub(super) fn next_text(&mut self) -> Result<Option<TextBuf>, JsonError> {
        self.framer.next_text()
    }

    /// Returns the received bytes, for decoding a message while it is being received.
    pub(super) fn framer(&mut self) -> &mut Framer {
        &mut self.framer
    }

    /// Queues a request and returns its id.
    pub(super) fn request(&mut self, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> i64 {
        let mut request = request_head(method);
        params(&mut request);
        self.request_from_head(request).0
    }

    /// Queues a request that is complete but for its id: [`request_head`] and the parameters.
    /// Returns the id and the position of the request's end.
    pub(super) fn request_from_head(
        &mut self,
        request: impl Into<Outgoing>,
    ) -> (i64, SendPosition) {
        let mut request = request.into();
        self.last_id += 1;
        let end = request.end();
        end.extend_from_slice(b",\"id\":");
        write::integer(end, self.last_id);
        end.push(b'}');
        (self.last_id, self.outbox.push(request))
    }

    /// Queues the reply to a request: a result, or an error that is a bare string. Returns `false`
    /// if the server does not read its replies.
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
        self.unsent_reply_bytes += answer.len();
        self.outbox.push(answer.into());
        self.unsent_reply_bytes <= MAX_UNSENT_REPLY_BYTES
    }

    /// `true` if `id` is that of an `echo` request of this client.
    pub(super) fn is_probe(id: &Json) -> bool {
        id.as_str() == Some(PROBE_ID)
    }

    /// Time at which to call [`on_deadline`](Self::on_deadline).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.probe_sent_at.unwrap_or(self.last_activity).checked_add(self.probe_interval?)
    }

    /// Sends an `echo` request if one is due. Fails with the duration of the silence if there was
    /// no sign of life after the last one.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Result<(), Duration> {
        match self.deadline() {
            Some(deadline) if deadline <= now => {}
            _ => return Ok(()),
        }
        if self.probe_sent_at.is_some() {
            return Err(now - self.last_activity);
        }
        self.probe_sent_at = Some(now);
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
            rpc.on_sent(len);
        }
    }

    #[test]
    fn requests_have_ids_and_end_positions() {
        let mut rpc = Rpc::new(Framer::new(1000), None, Instant::now());
        assert_eq!(rpc.request("list_dbs", |out| out.extend_from_slice(b"[]")), 1);
        let mut big = request_head("x");
        big.extend_from_slice(&[b' '; 16_384]);
        big.extend_from_slice(b"[]");
        let (id, end) = rpc.request_from_head(big);
        assert_eq!(id, 2);
        let unsent = rpc.unsent_bytes();
        assert!(rpc.sent_position() < end);
        let out = output(&mut rpc);
        assert!(
            out.starts_with(r#"{"method":"list_dbs","params":[],"id":1}{"method":"x","params": "#)
        );
        assert!(out.ends_with(r#"[],"id":2}"#));
        assert_eq!((out.len(), rpc.unsent_bytes()), (unsent, 0));
        assert!(rpc.sent_position() >= end);
    }

    #[test]
    fn a_silent_server_is_probed_and_then_reported() {
        let start = Instant::now();
        let mut rpc = Rpc::new(Framer::new(1000), Some(5 * SECOND), start);
        assert_eq!(rpc.deadline(), Some(start + 5 * SECOND));
        assert_eq!(rpc.on_deadline(start + 4 * SECOND), Ok(()));
        assert_eq!(output(&mut rpc), "");
        assert_eq!(rpc.on_deadline(start + 6 * SECOND), Ok(()));
        assert_eq!(output(&mut rpc), r#"{"method":"echo","params":[],"id":"echo"}"#);
        assert_eq!(rpc.deadline(), Some(start + 11 * SECOND));

        rpc.on_received(start + 10 * SECOND);
        assert_eq!(rpc.on_deadline(start + 11 * SECOND), Ok(()));
        assert_eq!(rpc.deadline(), Some(start + 15 * SECOND));
        rpc.on_deadline(start + 15 * SECOND).unwrap();
        assert_eq!(rpc.on_deadline(start + 20 * SECOND), Err(10 * SECOND));
    }

    #[test]
    fn progress_of_a_waiting_write_is_a_sign_of_life() {
        let start = Instant::now();
        let mut rpc = Rpc::new(Framer::new(1000), Some(5 * SECOND), start);
        for seconds in (4..40).step_by(4) {
            rpc.on_deadline(start + seconds * SECOND).unwrap();
            rpc.on_send_progress(start + seconds * SECOND);
        }
        assert_eq!(output(&mut rpc), "");
        assert_eq!(rpc.deadline(), Some(start + 41 * SECOND));
        // Sending a probe without waiting is no sign of life.
        rpc.on_deadline(start + 41 * SECOND).unwrap();
        assert!(!output(&mut rpc).is_empty());
        assert_eq!(rpc.on_deadline(start + 46 * SECOND), Err(10 * SECOND));
    }

    #[test]
    fn without_an_interval_there_are_no_probes() {
        let start = Instant::now();
        let mut rpc = Rpc::new(Framer::new(1000), None, start);
        assert_eq!(rpc.deadline(), None);
        assert_eq!(rpc.on_deadline(start + 1000 * SECOND), Ok(()));
        assert_eq!(output(&mut rpc), "");
    }
}
