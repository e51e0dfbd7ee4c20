//! The writer of a connection.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::sleep_until;

use crate::chunk::Chunk;
use crate::fault::Direction;
use crate::long_work::run;
use crate::outbox::Batch;
use crate::session::handle::SessionHandle;

use super::pace::UpdatePacer;

/// Size in bytes up to which chunks are copied together, so that each wake-up costs one system
/// call.
const WRITE_BATCH_BYTES: usize = 1 << 16;

/// Number of collected rows from which their encoding is long work.
const LONG_COLLECTED_ROWS: usize = 1_000;

/// Writes a session's outbox to its client until the session or the connection ends.
pub(super) async fn write_outbox(session: Arc<SessionHandle>, mut output: impl AsyncWrite + Unpin) {
    let mut batch = Vec::new();
    let mut pacer = UpdatePacer::new();
    while let Some((next, delay)) = session.outbox().take().await {
        match next {
            Batch::Chunks(chunks) => {
                if !write_chunks(&session, &mut output, &mut batch, chunks).await {
                    return;
                }
            }
            Batch::Collected(changes) => {
                let is_long = changes.row_count() > LONG_COLLECTED_ROWS;
                let mut updates = changes.updates();
                while let Some(update) = run(is_long, || updates.next()) {
                    let len = update.iter().map(|chunk| chunk.bytes().len()).sum();
                    session.outbox().add_encoded_bytes(len);
                    if !write_chunks(&session, &mut output, &mut batch, update).await {
                        return;
                    }
                }
                // There may have been none.
                session.outbox().add_encoded_bytes(0);
            }
        }
        if !write(&session, &mut output, &batch).await {
            return;
        }
        // An idle connection keeps no memory for what is to be written.
        batch = Vec::new();
        // A stream of updates is written in batches.
        if let Some(delay) = delay
            && !pacer.take_credit()
        {
            session.outbox().delay_updates(delay).await;
        }
    }
    output.shutdown().await.unwrap_or_default();
}

/// Writes chunks, or adds them to the batch that is written next. Returns `false` when the
/// connection ends.
async fn write_chunks<C>(
    session: &SessionHandle,
    output: &mut (impl AsyncWrite + Unpin),
    batch: &mut Vec<u8>,
    chunks: C,
) -> bool
where
    C: IntoIterator<Item = Chunk> + AsRef<[Chunk]>,
{
    let all = chunks.as_ref();
    let is_only = all.len() == 1;
    if !is_only {
        let waiting: usize = all.iter().map(|chunk| chunk.bytes().len()).sum();
        batch.reserve(waiting.min(WRITE_BATCH_BYTES.saturating_sub(batch.len())));
    }
    for chunk in chunks {
        let bytes = chunk.bytes();
        let goes_alone = is_only || bytes.len() >= WRITE_BATCH_BYTES || !chunk.is_whole();
        let not_before = match &chunk {
            Chunk::NotBefore(at) => Some(*at),
            Chunk::Bytes(_) | Chunk::Update(_) => None,
        };
        if goes_alone || not_before.is_some() || batch.len() + bytes.len() > WRITE_BATCH_BYTES {
            if !write(session, output, batch).await {
                return false;
            }
            batch.clear();
        }
        if let Some(at) = not_before {
            sleep_until(at).await;
        }
        if !goes_alone {
            batch.extend_from_slice(bytes);
        } else if !write_pieces(session, output, chunk).await {
            return false;
        }
    }
    true
}

/// Writes a chunk piece by piece. Returns `false` when the connection ends.
async fn write_pieces(
    session: &SessionHandle,
    output: &mut (impl AsyncWrite + Unpin),
    chunk: Chunk,
) -> bool {
    if !write(session, output, chunk.bytes()).await {
        return false;
    }
    let Chunk::Update(mut text) = chunk else {
        return true;
    };
    while let Some(next) = text.next().cloned() {
        // A piece keeps the encoded pieces behind it in memory, so the former one is dropped.
        text = next;
        session.outbox().add_encoded_bytes(text.piece().len());
        if !write(session, output, text.piece()).await {
            return false;
        }
    }
    true
}

/// Writes bytes, with the faults of the connection. Returns `false` when the connection ends.
async fn write(
    session: &SessionHandle,
    output: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> bool {
    let passage = session.faults().pass(session.id(), Direction::Sent, bytes.len());
    let write = async {
        output.write_all(&bytes[..passage.bytes]).await?;
        // TLS has a buffer of its own.
        output.flush().await
    };
    if let Err(error) = write.await {
        tracing::debug!(session = session.id().0, %error, "the client is gone");
        session.outbox().close();
        return false;
    }
    if passage.cut {
        session.outbox().cut_off();
        return false;
    }
    session.outbox().remove_written_bytes(bytes.len());
    true
}
