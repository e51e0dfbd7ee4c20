//! Where new UUIDs come from.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::{Builder, Uuid};

/// A source of version-4 UUIDs: random, or the same sequence for the same seed (for snapshots of states).
#[derive(Debug)]
pub struct UuidSource(StdRng);

impl UuidSource {
    /// UUIDs that nobody can foretell.
    pub fn random() -> Self {
        Self(rand::make_rng())
    }

    /// The sequence that belongs to a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Another source, whose sequence follows from this one's state.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(StdRng::from_rng(&mut self.0))
    }

    /// The next UUID.
    pub fn next_uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_a_sequence() {
        let sequence = |seed| {
            let mut source = UuidSource::seeded(seed);
            [source.next_uuid(), source.next_uuid()]
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
        assert_eq!(sequence(1)[0].get_version_num(), 4);
    }
}
