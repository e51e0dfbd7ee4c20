//! Sharing of strings that come again and again: keys of maps, names, owners.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// A bounded cache of recently seen strings. The same text gives the same allocation most of the time;
/// a collision only costs sharing.
#[derive(Debug, Default)]
pub struct Strings {
    recent: Vec<Option<Arc<str>>>,
    hasher: RandomState,
}

/// How many strings are remembered; a power of two.
const SLOTS: usize = 2048;
/// Longer strings are rarely repeated.
const MAX_LEN: usize = 128;

impl Strings {
    /// A shared string with this text.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > MAX_LEN {
            return Arc::from(text);
        }
        if self.recent.is_empty() {
            self.recent.resize(SLOTS, None);
        }
        let slot = (self.hasher.hash_one(text) >> 20) as usize % SLOTS;
        match &self.recent[slot] {
            Some(have) if **have == *text => have.clone(),
            _ => {
                let text: Arc<str> = Arc::from(text);
                self.recent[slot] = Some(text.clone());
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_text_is_stored_once() {
        let mut strings = Strings::default();
        assert!(Arc::ptr_eq(
            &strings.share("router-name"),
            &strings.share("router-name")
        ));
        assert_eq!(&*strings.share(""), "");
    }
}
