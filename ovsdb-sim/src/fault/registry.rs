//! Registry of the faults that are set.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use tokio::sync::watch;

use crate::session::id::SessionId;

use super::{ConnectionId, Connections, Fault, FaultId, FaultRule, FaultStatus, Loss};

/// Number of faults that may be set at once. Each costs every request a check.
pub(crate) const MAX_FAULTS: usize = 1_000;

/// Faults of a server. While none is set, a check costs one load of a flag.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// `true` if a fault is set.
    armed: AtomicBool,
    rules: Mutex<Rules>,
    /// Notified when faults are cleared.
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
    /// Bytes counted on each connection. For a fault that a connection keeps, an entry of 0 means
    /// that the fault has struck there.
    counted: HashMap<SessionId, u64>,
}

impl Entry {
    /// `true` if the fault has struck as often as it should.
    fn is_spent(&self) -> bool {
        let times = self.rule.times;
        times.is_some_and(|times| self.struck >= u64::from(times.get()))
    }

    /// `true` if the fault can strike on this connection.
    fn affects(&self, session: SessionId) -> bool {
        let connections = self.rule.connections;
        let here = [Connections::All, Connections::One(ConnectionId(session))];
        !self.is_spent() && here.contains(&connections)
    }
}

/// Direction of bytes, as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Received,
    Sent,
}

/// Number of bytes that faults let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) bytes: usize,
    /// `true` if the connection ends after them.
    pub(crate) cut: bool,
}

impl Faults {
    /// Sets a fault. `None`: too many are set.
    pub(crate) fn set(&self, rule: FaultRule) -> Option<FaultId> {
        let mut rules = self.rules();
        if rules.entries.len() >= MAX_FAULTS {
            return None;
        }
        rules.last_id += 1;
        let id = FaultId(rules.last_id);
        let entry = Entry { rule, struck: 0, counted: HashMap::new() };
        rules.entries.insert(id, entry);
        self.armed.store(true, Ordering::Release);
        Some(id)
    }

    /// Clears a fault. Returns `false` if it is not set, or not any more.
    pub(crate) fn clear(&self, id: FaultId) -> bool {
        let mut rules = self.rules();
        let was_set = rules.entries.remove(&id).is_some();
        self.remove_spent(&mut rules);
        self.cleared.send_replace(());
        was_set
    }

    /// Clears all faults.
    pub(crate) fn clear_all(&self) {
        let mut rules = self.rules();
        rules.entries.clear();
        self.remove_spent(&mut rules);
        self.cleared.send_replace(());
    }

    /// The faults, in the order in which they were set.
    pub(crate) fn list(&self) -> Vec<FaultStatus> {
        let rules = self.rules();
        let status = |(id, entry): (&FaultId, &Entry)| FaultStatus {
            id: *id,
            rule: entry.rule.clone(),
            struck: entry.struck,
        };
        rules.entries.iter().map(status).collect()
    }

    /// Assigns the faults for the next connection to this one.
    pub(crate) fn add_connection(&self, session: SessionId) {
        if !self.is_armed() {
            return;
        }
        for entry in self.rules().entries.values_mut() {
            if entry.rule.connections == Connections::Next {
                entry.rule.connections = Connections::One(ConnectionId(session));
            }
        }
    }

    /// Removes a connection, and the faults that affect only it.
    pub(crate) fn remove_connection(&self, session: SessionId) {
        if !self.is_armed() {
            return;
        }
        let mut rules = self.rules();
        let gone = Connections::One(ConnectionId(session));
        rules.entries.retain(|_, entry| {
            entry.counted.remove(&session);
            entry.rule.connections != gone
        });
        self.remove_spent(&mut rules);
    }

    /// Strikes with [`Fault::Drop`]. Returns `true` if the connection must end now.
    pub(crate) fn drops_connection(&self, session: SessionId) -> bool {
        let once = |fault: &Fault| (*fault == Fault::Drop).then_some(());
        self.strike_connection(session, once).is_some()
    }

