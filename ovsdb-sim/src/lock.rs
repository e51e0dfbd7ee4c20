//! Locks between clients (RFC 7047 §4.1.8 to §4.1.10). They are the server's, not a database's.

use std::collections::{HashMap, VecDeque};

use crate::session::SessionId;

/// How a client asked for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Wait in line.
    Wait,
    /// Take it from its owner.
    Steal,
}

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Each lock's line, the owner first.
    lines: HashMap<String, VecDeque<(SessionId, Mode)>>,
    /// Who asked for what and has not unlocked; those who were robbed are here and in no line.
    asked: HashMap<SessionId, HashMap<String, Mode>>,
}

/// What became of a `lock` or `steal`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Whether the client owns the lock now.
    pub(crate) locked: bool,
    /// Who lost it.
    pub(crate) victim: Option<SessionId>,
}

impl Locks {
    /// How many locks a client has asked for and not unlocked.
    pub(crate) fn count(&self, session: SessionId) -> usize {
        self.asked.get(&session).map_or(0, HashMap::len)
    }

    /// Whether a client owns a lock.
    pub(crate) fn owns(&self, session: SessionId, lock: &str) -> bool {
        self.owner(lock) == Some(session)
    }

    /// Asks for a lock; none when the client has asked for it before and not unlocked.
    pub(crate) fn lock(&mut self, session: SessionId, lock: &str, mode: Mode) -> Option<Granted> {
        let asked = self.asked.entry(session).or_default();
        if asked.contains_key(lock) {
            return None;
        }
        asked.insert(lock.to_owned(), mode);
        let line = self.lines.entry(lock.to_owned()).or_default();
        if mode == Mode::Wait {
            line.push_back((session, mode));
            return Some(Granted {
                locked: line.len() == 1,
                victim: None,
            });
        }
        let victim = line.front().map(|(victim, _)| *victim);
        // A thief who is robbed loses its place; who waited for the lock gets it back.
        if line.front().is_some_and(|(_, mode)| *mode == Mode::Steal) {
            line.pop_front();
        }
        line.push_front((session, mode));
        Some(Granted {
            locked: true,
            victim,
        })
    }

    /// Gives a lock back: whom to tell that it owns the lock now. `Err` when the client had not asked for it.
    pub(crate) fn unlock(
        &mut self,
        session: SessionId,
        lock: &str,
    ) -> Result<Option<SessionId>, ()> {
        let asked = self.asked.get_mut(&session).ok_or(())?;
        asked.remove(lock).ok_or(())?;
        if asked.is_empty() {
            self.asked.remove(&session);
        }
        let Some(line) = self.lines.get_mut(lock) else {
            return Ok(None);
        };
        let before = line.len();
        line.retain(|(waiter, _)| *waiter != session);
        let (left, after) = (line.len() < before, line.front().map(|(owner, _)| *owner));
        if line.is_empty() {
            self.lines.remove(lock);
        }
        Ok(after.filter(|_| left))
    }

    /// A client is gone: which locks whom to tell about.
    pub(crate) fn disconnect(&mut self, session: SessionId) -> Vec<(String, SessionId)> {
        let held = self.asked.get(&session).into_iter().flatten();
        let held: Vec<String> = held.map(|(lock, _)| lock.clone()).collect();
        let unlock = |lock: String| Some((self.unlock(session, &lock).ok()??, lock));
        held.into_iter()
            .filter_map(unlock)
            .map(|(owner, lock)| (lock, owner))
            .collect()
    }

    fn owner(&self, lock: &str) -> Option<SessionId> {
        self.lines.get(lock)?.front().map(|(owner, _)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    #[test]
    fn waiters_queue() {
        let mut locks = Locks::default();
        assert_eq!(
            locks.lock(A, "l", Mode::Wait),
            Some(Granted {
                locked: true,
                victim: None
            })
        );
        assert_eq!(
            locks.lock(B, "l", Mode::Wait),
            Some(Granted {
                locked: false,
                victim: None
            })
        );
        assert_eq!(locks.lock(B, "l", Mode::Wait), None);
        assert_eq!(locks.unlock(A, "l"), Ok(Some(B)));
        assert!(locks.owns(B, "l"));
        assert_eq!(locks.unlock(A, "l"), Err(()));
    }

    #[test]
    fn who_waited_regains_a_stolen_lock_and_a_thief_does_not() {
        let mut locks = Locks::default();
        locks.lock(A, "l", Mode::Wait);
        assert_eq!(
            locks.lock(B, "l", Mode::Steal),
            Some(Granted {
                locked: true,
                victim: Some(A)
            })
        );
        assert_eq!(locks.unlock(B, "l"), Ok(Some(A)));
        assert_eq!(locks.unlock(A, "l"), Ok(None));
        locks.lock(A, "l", Mode::Steal);
        locks.lock(B, "l", Mode::Steal);
        assert_eq!(locks.unlock(B, "l"), Ok(None));
        assert_eq!(locks.lock(A, "l", Mode::Wait), None, "must unlock first");
    }

    #[test]
    fn the_owner_is_told_when_a_waiter_leaves() {
        let mut locks = Locks::default();
        locks.lock(A, "l", Mode::Wait);
        locks.lock(B, "l", Mode::Wait);
        assert_eq!(locks.disconnect(B), [("l".to_owned(), A)]);
    }
}
