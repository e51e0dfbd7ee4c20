//! Packet captures in the classic format of libpcap, which tcpdump and Wireshark read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Magic number of captures with times in microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Link type of Ethernet.
const ETHERNET: u32 = 1;
/// Maximum length of a captured frame in bytes.
const MAX_FRAME: u32 = 65_535;

/// File with the frames of a device.
#[derive(Debug)]
pub(crate) struct Pcap {
    file: BufWriter<File>,
}

impl Pcap {
    /// Creates a capture without frames, in place of an earlier file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&MAGIC.to_ne_bytes())?;
        // Version 2.4.
        file.write_all(&2_u16.to_ne_bytes())?;
        file.write_all(&4_u16.to_ne_bytes())?;
        // Time zone and accuracy are not used.
        file.write_all(&[0; 8])?;
        file.write_all(&MAX_FRAME.to_ne_bytes())?;
        file.write_all(&ETHERNET.to_ne_bytes())?;
        file.flush()?;
        Ok(Self { file })
    }

    /// Appends a frame with the present time.
    pub(crate) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = (frame.len() as u32).to_ne_bytes();
        self.file.write_all(&(now.as_secs() as u32).to_ne_bytes())?;
        self.file.write_all(&now.subsec_micros().to_ne_bytes())?;
        self.file.write_all(&length)?;
        self.file.write_all(&length)?;
        self.file.write_all(frame)?;
        // A lab may be killed at any time, and its captures are read meanwhile.
        self.file.flush()
    }
}
