//! Where new UUIDs come from.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::{Builder, Uuid};

/// A source of version-4 UUIDs: random, or the same sequence for the same seed (for snapshots of states).
#[derive(Debug)]
pub struct UuidSource {
    rng: StdRng,
    is_seeded: bool,
}

impl UuidSource {
    /// UUIDs that nobody can foretell.
    pub fn random() -> Self {
        Self {
            rng: rand::make_rng(),
            is_seeded: false,
        }
    }

    /// The sequence that belongs to a seed.
    pub fn seeded(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            is_seeded: true,
        }
    }

    /// Whether the order in which UUIDs are asked for matters to anybody.
    pub(crate) fn is_seeded(&self) -> bool {
        self.is_seeded
    }

    /// The next UUID.
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
