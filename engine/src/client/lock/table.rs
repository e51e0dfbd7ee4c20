//! The locks that a client has asked for, and how far each has come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, TextBuf};
use patchbay_schemas::wire::{Message, Reply};
use tokio::sync::{Notify, watch};

use super::LockLost;
use crate::client::error::{Lost, SessionError, reply_error, unexpected};

/// How to ask for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Mode {
    /// Wait in line.
    Wait,
    /// Take it from its owner.
    Steal,
}

/// What a server says of a lock without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Notice {
    /// The client owns it now; may be said several times.
    Locked,
    /// The client does not own it any more.
    Stolen,
}

/// What handles see of a lock.
#[derive(Clone, Debug, Default)]
pub(in crate::client) struct State {
    /// The number of the time in which it is held or was held last; the first is 1.
    pub(super) tenure: u64,
    pub(super) held: bool,
    /// Why the last time ended.
    pub(super) lost: Option<LockLost>,
    /// The server does not give it.
    pub(super) refused: Option<OvsdbError>,
}

/// The locks of one client. Handles ask for and give back, the task behind the client tells the server and hears from it.
#[derive(Debug, Default)]
pub(in crate::client) struct Locks {
    table: Mutex<Table>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Table {
    wanted: BTreeMap<Arc<str>, Wanted>,
    /// The server must be told that these are given back.
    released: Vec<Arc<str>>,
    /// Whether there is something to tell the server.
    dirty: bool,
    /// Requests of which nobody needs the answer.
    ignored: BTreeSet<i64>,
}

#[derive(Debug)]
struct Wanted {
    mode: Mode,
    asked: Asked,
    state: watch::Sender<State>,
}

/// How far asking on the present connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    /// What the server says of the lock until it has answered this request is about a former one.
    Unanswered(i64),
    Answered,
}

impl State {
    /// Whether the lock is held, and has been without interruption since a time of this number began.
    pub(super) fn is(&self, tenure: u64) -> bool {
        self.held && self.tenure == tenure
    }
}

impl Locks {
    /// A handle wants a lock; none if one has it already.
    pub(super) fn ask(&self, name: &Arc<str>, mode: Mode) -> Option<watch::Receiver<State>> {
        let mut table = self.lock();
        if table.wanted.contains_key(name) {
            return None;
        }
        let (state, seen) = watch::channel(State::default());
        let wanted = Wanted {
            mode,
            asked: Asked::No,
            state,
        };
        table.wanted.insert(name.clone(), wanted);
        self.tell(table);
        Some(seen)
    }

    /// A handle gives a lock back.
    pub(super) fn release(&self, name: &Arc<str>) {
        let mut table = self.lock();
        if let Some(mut wanted) = table.wanted.remove(name) {
            wanted.lose(LockLost::GivenBack);
            match wanted.asked {
                Asked::No => {}
                Asked::Unanswered(request) => {
                    table.ignored.insert(request);
                    table.released.push(name.clone());
                }
                Asked::Answered => table.released.push(name.clone()),
            }
        }
        self.tell(table);
    }

