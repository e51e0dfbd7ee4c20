//! Sources of new UUIDs.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::{Builder, Uuid};

/// Source of version-4 UUIDs: random, or a sequence that depends on a seed only.
///
/// Tests that compare stored states use a seed.
#[derive(Debug)]
pub struct UuidSource {
    rng: StdRng,
    is_seeded: bool,
}

impl UuidSource {
    /// Returns a source of unpredictable UUIDs.
    pub fn random() -> Self {
        Self { rng: rand::make_rng(), is_seeded: false }
    }

    /// Returns the source whose sequence is determined by `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), is_seeded: true }
    }

    /// Returns another source of the same kind, for another thread. The sequences of sources that
    /// are forked from a seeded one depend on its seed and the order of the forks only.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self { rng: StdRng::from_rng(&mut self.rng), is_seeded: self.is_seeded }
    }

    /// `true` if the UUIDs depend on the order of the calls of [`next_uuid`](Self::next_uuid).
    pub(crate) fn is_seeded(&self) -> bool {
        self.is_seeded
    }

    /// Returns the next UUID.
    pub fn next_uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.rng.fill_bytes(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let sequence = |seed| {
            let mut source = UuidSource::seeded(seed);
            [source.next_uuid(), source.next_uuid()]
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
        assert_eq!(sequence(1)[0].get_version_num(), 4);
    }

    #[test]
    fn forks_have_sequences_of_their_own() {
        let forks = |seed| {
            let mut source = UuidSource::seeded(seed);
            let (mut one, mut other) = (source.fork(), source.fork());
            [one.next_uuid(), other.next_uuid(), source.next_uuid()]
        };
        let [one, other, own] = forks(1);
        assert_eq!(forks(1), [one, other, own]);
        assert!(one != other && other != own && own != one);
    }
}
