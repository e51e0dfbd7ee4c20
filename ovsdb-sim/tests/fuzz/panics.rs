//! Notices panics of servers' tasks: the runtime catches them and goes on.

use std::sync::{Mutex, Once, PoisonError};

static HOOK: Once = Once::new();
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to notice.
pub(crate) fn watch() {
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Other threads are those of tests, which fail by panicking.
            if std::thread::current().name() == Some("tokio-rt-worker") {
                SEEN.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(info.to_string());
            }
            former(info);
        }));
    });
}

/// What was noticed since the last call.
///
/// # Errors
/// There was something.
pub(crate) fn check() -> Result<(), String> {
    let seen = std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner));
    if seen.is_empty() {
        Ok(())
    } else {
        Err(seen.join("\n"))
    }
}
