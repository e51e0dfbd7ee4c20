//! `lock`, `steal` and `unlock` (RFC 7047 §4.1.8 to 4.1.10).

use patchbay_schemas::json::Json;
use patchbay_schemas::schema::is_id;

use super::{MethodError, MethodResult, Request, array_len, empty_object};
use crate::held_size::ENTRY_BYTES;
use crate::limits::resources_exhausted;
use crate::locks::LockMode;
use crate::reply;

impl Request<'_> {
    /// The only parameter of the lock methods.
    fn lock_name(&self) -> Result<String, MethodError> {
        let mut params = self.params;
        params.enter_array();
        let name = if array_len(self.params) == 1 && params.next_element() {
            params.string()
        } else {
            None
        };
        name.map(|name| String::from_utf8_lossy(&name).into_owned())
            .filter(|name| is_id(name))
            .ok_or_else(|| {
                self.syntax_error(format!("{} request params must be <id>", self.method))
            })
    }

    /// Checks that the session may use locks.
    fn check_locks_allowed(&self) -> Result<(), MethodError> {
        if self.session.is_read_only() {
            let text = "lock and unlock methods not allowed, DB server is read only.";
            return Err(MethodError::Text(text));
        }
        Ok(())
    }

    pub(super) fn lock(&self, mode: LockMode) -> Result<MethodResult, MethodError> {
        self.check_locks_allowed()?;
        let name = self.lock_name()?;
        let server = self.session.server();
        // Locked until the victim is notified and the reply is queued, so that a client gets both in the
        // order of events: a client that is notified before it reads that it waits would wait for ever.
        let mut locks = server.lock_table();
        let limit = server.limits().locks;
        if locks.count(self.session.id()) >= limit {
            return Err(resources_exhausted("locks", limit).into());
        }
        let is_repeated =
            || self.syntax_error(format!("must issue \"unlock\" before new \"{}\"", self.method));
        if locks.has_requested(self.session.id(), &name) {
            return Err(is_repeated());
        }
        let held = self.session.hold(ENTRY_BYTES + name.len())?;
        let granted = locks.lock(self.session.id(), &name, mode, held).ok_or_else(is_repeated)?;
        if let Some(victim) = granted.victim.and_then(|victim| server.session(victim)) {
            victim.notify_lock("stolen", &name);
        }
        let result = Json::object([("locked", Json::Bool(granted.locked))]);
        self.session.reply(reply::success(&self.id, |out| result.write(out)));
        drop(locks);
        Ok(MethodResult::SentElsewhere)
    }

    pub(super) fn unlock(&self) -> Result<MethodResult, MethodError> {
        self.check_locks_allowed()?;
        let name = self.lock_name()?;
        let server = self.session.server();
        let mut locks = server.lock_table();
        let Ok(owner) = locks.unlock(self.session.id(), &name) else {
            return Err(self.syntax_error("unlock: \"unlock\" without \"lock\" or \"steal\""));
        };
        if let Some(owner) = owner.and_then(|owner| server.session(owner)) {
            owner.notify_lock("locked", &name);
        }
        Ok(empty_object())
    }
}
