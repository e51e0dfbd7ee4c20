//! Updates that many outboxes share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::update::UpdateText;

/// Bytes from which no more updates are added. They fill a system call.
const MAX_SHARED_BYTES: usize = 1 << 16;

/// Updates of monitors with equal requests and ids. They are the last item of the outboxes of all
/// these monitors, so that an update is added to all of them at once.
///
/// As soon as one of the outboxes is read, or gets another item, they are sealed. The next update
/// goes into every outbox anew.
#[derive(Debug)]
pub(crate) struct SharedUpdates {
    text: Mutex<SharedText>,
}

#[derive(Debug)]
enum SharedText {
    Open(Vec<u8>),
    Sealed(Arc<UpdateText>),
}

impl SharedUpdates {
    /// Begins with the text of one update.
    pub(crate) fn new(update: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { text: Mutex::new(SharedText::Open(update)) })
    }

    /// Adds the text of an update. Returns `false` if the updates are sealed: the outboxes do not
    /// get it.
    pub(crate) fn add(&self, update: &[u8]) -> bool {
        match &mut *self.lock() {
            SharedText::Open(text) if text.len() + update.len() <= MAX_SHARED_BYTES => {
                text.extend_from_slice(update);
                true
            }
            SharedText::Open(_) | SharedText::Sealed(_) => false,
        }
    }

    /// The number of bytes so far.
    pub(super) fn len(&self) -> usize {
        match &*self.lock() {
            SharedText::Open(text) => text.len(),
            SharedText::Sealed(text) => text.piece().len(),
        }
    }

    /// Ends the updates, and returns their text.
    pub(super) fn seal(&self) -> Arc<UpdateText> {
        let mut shared = self.lock();
        match &mut *shared {
            SharedText::Sealed(text) => text.clone(),
            SharedText::Open(text) => {
                let text = Arc::new(UpdateText::from(std::mem::take(text)));
                *shared = SharedText::Sealed(text.clone());
                text
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedText> {
        // Each change is one call.
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_added_to_sealed_or_full_updates() {
        let updates = SharedUpdates::new(b"a".to_vec());
        assert!(updates.add(b"b"));
        assert!(!updates.add(&vec![b'x'; MAX_SHARED_BYTES]));
        assert!(updates.add(b"c"));
        assert_eq!(updates.len(), 3);
        assert_eq!(updates.seal().piece(), b"abc");
        assert!(!updates.add(b"d"));
        assert_eq!(updates.len(), 3);
        assert_eq!(updates.seal().piece(), b"abc");
    }
}
