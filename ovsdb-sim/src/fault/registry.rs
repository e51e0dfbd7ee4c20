//! The faults that are set, and how often each has gone wrong.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use tokio::sync::watch;

use crate::session::SessionId;

use super::{ConnectionId, Connections, Fault, FaultId, FaultRule, FaultStatus, Loss};

/// All faults of a server. While none is set, asking costs a look at a flag.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Whether any is set.
    armed: AtomicBool,
    rules: Mutex<Rules>,
    /// Wakes those who wait for a fault to be cleared.
    cleared: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Rules {
    entries: BTreeMap<FaultId, Entry>,
    last_id: u64,
}

#[derive(Debug)]
struct Entry {
    rule: FaultRule,
    struck: u64,
    /// What it has counted on each connection: bytes, or only that it has struck there.
    counted: HashMap<SessionId, u64>,
}

impl Entry {
    /// Whether it has gone wrong often enough.
    fn is_spent(&self) -> bool {
        let times = self.rule.times;
        times.is_some_and(|times| self.struck >= u64::from(times.get()))
    }

    /// Whether it can go wrong on this connection.
    fn is_about(&self, session: SessionId) -> bool {
        let connections = self.rule.connections;
        let here = [Connections::All, Connections::One(ConnectionId(session))];
        !self.is_spent() && here.contains(&connections)
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Received,
    Sent,
}

/// How many of some bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) bytes: usize,
    /// Whether the connection ends after them.
    pub(crate) cut: bool,
}

impl Faults {
    /// Sets a fault.
    pub(crate) fn set(&self, rule: FaultRule) -> FaultId {
        let mut rules = self.rules();
        rules.last_id += 1;
        let id = FaultId(rules.last_id);
        let entry = Entry {
            rule,
            struck: 0,
            counted: HashMap::new(),
        };
        rules.entries.insert(id, entry);
        self.armed.store(true, Ordering::Release);
        id
    }

    /// Forgets a fault; false when it is not set any more.
    pub(crate) fn clear(&self, id: FaultId) -> bool {
        let mut rules = self.rules();
        let was_set = rules.entries.remove(&id).is_some();
        self.settle(&mut rules);
        self.cleared.send_replace(());
        was_set
    }

    /// Forgets all faults.
    pub(crate) fn clear_all(&self) {
        let mut rules = self.rules();
        rules.entries.clear();
        self.settle(&mut rules);
        self.cleared.send_replace(());
    }

    /// The faults that are set, the oldest first.
    pub(crate) fn list(&self) -> Vec<FaultStatus> {
        let rules = self.rules();
        let status = |(id, entry): (&FaultId, &Entry)| FaultStatus {
            id: *id,
            rule: entry.rule.clone(),
            struck: entry.struck,
        };
        rules.entries.iter().map(status).collect()
    }

    /// A new connection: what waits for the next one is about it.
    pub(crate) fn connected(&self, session: SessionId) {
        if !self.is_armed() {
            return;
        }
        for entry in self.rules().entries.values_mut() {
            if entry.rule.connections == Connections::Next {
                entry.rule.connections = Connections::One(ConnectionId(session));
            }
        }
    }

    /// A connection is gone, and what was only about it.
    pub(crate) fn disconnected(&self, session: SessionId) {
        if !self.is_armed() {
            return;
        }
        let mut rules = self.rules();
        let gone = Connections::One(ConnectionId(session));
        rules.entries.retain(|_, entry| {
            entry.counted.remove(&session);
            entry.rule.connections != gone
        });
        self.settle(&mut rules);
    }

    /// Whether the connection is to end now.
    pub(crate) fn drops(&self, session: SessionId) -> bool {
        let once = |fault: &Fault| (*fault == Fault::Drop).then_some(());
        self.strike_connection(session, once).is_some()
    }

    /// Waits while the client is not to be read from.
    pub(crate) async fn until_reading(&self, session: SessionId) {
        let mut cleared = None;
        let stopped = |fault: &Fault| (*fault == Fault::StopReading).then_some(());
        while self.strike_connection(session, stopped).is_some() {
            match &mut cleared {
                // What is cleared after the first look is not missed.
                None => cleared = Some(self.cleared.subscribe()),
                Some(cleared) => cleared.changed().await.unwrap_or_default(),
            }
        }
    }

