//! Pieces of output for one client.

use std::sync::Arc;

use tokio::time::Instant;

use crate::update::UpdateText;

/// Piece of output for one client.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    /// Bytes for this client alone.
    Bytes(Vec<u8>),
    /// Text of an update, shared between all clients that get the same one.
    Update(Arc<UpdateText>),
    /// No bytes: the chunks that follow are not written before this time.
    NotBefore(Instant),
}

impl Chunk {
    /// The bytes of the chunk. Of an update in several pieces, those of the first piece.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Update(text) => text.piece(),
            Self::NotBefore(_) => &[],
        }
    }

    /// `true` if the chunk has no piece after the first one.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Update(text) => text.is_whole(),
            Self::Bytes(_) | Self::NotBefore(_) => true,
        }
    }
}
