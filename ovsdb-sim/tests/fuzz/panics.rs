//! Detection of panics in servers' tasks, which the runtime catches.

use std::sync::{Mutex, Once, PoisonError};

static HOOK: Once = Once::new();
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Installs the panic hook.
pub(crate) fn watch() {
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A panic in a test's own thread fails the test.
            if std::thread::current().name() == Some("tokio-rt-worker") {
                SEEN.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
            }
            former(info);
        }));
    });
}

/// Checks that no task has panicked since the last call.
///
/// # Errors
/// The text of the panics.
pub(crate) fn check() -> Result<(), String> {
    let seen = std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner));
    if seen.is_empty() { Ok(()) } else { Err(seen.join("\n")) }
}