    /// Whether any lock is wanted, held ones included.
    pub(in crate::client) fn any_wanted(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// Waits until there may be something to tell the server.
    pub(in crate::client) async fn news(&self) {
        self.news.notified().await;
    }

    /// Tells the server what handles want: `send` sends a request (its method, the name of a lock) and returns its id.
    pub(in crate::client) fn send(&self, mut send: impl FnMut(&'static str, &str) -> i64) {
        let mut table = self.lock();
        if !std::mem::take(&mut table.dirty) {
            return;
        }
        for name in std::mem::take(&mut table.released) {
            let request = send("unlock", &name);
            table.ignored.insert(request);
        }
        for (name, wanted) in &mut table.wanted {
            if wanted.asked == Asked::No {
                let method = match wanted.mode {
                    Mode::Wait => "lock",
                    Mode::Steal => "steal",
                };
                wanted.asked = Asked::Unanswered(send(method, name));
            }
        }
    }

    /// A request was answered; false if it is none about a lock.
    pub(in crate::client) fn answered(
        &self,
        request: i64,
        reply: &TextBuf,
    ) -> Result<bool, SessionError> {
        let mut table = self.lock();
        if table.ignored.remove(&request) {
            return Ok(true);
        }
        let mut wanted = table.wanted.iter_mut();
        let asked = wanted.find(|(_, wanted)| wanted.asked == Asked::Unanswered(request));
        let Some((name, wanted)) = asked else {
            return Ok(false);
        };
        wanted.asked = Asked::Answered;
        let Message::Reply(Reply { outcome, .. }) = Message::decode(reply)? else {
            return Err(unexpected("lock", "not a reply"));
        };
        match outcome.map_err(reply_error) {
            Ok(mut at) => match Json::read(&mut at).get("locked") {
                Some(Json::Bool(true)) => wanted.hold(name),
                Some(Json::Bool(false)) => {}
                _ => return Err(unexpected("lock", "it does not say whether it is locked")),
            },
            Err(error) => {
                tracing::warn!(lock = %name, %error, "the server does not give the lock");
                wanted
                    .state
                    .send_modify(|state| state.refused = Some(error));
            }
        }
        Ok(true)
    }

    /// The server has said something of a lock.
    pub(in crate::client) fn notified(&self, name: &[u8], notice: Notice) {
        let mut table = self.lock();
        let mut wanted = table.wanted.iter_mut();
        let Some((name, wanted)) = wanted.find(|(wanted, _)| wanted.as_bytes() == name) else {
            return;
        };
        if wanted.asked != Asked::Answered {
            return;
        }
        match notice {
            Notice::Locked => wanted.hold(name),
            Notice::Stolen => {
                tracing::info!(lock = %name, "another client has stolen the lock");
                wanted.lose(LockLost::Stolen);
                if std::mem::replace(&mut wanted.mode, Mode::Wait) == Mode::Steal {
                    // A thief who is robbed has no place in the line; one who waited for the lock is the next.
                    wanted.asked = Asked::No;
                    let name = name.clone();
                    table.released.push(name);
                    self.tell(table);
                }
            }
        }
    }

    /// The connection is lost; on the next one all locks are to be asked for.
    pub(in crate::client) fn disconnected(&self, lost: &Arc<Lost>) {
        let mut table = self.lock();
        table.released.clear();
        table.ignored.clear();
        for wanted in table.wanted.values_mut() {
            wanted.asked = Asked::No;
            wanted.mode = Mode::Wait;
            wanted.lose(LockLost::Disconnected(lost.clone()));
            wanted.state.send_if_modified(|state| {
                // Another server may give it.
                state.refused.take().is_some()
            });
        }
        table.dirty = true;
    }

    fn tell(&self, mut table: MutexGuard<'_, Table>) {
        table.dirty = true;
        drop(table);
        self.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing that is done under the lock can leave the table in two minds.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wanted {
    fn hold(&mut self, name: &str) {
        self.state.send_if_modified(|state| {
            if state.held {
                return false;
            }
            tracing::info!(lock = name, "holds the lock");
            state.tenure += 1;
            state.held = true;
            state.refused = None;
            true
        });
    }

    fn lose(&mut self, why: LockLost) {
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

    /// What the server is told; requests are numbered from `first`.
    fn told(locks: &Locks, first: i64) -> Vec<String> {
        let mut told = Vec::new();
        locks.send(|method, name| {
            told.push(format!("{method} {name}"));
            first + told.len() as i64 - 1
        });
        told
    }

    fn asked(mode: Mode) -> (Locks, Arc<str>, watch::Receiver<State>) {
        let (locks, name) = (Locks::default(), Arc::from("l"));
        let state = locks.ask(&name, mode).unwrap();
        (locks, name, state)
    }

    #[test]
    fn notices_are_about_the_lock_only_once_it_was_answered_for() {
        let (locks, name, state) = asked(Mode::Wait);
        assert_eq!(told(&locks, 1), ["lock l"]);
        assert!(told(&locks, 2).is_empty());
        locks.notified(b"l", Notice::Locked);
        assert!(!state.borrow().held);
        assert!(locks.answered(1, &reply(NO)).unwrap());
        locks.notified(b"other", Notice::Locked);
        assert!(!state.borrow().held);
        locks.notified(b"l", Notice::Locked);
        assert!(state.borrow().is(1));
        // Servers repeat themselves.
        locks.notified(b"l", Notice::Locked);
        assert!(state.borrow().is(1));
        locks.notified(b"l", Notice::Stolen);
        locks.notified(b"l", Notice::Locked);
        assert!(!state.borrow().is(1) && state.borrow().is(2));

        // Given back and asked for at once: the server hears of both, in this order.
        locks.release(&name);
        let state = locks.ask(&name, Mode::Wait).unwrap();
        assert_eq!(told(&locks, 2), ["unlock l", "lock l"]);
        locks.notified(b"l", Notice::Locked);
        assert!(locks.answered(2, &reply(YES)).unwrap());
        assert!(!state.borrow().held);
        assert!(locks.answered(3, &reply(YES)).unwrap());
        assert!(state.borrow().is(1));
        assert!(!locks.answered(3, &reply(YES)).unwrap());
    }

    #[test]
    fn a_thief_who_is_robbed_waits_in_line() {
        let (locks, _, state) = asked(Mode::Steal);
        assert_eq!(told(&locks, 1), ["steal l"]);
        locks.answered(1, &reply(YES)).unwrap();
        locks.notified(b"l", Notice::Stolen);
        assert!(!state.borrow().held);
        assert_eq!(told(&locks, 2), ["unlock l", "lock l"]);
    }

    #[test]
    fn a_new_connection_is_asked_for_everything_that_is_wanted_and_for_nothing_else() {
        let (locks, name, state) = asked(Mode::Steal);
        let other: Arc<str> = "other".into();
        locks.ask(&other, Mode::Wait).unwrap();
        assert_eq!(told(&locks, 1), ["steal l", "lock other"]);
        locks.answered(1, &reply(YES)).unwrap();
        locks.release(&other);
        let lost = Arc::new(Lost {
            remote: "unix:x".parse().unwrap(),
            error: SessionError::Closed,
        });
        locks.disconnected(&lost);
        assert!(!state.borrow().held);
        assert_eq!(told(&locks, 1), ["lock l"]);
        locks.release(&name);
        assert_eq!(told(&locks, 2), ["unlock l"]);
    }

    #[test]
    fn refusals_are_told_until_another_server_is_asked() {
        let (locks, _, state) = asked(Mode::Wait);
        told(&locks, 1);
        let refusal = reply(r#"{"id":1,"result":null,"error":"read only"}"#);
        assert!(locks.answered(1, &refusal).unwrap());
        assert!(state.borrow().refused.is_some());
        let lost = Arc::new(Lost {
            remote: "unix:x".parse().unwrap(),
            error: SessionError::Closed,
        });
        locks.disconnected(&lost);
        assert!(state.borrow().refused.is_none());
        told(&locks, 1);
        let nonsense = reply(r#"{"id":1,"result":{"locked":5},"error":null}"#);
        assert!(locks.answered(1, &nonsense).is_err());
    }
}
