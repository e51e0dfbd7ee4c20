//! What parts and shared values read.
//!
//! A source is a hash of 63 bits, and so is a claim. Two sources of one hash make a part pending
//! once too often. Two claims of one hash would refuse one of them: among 100,000 claims that
//! happens once in two thousand million starts.

/// Something that can be read and can change: a cell of the inputs, rows of an identity, a report,
/// a shared value, or a claimed value. The lowest bit is not used.
///
/// It is packed, so that a source with its readers takes 12 bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(Rust, packed(4))]
pub(crate) struct Source(u64);

impl Source {
    /// Source of a hash that distinguishes sources of all kinds.
    pub(crate) fn new(hash: u64) -> Self {
        Self(hash << 1)
    }

    pub(crate) fn hash(self) -> u64 {
        self.0 >> 1
    }
}

/// A source that was read, and in the lowest bit, whether the part claims it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Read(u64);

impl Read {
    pub(crate) fn new(source: Source, is_claimed: bool) -> Self {
        Self(source.0 | u64::from(is_claimed))
    }

    pub(crate) fn source(self) -> Source {
        Source(self.0 & !1)
    }

    pub(crate) fn is_claimed(self) -> bool {
        self.0 & 1 == 1
    }
}