    /// How a request is refused.
    pub(crate) fn refusal(&self, session: SessionId, method: &str) -> Option<OvsdbError> {
        self.strike(session, |fault| match fault {
            Fault::Refuse {
                method: refused,
                error,
            } if refused.as_deref().is_none_or(|refused| refused == method) => Some(error.clone()),
            _ => None,
        })
    }

    /// For how long a reply is held back.
    pub(crate) fn delay(&self, session: SessionId) -> Option<Duration> {
        self.strike(session, |fault| match fault {
            Fault::DelayReplies { by } => Some(*by),
            _ => None,
        })
    }

    /// Why a transaction that changes something cannot be committed.
    pub(crate) fn commit_failure(&self, session: SessionId) -> Option<OvsdbError> {
        self.strike(session, |fault| match fault {
            Fault::FailCommit(error) => Some(error.clone()),
            _ => None,
        })
    }

    /// How the reply to a transaction that changes something is lost.
    pub(crate) fn loss(&self, session: SessionId) -> Option<Loss> {
        self.strike(session, |fault| match fault {
            Fault::LoseReply(loss) => Some(*loss),
            _ => None,
        })
    }

    /// How many of `bytes` bytes may pass before the connection ends.
    pub(crate) fn pass(&self, session: SessionId, direction: Direction, bytes: usize) -> Passage {
        let mut passage = Passage { bytes, cut: false };
        if !self.is_armed() {
            return passage;
        }
        let mut rules = self.rules();
        let limit = |entry: &Entry| match (direction, &entry.rule.fault) {
            (Direction::Received, Fault::DropAfterReceived { bytes })
            | (Direction::Sent, Fault::DropAfterSent { bytes })
                if entry.is_about(session) =>
            {
                Some(*bytes)
            }
            _ => None,
        };
        for entry in rules.entries.values() {
            if let Some(limit) = limit(entry) {
                let counted = entry.counted.get(&session).copied().unwrap_or_default();
                let left = usize::try_from(limit - counted).unwrap_or(usize::MAX);
                passage.bytes = passage.bytes.min(left);
            }
        }
        for entry in rules.entries.values_mut() {
            if let Some(limit) = limit(entry) {
                let counted = entry.counted.entry(session).or_default();
                *counted += passage.bytes as u64;
                if *counted == limit {
                    passage.cut = true;
                    entry.struck += 1;
                }
            }
        }
        self.settle(&mut rules);
        passage
    }

    /// The first fault that is about the connection and that `select` has something to say to goes wrong.
    fn strike<T>(&self, session: SessionId, select: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        if !self.is_armed() {
            return None;
        }
        let mut rules = self.rules();
        let (entry, selected) = rules.entries.values_mut().find_map(|entry| {
            let selected = select(&entry.rule.fault).filter(|_| entry.is_about(session))?;
            Some((entry, selected))
        })?;
        entry.struck += 1;
        self.settle(&mut rules);
        Some(selected)
    }

    /// Like [`strike`](Self::strike), for a fault that a connection has from then on.
    fn strike_connection<T>(
        &self,
        session: SessionId,
        select: impl Fn(&Fault) -> Option<T>,
    ) -> Option<T> {
        if !self.is_armed() {
            return None;
        }
        let mut rules = self.rules();
        let (entry, selected) = rules.entries.values_mut().find_map(|entry| {
            let has_it = entry.counted.contains_key(&session);
            let selected =
                select(&entry.rule.fault).filter(|_| has_it || entry.is_about(session))?;
            Some((entry, selected))
        })?;
        if entry.counted.insert(session, 0).is_none() {
            entry.struck += 1;
        }
        self.settle(&mut rules);
        Some(selected)
    }

    /// After a change: forgets what cannot go wrong any more.
    fn settle(&self, rules: &mut Rules) {
        rules.entries.retain(|_, entry| {
            let holds = entry.rule.fault == Fault::StopReading && !entry.counted.is_empty();
            !entry.is_spent() || holds
        });
        if rules.entries.is_empty() {
            self.armed.store(false, Ordering::Release);
        }
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        // Counters are valid whatever was interrupted.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
