//! Sharing of strings that come again and again: keys of maps, names, owners.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use smol_str::SmolStr;

/// A bounded cache of strings that came twice in a short time. From then on the same text gives the same allocation,
/// most of the time; a collision only costs sharing.
#[derive(Debug, Default)]
pub struct Strings {
    /// Hashes of recent strings: most strings come once, and are not worth more memory than this.
    seen: Vec<u32>,
    /// Strings that came again, with their hashes, which tell most others apart without a look at the text.
    shared: Vec<Option<(u32, SmolStr)>>,
    hasher: RandomState,
}

/// How many hashes are remembered; a power of two.
const SEEN: usize = 8192;
/// How many strings are remembered; a power of two.
const SHARED: usize = 2048;
/// Shorter strings take no allocation that could be shared.
const INLINE: usize = 23;
/// Longer strings are rarely repeated.
const MAX_LEN: usize = 128;

impl Strings {
    /// A shared string with this text.
    pub fn share(&mut self, text: &str) -> SmolStr {
        if text.len() <= INLINE || text.len() > MAX_LEN {
            return SmolStr::new(text);
        }
        if self.seen.is_empty() {
            self.seen.resize(SEEN, 0);
            self.shared.resize(SHARED, None);
        }
        let hash = self.hasher.hash_one(text);
        // Never 0, which says that a place is empty.
        let (tag, place) = ((hash >> 32) as u32 | 1, hash as usize);
        let shared = &mut self.shared[place % SHARED];
        if let Some((_, have)) = shared.as_ref().filter(|(have, _)| *have == tag)
            && **have == *text
        {
            return have.clone();
        }
        let text = SmolStr::new(text);
        let seen = &mut self.seen[place % SEEN];
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

    const OFTEN: &str = "a network with a long name";

    fn is_shared(one: &SmolStr, other: &SmolStr) -> bool {
        std::ptr::eq(one.as_ptr(), other.as_ptr())
    }

    #[test]
    fn repeated_text_is_stored_twice_at_most() {
        let mut strings = Strings::default();
        strings.share(OFTEN);
        let second = strings.share(OFTEN);
        for _ in 0..10 {
            assert!(is_shared(&second, &strings.share(OFTEN)));
        }
        assert_eq!(&*strings.share(""), "");
    }

    #[test]
    fn text_that_comes_once_does_not_displace_what_comes_often() {
        let mut strings = Strings::default();
        strings.share(OFTEN);
        let often = strings.share(OFTEN);
        for i in 0..100_000 {
            strings.share(&format!("a port with a long name, {i}"));
        }
        assert!(is_shared(&often, &strings.share(OFTEN)));
    }

    #[test]
    fn the_longest_text_that_needs_no_sharing() {
        let text = |len| SmolStr::new("x".repeat(len));
        assert!(!text(INLINE).is_heap_allocated() && text(INLINE + 1).is_heap_allocated());
    }
}
