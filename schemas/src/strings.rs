//! Sharing of frequent strings: keys of maps, names, owners.

use std::cell::RefCell;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use smol_str::SmolStr;

/// Bounded cache of strings that occurred twice in a short time.
///
/// [`share`](Self::share) then returns clones of one allocation for the same text. A hash collision
/// evicts an entry, so that sharing is frequent but not guaranteed.
#[derive(Debug, Default)]
pub struct StringCache {
    /// Hashes of recent strings. Most strings occur once and are not worth more memory than a hash.
    seen: Vec<u32>,
    /// Strings that occurred again. Comparing the hash first avoids most comparisons of text.
    shared: Vec<Option<(u32, SmolStr)>>,
    hasher: RandomState,
}

/// Number of hashes in the cache; a power of two.
const SEEN_HASHES: usize = 8192;
/// Number of strings in the cache; a power of two.
const SHARED_STRINGS: usize = 4096;
/// Length in bytes up to which [`SmolStr`] stores a string without an allocation.
const MAX_INLINE_LEN: usize = 23;
/// Length in bytes above which strings are not cached, because they rarely repeat.
const MAX_SHARED_LEN: usize = 256;

thread_local! {
    /// Cache of the texts that a thread decodes for no replica in particular.
    static OF_THREAD: RefCell<StringCache> = RefCell::default();
}

impl StringCache {
    /// Calls `decode` with the cache of this thread.
    ///
    /// Requests of different clients share strings through it, also across databases. A client that
    /// is idle has no cache. A call within `decode` gets an empty cache.
    pub fn with_thread<T>(decode: impl FnOnce(&mut Self) -> T) -> T {
        let mut strings = OF_THREAD.take();
        let result = decode(&mut strings);
        OF_THREAD.set(strings);
        result
    }

    /// Returns a string with this text, which shares the allocation of an equal earlier string if
    /// possible.
    pub fn share(&mut self, text: &str) -> SmolStr {
        if text.len() <= MAX_INLINE_LEN || text.len() > MAX_SHARED_LEN {
            return SmolStr::new(text);
        }
        if self.seen.is_empty() {
            self.seen.resize(SEEN_HASHES, 0);
            self.shared.resize(SHARED_STRINGS, None);
        }
        let hash = self.hasher.hash_one(text);
        // Never 0, because 0 marks an empty slot.
        let (tag, slot) = ((hash >> 32) as u32 | 1, hash as usize);
        let shared = &mut self.shared[slot % SHARED_STRINGS];
        if let Some((_, cached)) = shared.as_ref().filter(|(cached, _)| *cached == tag)
            && **cached == *text
        {
            return cached.clone();
        }
        let text = SmolStr::new(text);
        let seen = &mut self.seen[slot % SEEN_HASHES];
        if *seen == tag {
            *shared = Some((tag, text.clone()));
        }
        *seen = tag;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREQUENT: &str = "a network with a long name";

    fn is_shared(one: &SmolStr, other: &SmolStr) -> bool {
        std::ptr::eq(one.as_ptr(), other.as_ptr())
    }

    #[test]
    fn a_repeated_text_has_at_most_two_allocations() {
        let mut strings = StringCache::default();
        strings.share(FREQUENT);
        let second = strings.share(FREQUENT);
        for _ in 0..10 {
            assert!(is_shared(&second, &strings.share(FREQUENT)));
        }
        assert_eq!(&*strings.share(""), "");
    }

    #[test]
    fn texts_that_occur_once_do_not_evict_a_frequent_one() {
        let mut strings = StringCache::default();
        strings.share(FREQUENT);
        let frequent = strings.share(FREQUENT);
        for i in 0..100_000 {
            strings.share(&format!("a port with a long name, {i}"));
        }
        assert!(is_shared(&frequent, &strings.share(FREQUENT)));
    }

    #[test]
    fn calls_of_a_thread_share_a_text() {
        let share = || StringCache::with_thread(|strings| strings.share(FREQUENT));
        share();
        assert!(is_shared(&share(), &share()));
    }

    #[test]
    fn the_inline_limit_is_that_of_the_string_type() {
        let text = |len| SmolStr::new("x".repeat(len));
        assert!(
            !text(MAX_INLINE_LEN).is_heap_allocated()
                && text(MAX_INLINE_LEN + 1).is_heap_allocated()
        );
    }
}
