//! The locks that a client has requested, and the state of each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, TextBuf};
use patchbay_schemas::wire::{Message, Reply};
use tokio::sync::{Notify, watch};

use super::LockLost;
use crate::client::error::{ConnectionFailure, SessionError, reply_error, unexpected};

/// Way in which a lock is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum LockMode {
    /// `lock`: wait in the server's queue.
    Wait,
    /// `steal`: take it from its owner.
    Steal,
}

/// A notification of the server about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum LockNotification {
    /// `locked`: the client owns the lock. Servers may repeat it.
    Locked,
    /// `stolen`: the client no longer owns the lock.
    Stolen,
}

/// State of a lock, as its handles see it.
#[derive(Clone, Debug, Default)]
pub(in crate::client) struct LockState {
    /// Number of the current or last ownership. The first is 1.
    pub(super) ownership: u64,
    pub(super) held: bool,
    /// Reason for which the last ownership is over.
    pub(super) lost: Option<LockLost>,
    /// Error with which the server rejected the request.
    pub(super) refused: Option<OvsdbError>,
}

/// The locks of one client. Handles request and release them; the driver exchanges messages with
/// the server.
#[derive(Debug, Default)]
pub(in crate::client) struct LockRequests {
    table: Mutex<LockTable>,
    requests_added: Notify,
}

#[derive(Debug, Default)]
struct LockTable {
    wanted: BTreeMap<Arc<str>, RequestedLock>,
    /// Locks for which an `unlock` request is to be sent.
    released: Vec<Arc<str>>,
    /// `true` if a request is to be sent.
    dirty: bool,
    /// Ids of requests whose replies are ignored.
    ignored: BTreeSet<i64>,
}

#[derive(Debug)]
struct RequestedLock {
    mode: LockMode,
    asked: LockRequest,
    state: watch::Sender<LockState>,
}

/// State of a request on the current connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockRequest {
    No,
    /// Sent with this id. Notifications before the reply belong to an earlier request.
    Unanswered(i64),
    Answered,
}

impl LockState {
    /// `true` while the ownership with this number lasts.
    pub(super) fn is(&self, ownership: u64) -> bool {
        self.held && self.ownership == ownership
    }
}

impl LockRequests {
    /// Adds a request for a lock. `None`: the client has requested it already.
    pub(super) fn request(
        &self,
        name: &Arc<str>,
        mode: LockMode,
    ) -> Option<watch::Receiver<LockState>> {
        let mut table = self.lock();
        if table.wanted.contains_key(name) {
            return None;
        }
        let (state, seen) = watch::channel(LockState::default());
        let wanted = RequestedLock { mode, asked: LockRequest::No, state };
        table.wanted.insert(name.clone(), wanted);
        self.notify_driver(table);
        Some(seen)
    }

    /// Releases a lock.
    pub(super) fn release(&self, name: &Arc<str>) {
        let mut table = self.lock();
        if let Some(mut wanted) = table.wanted.remove(name) {
            wanted.set_lost(LockLost::Released);
            match wanted.asked {
                LockRequest::No => {}
                LockRequest::Unanswered(request) => {
                    table.ignored.insert(request);
                    table.released.push(name.clone());
                }
                LockRequest::Answered => table.released.push(name.clone()),
            }
        }
        self.notify_driver(table);
    }