    /// Waits while [`Fault::StopReading`] affects the connection.
    pub(crate) async fn wait_while_reading_is_stopped(&self, session: SessionId) {
        let mut cleared = None;
        let stopped = |fault: &Fault| (*fault == Fault::StopReading).then_some(());
        while self.strike_connection(session, stopped).is_some() {
            match &mut cleared {
                // Subscribe before the second check, so that no clearing is missed.
                None => cleared = Some(self.cleared.subscribe()),
                Some(cleared) => cleared.changed().await.unwrap_or_default(),
            }
        }
    }

    /// Strikes with [`Fault::Refuse`]. Returns the error for a request.
    pub(crate) fn refusal(&self, session: SessionId, method: &str) -> Option<OvsdbError> {
        self.strike(session, |fault| match fault {
            Fault::Refuse { method: refused, error }
                if refused.as_deref().is_none_or(|refused| refused == method) =>
            {
                Some(error.clone())
            }
            _ => None,
        })
    }

    /// Strikes with [`Fault::DelayReplies`]. Returns the delay of a reply.
    pub(crate) fn delay(&self, session: SessionId) -> Option<Duration> {
        self.strike(session, |fault| match fault {
            Fault::DelayReplies { by } => Some(*by),
            _ => None,
        })
    }

    /// Strikes with [`Fault::FailCommit`]. Returns the error for a transaction that changes
    /// something.
    pub(crate) fn commit_failure(&self, session: SessionId) -> Option<OvsdbError> {
        self.strike(session, |fault| match fault {
            Fault::FailCommit(error) => Some(error.clone()),
            _ => None,
        })
    }

    /// Strikes with [`Fault::LoseReply`]. Returns the loss for a transaction that changes
    /// something.
    pub(crate) fn loss(&self, session: SessionId) -> Option<Loss> {
        self.strike(session, |fault| match fault {
            Fault::LoseReply(loss) => Some(*loss),
            _ => None,
        })
    }

    /// Counts `bytes` bytes and returns the number that passes before the connection ends.
    pub(crate) fn pass(&self, session: SessionId, direction: Direction, bytes: usize) -> Passage {
        let mut passage = Passage { bytes, cut: false };
        if !self.is_armed() {
            return passage;
        }
        let mut rules = self.rules();
        let limit = |entry: &Entry| match (direction, &entry.rule.fault) {
            (Direction::Received, Fault::DropAfterReceived { bytes })
            | (Direction::Sent, Fault::DropAfterSent { bytes })
                if entry.affects(session) =>
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
        self.remove_spent(&mut rules);
        passage
    }

    /// Strikes with the first fault that affects the connection and that `select` accepts.
    fn strike<T>(&self, session: SessionId, select: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        if !self.is_armed() {
            return None;
        }
        let mut rules = self.rules();
        let (entry, selected) = rules.entries.values_mut().find_map(|entry| {
            let selected = select(&entry.rule.fault).filter(|_| entry.affects(session))?;
            Some((entry, selected))
        })?;
        entry.struck += 1;
        self.remove_spent(&mut rules);
        Some(selected)
    }

    /// Strikes like [`strike`](Self::strike), with a fault that the connection keeps from then on.
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
            let has_fault = entry.counted.contains_key(&session);
            let selected =
                select(&entry.rule.fault).filter(|_| has_fault || entry.affects(session))?;
            Some((entry, selected))
        })?;
        if entry.counted.insert(session, 0).is_none() {
            entry.struck += 1;
        }
        self.remove_spent(&mut rules);
        Some(selected)
    }

    /// Removes the faults that cannot strike any more.
    fn remove_spent(&self, rules: &mut Rules) {
        rules.entries.retain(|_, entry| {
            let is_kept = entry.rule.fault == Fault::StopReading && !entry.counted.is_empty();
            !entry.is_spent() || is_kept
        });
        if rules.entries.is_empty() {
            self.armed.store(false, Ordering::Release);
        }
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        // Counters are valid after any interruption.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
