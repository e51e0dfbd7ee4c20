//! Frames on the socket of a dummy device.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Delay between attempts to connect to a device that does not exist yet.
const CONNECT_DELAY: Duration = Duration::from_millis(2);

/// Maximum number of frames that wait for a device: some bursts, and far less than a device that is
/// down would get.
const QUEUED_FRAMES: usize = 4_096;

/// Sender of frames to a device.
#[derive(Clone, Debug)]
pub(crate) struct FrameSender(mpsc::Sender<Vec<u8>>);

impl FrameSender {
    /// A sender, and the queue of its frames for [`exchange`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (frames, queue) = mpsc::channel(QUEUED_FRAMES);
        (Self(frames), queue)
    }

    /// Sends a frame. Like a network card, it loses frames while the queue is full, or after the
    /// device has gone.
    pub(crate) fn send(&self, frame: Vec<u8>) {
        let _ = self.0.try_send(frame);
    }
}

/// Exchanges frames with the device at a socket until the sender of `outgoing` is dropped. Connects
/// again whenever the switch ends the connection.
pub(crate) async fn exchange(
    socket: &Path,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    mut received: impl FnMut(&[u8]),
) {
    loop {
        let Ok(mut stream) = UnixStream::connect(socket).await else {
            sleep(CONNECT_DELAY).await;
            continue;
        };
        let (reader, mut writer) = stream.split();
        let mut reader = BufReader::new(reader);
        let incoming = async {
            let mut frame = Vec::new();
            while read_frame(&mut reader, &mut frame).await.is_ok() {
                received(&frame);
            }
        };
        let sent = async {
            while let Some(frame) = outgoing.recv().await {
                if write_frame(&mut writer, &frame).await.is_err() {
                    // The connection is over, which the reader sees as well.
                    return false;
                }
            }
            true
        };
        let is_over = tokio::select! {
            () = incoming => false,
            is_over = sent => is_over,
        };
        if is_over {
            return;
        }
    }
}

/// Reads a frame in place of the last one.
async fn read_frame(reader: &mut (impl AsyncRead + Unpin), frame: &mut Vec<u8>) -> io::Result<()> {
    let length = reader.read_u16().await?;
    frame.resize(usize::from(length), 0);
    reader.read_exact(frame).await?;
    Ok(())
}

async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let length = u16::try_from(frame.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(2 + frame.len());
    bytes.extend(length.to_be_bytes());
    bytes.extend(frame);
    writer.write_all(&bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_down_gets_a_limited_number_of_frames() {
        let (frames, mut queue) = FrameSender::new();
        for number in 0..2 * QUEUED_FRAMES {
            frames.send(number.to_be_bytes().to_vec());
        }
        assert_eq!(queue.len(), QUEUED_FRAMES);
        assert_eq!(queue.try_recv(), Ok(0_usize.to_be_bytes().to_vec()));
        frames.send(vec![1]);
        assert_eq!(queue.len(), QUEUED_FRAMES);
    }
}