    /// `true` if any lock is requested or held.
    pub(in crate::client) fn has_requests(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// Waits until there may be requests to send.
    pub(in crate::client) async fn wait_for_requests(&self) {
        self.requests_added.notified().await;
    }

    /// Sends all outstanding requests. `send` sends a request for a method and a lock name, and
    /// returns its id.
    pub(in crate::client) fn send_requests(&self, mut send: impl FnMut(&'static str, &str) -> i64) {
        let mut table = self.lock();
        if !std::mem::take(&mut table.dirty) {
            return;
        }
        for name in std::mem::take(&mut table.released) {
            let request = send("unlock", &name);
            table.ignored.insert(request);
        }
        for (name, wanted) in &mut table.wanted {
            if wanted.asked == LockRequest::No {
                let method = match wanted.mode {
                    LockMode::Wait => "lock",
                    LockMode::Steal => "steal",
                };
                wanted.asked = LockRequest::Unanswered(send(method, name));
            }
        }
    }

    /// Handles a reply. Returns `false` if its request is not about a lock.
    pub(in crate::client) fn handle_reply(
        &self,
        request: i64,
        reply: &TextBuf,
    ) -> Result<bool, SessionError> {
        let mut table = self.lock();
        if table.ignored.remove(&request) {
            return Ok(true);
        }
        let mut wanted = table.wanted.iter_mut();
        let asked = wanted.find(|(_, wanted)| wanted.asked == LockRequest::Unanswered(request));
        let Some((name, wanted)) = asked else {
            return Ok(false);
        };
        wanted.asked = LockRequest::Answered;
        let Message::Reply(Reply { outcome, .. }) = Message::decode(reply)? else {
            return Err(unexpected("lock", "it is not a reply"));
        };
        match outcome.map_err(reply_error) {
            Ok(mut at) => match Json::read(&mut at).get("locked") {
                Some(Json::Bool(true)) => wanted.set_held(name),
                Some(Json::Bool(false)) => {}
                _ => return Err(unexpected("lock", "it has no boolean member `locked`")),
            },
            Err(error) => {
                tracing::warn!(lock = %name, %error, "the server rejected the request for the lock");
                wanted.state.send_modify(|state| state.refused = Some(error));
            }
        }
        Ok(true)
    }

    /// Handles a notification about a lock.
    pub(in crate::client) fn handle_notification(&self, name: &[u8], notice: LockNotification) {
        let mut table = self.lock();
        let mut wanted = table.wanted.iter_mut();
        let Some((name, wanted)) = wanted.find(|(wanted, _)| wanted.as_bytes() == name) else {
            return;
        };
        if wanted.asked != LockRequest::Answered {
            return;
        }
        match notice {
            LockNotification::Locked => wanted.set_held(name),
            LockNotification::Stolen => {
                tracing::info!(lock = %name, "another client has stolen the lock");
                wanted.set_lost(LockLost::Stolen);
                if std::mem::replace(&mut wanted.mode, LockMode::Wait) == LockMode::Steal {
                    // After a `steal`, the client has no place in the server's queue when the lock
                    // is stolen from it. A client that waited for the lock is first in the queue.
                    wanted.asked = LockRequest::No;
                    let name = name.clone();
                    table.released.push(name);
                    self.notify_driver(table);
                }
            }
        }
    }

    /// Handles the loss of the connection. All locks are requested again on the next one.
    pub(in crate::client) fn handle_disconnect(&self, lost: &Arc<ConnectionFailure>) {
        let mut table = self.lock();
        table.released.clear();
        table.ignored.clear();
        for wanted in table.wanted.values_mut() {
            wanted.asked = LockRequest::No;
            wanted.mode = LockMode::Wait;
            wanted.set_lost(LockLost::Disconnected(lost.clone()));
            wanted.state.send_if_modified(|state| {
                // Another server may accept the request.
                state.refused.take().is_some()
            });
        }
        table.dirty = true;
    }

    fn notify_driver(&self, mut table: MutexGuard<'_, LockTable>) {
        table.dirty = true;
        drop(table);
        self.requests_added.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, LockTable> {
        // No code panics while it holds the mutex and has changed the table in part.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestedLock {
    fn set_held(&mut self, name: &str) {
        self.state.send_if_modified(|state| {
            if state.held {
                return false;
            }
            tracing::info!(lock = name, "acquired the lock");
            state.ownership += 1;
            state.held = true;
            state.refused = None;
            true
        });
    }

    fn set_lost(&mut self, why: LockLost) {
        self.state.send_if_modified(|state| {
            if !state.held {
                return false;
            }
            state.held = false;
            state.lost = Some(why);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YES: &str = r#"{"id":1,"result":{"locked":true},"error":null}"#;
    const NO: &str = r#"{"id":1,"result":{"locked":false},"error":null}"#;

    fn reply(text: &str) -> TextBuf {
        TextBuf::parse(text.as_bytes().to_vec()).unwrap()
    }

    /// The requests that are sent, with ids from `first`.
    fn sent_requests(locks: &LockRequests, first: i64) -> Vec<String> {
        let mut sent = Vec::new();
        locks.send_requests(|method, name| {
            sent.push(format!("{method} {name}"));
            first + sent.len() as i64 - 1
        });
        sent
    }

    fn asked(mode: LockMode) -> (LockRequests, Arc<str>, watch::Receiver<LockState>) {
        let (locks, name) = (LockRequests::default(), Arc::from("l"));
        let state = locks.request(&name, mode).unwrap();
        (locks, name, state)
    }

    #[test]
    fn notifications_before_the_reply_are_ignored() {
        let (locks, name, state) = asked(LockMode::Wait);
        assert_eq!(sent_requests(&locks, 1), ["lock l"]);
        assert!(sent_requests(&locks, 2).is_empty());
        locks.handle_notification(b"l", LockNotification::Locked);
        assert!(!state.borrow().held);
        assert!(locks.handle_reply(1, &reply(NO)).unwrap());
        locks.handle_notification(b"other", LockNotification::Locked);
        assert!(!state.borrow().held);
        locks.handle_notification(b"l", LockNotification::Locked);
        assert!(state.borrow().is(1));
        // Servers may repeat the notification.
        locks.handle_notification(b"l", LockNotification::Locked);
        assert!(state.borrow().is(1));
        locks.handle_notification(b"l", LockNotification::Stolen);
        locks.handle_notification(b"l", LockNotification::Locked);
        assert!(!state.borrow().is(1) && state.borrow().is(2));

        // Released and requested at once: both requests are sent, in this order.
        locks.release(&name);
        let state = locks.request(&name, LockMode::Wait).unwrap();
        assert_eq!(sent_requests(&locks, 2), ["unlock l", "lock l"]);
        locks.handle_notification(b"l", LockNotification::Locked);
        assert!(locks.handle_reply(2, &reply(YES)).unwrap());
        assert!(!state.borrow().held);
        assert!(locks.handle_reply(3, &reply(YES)).unwrap());
        assert!(state.borrow().is(1));
        assert!(!locks.handle_reply(3, &reply(YES)).unwrap());
    }

    #[test]
    fn a_stolen_lock_is_requested_again_after_a_steal() {
        let (locks, _, state) = asked(LockMode::Steal);
        assert_eq!(sent_requests(&locks, 1), ["steal l"]);
        locks.handle_reply(1, &reply(YES)).unwrap();
        locks.handle_notification(b"l", LockNotification::Stolen);
        assert!(!state.borrow().held);
        assert_eq!(sent_requests(&locks, 2), ["unlock l", "lock l"]);
    }

    #[test]
    fn a_new_connection_requests_exactly_the_wanted_locks() {
        let (locks, name, state) = asked(LockMode::Steal);
        let other: Arc<str> = "other".into();
        locks.request(&other, LockMode::Wait).unwrap();
        assert_eq!(sent_requests(&locks, 1), ["steal l", "lock other"]);
        locks.handle_reply(1, &reply(YES)).unwrap();
        locks.release(&other);
        let lost = Arc::new(ConnectionFailure {
            remote: "unix:x".parse().unwrap(),
            error: SessionError::Closed,
        });
        locks.handle_disconnect(&lost);
        assert!(!state.borrow().held);
        assert_eq!(sent_requests(&locks, 1), ["lock l"]);
        locks.release(&name);
        assert_eq!(sent_requests(&locks, 2), ["unlock l"]);
    }

    #[test]
    fn a_rejection_is_kept_until_the_next_connection() {
        let (locks, _, state) = asked(LockMode::Wait);
        sent_requests(&locks, 1);
        let refusal = reply(r#"{"id":1,"result":null,"error":"read only"}"#);
        assert!(locks.handle_reply(1, &refusal).unwrap());
        assert!(state.borrow().refused.is_some());
        let lost = Arc::new(ConnectionFailure {
            remote: "unix:x".parse().unwrap(),
            error: SessionError::Closed,
        });
        locks.handle_disconnect(&lost);
        assert!(state.borrow().refused.is_none());
        sent_requests(&locks, 1);
        let nonsense = reply(r#"{"id":1,"result":{"locked":5},"error":null}"#);
        assert!(locks.handle_reply(1, &nonsense).is_err());
    }
}
