//! Locks between clients (RFC 7047 §4.1.8 to §4.1.10). They belong to the server, not to a
//! database.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use patchbay_schemas::hash_order;

use crate::budget::HeldBytes;
use crate::session::id::SessionId;

/// Method by which a client requests a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// `lock`: waits until the lock is free.
    Wait,
    /// `steal`: takes the lock from its owner.
    Steal,
}

/// Table of all locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Queue of each lock, its owner first.
    queues: HashMap<Arc<str>, VecDeque<(SessionId, LockMode)>>,
    /// Requested locks that are not unlocked. A session whose stolen lock is lost for good is here
    /// and in no queue.
    requested: HashMap<SessionId, HashMap<Arc<str>, RequestedLock>>,
    /// Number of requests.
    requests: u64,
}

/// Lock that a session has requested.
#[derive(Debug)]
struct RequestedLock {
    /// Number of the request.
    number: u64,
    /// Bytes of the name, which the session leaves behind.
    _held: HeldBytes,
}

/// Result of a `lock` or `steal`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LockResult {
    /// `true` if the client owns the lock now.
    pub(crate) locked: bool,
    /// The session that the lock was stolen from.
    pub(crate) victim: Option<SessionId>,
}

impl Locks {
    /// The number of locks that a client has requested and not unlocked.
    pub(crate) fn count(&self, session: SessionId) -> usize {
        self.requested.get(&session).map_or(0, HashMap::len)
    }

    /// `true` if a client owns a lock.
    pub(crate) fn owns(&self, session: SessionId, lock: &str) -> bool {
        self.owner(lock) == Some(session)
    }

    /// `true` if a client has requested a lock and not unlocked.
    pub(crate) fn has_requested(&self, session: SessionId, lock: &str) -> bool {
        let requested = self.requested.get(&session);
        requested.is_some_and(|requested| requested.contains_key(lock))
    }

    /// Requests a lock. `None`: the client has requested it before and not unlocked. `held`: the
    /// bytes of the name.
    pub(crate) fn lock(
        &mut self,
        session: SessionId,
        lock: &str,
        mode: LockMode,
        held: HeldBytes,
    ) -> Option<LockResult> {
        if self.has_requested(session, lock) {
            return None;
        }
        // All sessions share the text of a name.
        let known = self.queues.get_key_value(lock);
        let name = known.map_or_else(|| Arc::from(lock), |(name, _)| Arc::clone(name));
        let request = RequestedLock { number: self.requests, _held: held };
        let requested = self.requested.entry(session).or_default();
        requested.insert(Arc::clone(&name), request);
        self.requests += 1;
        let queue = self.queues.entry(name).or_default();
        if mode == LockMode::Wait {
            queue.push_back((session, mode));
            return Some(LockResult { locked: queue.len() == 1, victim: None });
        }
        let victim = queue.front().map(|(victim, _)| *victim);
        // An owner by `steal` loses its place, an owner by `lock` is next in the queue.
        if queue.front().is_some_and(|(_, mode)| *mode == LockMode::Steal) {
            queue.pop_front();
        }
        queue.push_front((session, mode));
        Some(LockResult { locked: true, victim })
    }

    /// Unlocks a lock. Returns the session to be notified that it owns the lock now.
    ///
    /// # Errors
    /// The client had not requested the lock.
    pub(crate) fn unlock(
        &mut self,
        session: SessionId,
        lock: &str,
    ) -> Result<Option<SessionId>, ()> {
        let requested = self.requested.get_mut(&session).ok_or(())?;
        requested.remove(lock).ok_or(())?;
        if requested.is_empty() {
            self.requested.remove(&session);
        }
        let Some(queue) = self.queues.get_mut(lock) else {
            return Ok(None);
        };
        let before = queue.len();
        queue.retain(|(waiter, _)| *waiter != session);
        let (left, after) = (queue.len() < before, queue.front().map(|(owner, _)| *owner));
        if queue.is_empty() {
            self.queues.remove(lock);
        }
        Ok(after.filter(|_| left))
    }

    /// Unlocks all locks of a session. Returns the locks with new owners, who are to be notified in
    /// this order, that of ovsdb-server's hash table of the session's locks.
    pub(crate) fn remove_session(&mut self, session: SessionId) -> Vec<(Arc<str>, SessionId)> {
        let mut requested: Vec<_> = self
            .requested
            .get(&session)
            .into_iter()
            .flatten()
            .map(|(lock, request)| (request.number, lock))
            .collect();
        requested.sort_unstable();
        let names = requested.into_iter().map(|(_, lock)| &**lock);
        let locks: Vec<Arc<str>> =
            hash_order::key_order(names).into_iter().map(Arc::from).collect();
        locks
            .into_iter()
            .filter_map(|lock| {
                let owner = self.unlock(session, &lock).ok()??;
                Some((lock, owner))
            })
            .collect()
    }

    fn owner(&self, lock: &str) -> Option<SessionId> {
        self.queues.get(lock)?.front().map(|(owner, _)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::{ByteBudget, ConnectionBudget};

    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn no_bytes() -> HeldBytes {
        let budget = ConnectionBudget::new(0, &ByteBudget::new(0));
        budget.hold(0).unwrap()
    }

    #[test]
    fn a_lock_goes_to_the_next_session_in_its_queue() {
        let mut locks = Locks::default();
        assert_eq!(
            locks.lock(A, "l", LockMode::Wait, no_bytes()),
            Some(LockResult { locked: true, victim: None })
        );
        assert_eq!(
            locks.lock(B, "l", LockMode::Wait, no_bytes()),
            Some(LockResult { locked: false, victim: None })
        );
        assert_eq!(locks.lock(B, "l", LockMode::Wait, no_bytes()), None);
        assert_eq!(locks.unlock(A, "l"), Ok(Some(B)));
        assert!(locks.owns(B, "l"));
        assert_eq!(locks.unlock(A, "l"), Err(()));
    }

    #[test]
    fn a_stolen_lock_returns_to_an_owner_by_lock_and_not_to_one_by_steal() {
        let mut locks = Locks::default();
        locks.lock(A, "l", LockMode::Wait, no_bytes());
        assert_eq!(
            locks.lock(B, "l", LockMode::Steal, no_bytes()),
            Some(LockResult { locked: true, victim: Some(A) })
        );
        assert_eq!(locks.unlock(B, "l"), Ok(Some(A)));
        assert_eq!(locks.unlock(A, "l"), Ok(None));
        locks.lock(A, "l", LockMode::Steal, no_bytes());
        locks.lock(B, "l", LockMode::Steal, no_bytes());
        assert_eq!(locks.unlock(B, "l"), Ok(None));
        assert_eq!(locks.lock(A, "l", LockMode::Wait, no_bytes()), None, "must unlock first");
    }

    #[test]
    fn the_owner_is_notified_again_when_a_waiting_session_ends() {
        let mut locks = Locks::default();
        locks.lock(A, "l", LockMode::Wait, no_bytes());
        locks.lock(B, "l", LockMode::Wait, no_bytes());
        assert_eq!(locks.remove_session(B), [("l".into(), A)]);
    }
}
