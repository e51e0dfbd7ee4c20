//! Unpacking of gzip and xz.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ovsdb_sim::{DatabaseLog, FileError};

use crate::dump::{Dump, DumpError, is_dump, read_dump};
use crate::kind::BEGIN_BYTES;

/// Maximum number of bytes that a packed file or an archive may unpack to.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;
/// Maximum number of packings around a file: `.db.gz` in `.tar.gz` has two.
const MAX_PACKINGS: usize = 4;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 18;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Length of the longest magic number, in bytes.
const MAGIC_BYTES: usize = 6;

/// History of a database file, packed or not.
pub type UnpackedLog = DatabaseLog<Box<dyn BufRead>>;

/// A database file that is open.
#[derive(Debug)]
pub struct OpenedFile {
    /// The history. That of a dump has one transaction.
    pub log: UnpackedLog,
    /// Time of the file of a dump. `None`: transactions have times.
    pub dumped: Option<SystemTime>,
    /// What a dump has lost.
    pub lost: Vec<String>,
}

/// Opens a database file of a standalone or clustered database, or the text of `ovsdb-client dump` on
/// a Northbound database, as it is or packed with gzip or xz, whatever its name.
///
/// # Errors
/// The file cannot be read or unpacked, or does not begin with a database.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("nb.db");
/// # drop(ovsdb_sim::Sim::builder().journal(&path).build()?);
/// let mut log = patchbay_sources::open_log(&path)?.log;
/// log.replay()?;
/// println!("{} rows", log.snapshot().row_count());
/// # Ok(())
/// # }
/// ```
pub fn open_log(path: &Path) -> Result<OpenedFile, FileError> {
    let io = |source| FileError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(io(io::ErrorKind::IsADirectory.into()));
    }
    let input = BufReader::with_capacity(READ_BYTES, file);
    let unpacked = unpack(Box::new(input), &Budget::default()).map_err(io)?;
    let (begin, whole) = peek::<BEGIN_BYTES>(unpacked).map_err(io)?;
    if !is_dump(&begin) {
        let log = DatabaseLog::read(path, whole)?;
        return Ok(OpenedFile { log, dumped: None, lost: Vec::new() });
    }
    let Dump { file, lost } = read_dump(whole).map_err(|error| match error {
        DumpError::Io(error) => io(error),
        other => io(io::Error::other(other.to_string())),
    })?;
    let content: Box<dyn BufRead> = Box::new(io::Cursor::new(file));
    let log = DatabaseLog::read(path, content)?;
    Ok(OpenedFile { log, dumped: metadata.modified().ok(), lost })
}

/// Removes all packings from a stream of bytes.
pub(crate) fn unpack<'a>(
    mut input: Box<dyn BufRead + 'a>,
    budget: &Budget,
) -> io::Result<Box<dyn BufRead + 'a>> {
    for _ in 0..MAX_PACKINGS {
        let (begin, whole) = peek::<MAGIC_BYTES>(input)?;
        let unpacked: Box<dyn Read + 'a> = if begin.starts_with(GZIP_MAGIC) {
            Box::new(MultiGzDecoder::new(whole))
        } else if begin == XZ_MAGIC {
            Box::new(XzReader::new(whole, true))
        } else {
            return Ok(whole);
        };
        let limited = Limited { input: unpacked, budget: budget.clone() };
        input = Box::new(BufReader::with_capacity(READ_BYTES, limited));
    }
    Err(io::Error::other(format!("packed more than {MAX_PACKINGS} times")))
}

/// The first `N` bytes of a stream, or all bytes of a shorter stream, and the whole stream.
pub(crate) fn peek<'a, const N: usize>(
    mut input: Box<dyn BufRead + 'a>,
) -> io::Result<(Vec<u8>, Box<dyn BufRead + 'a>)> {
    let mut begin = Vec::with_capacity(N);
    input.by_ref().take(N as u64).read_to_end(&mut begin)?;
    let whole = io::Cursor::new(begin.clone()).chain(input);
    Ok((begin, Box::new(whole)))
}

/// Bytes to which all packings of a file or an archive may still unpack, together.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Rc<Cell<u64>>);

impl Default for Budget {
    fn default() -> Self {
        Self(Rc::new(Cell::new(MAX_UNPACKED_BYTES)))
    }
}

impl Budget {
    fn spend(&self, bytes: u64) -> io::Result<()> {
        let left = self.0.get().checked_sub(bytes).ok_or_else(|| {
            io::Error::other(format!("it unpacks to more than {} GiB", MAX_UNPACKED_BYTES >> 30))
        })?;
        self.0.set(left);
        Ok(())
    }
}

/// Reader that spends a budget.
struct Limited<R> {
    input: R,
    budget: Budget,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.budget.spend(read as u64)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_ends_at_its_limit() {
        let budget = Budget::default();
        budget.spend(MAX_UNPACKED_BYTES - 10).unwrap();
        // Another reader of the same archive.
        Limited { input: io::repeat(0), budget: budget.clone() }.read_exact(&mut [0; 9]).unwrap();
        let mut limited = Limited { input: io::repeat(0), budget };
        let error = limited.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "it unpacks to more than 4 GiB");
    }

    #[test]
    fn a_stream_shorter_than_its_magic_number_is_whole() {
        let input: Box<dyn BufRead> = Box::new(&b"ab"[..]);
        let mut whole = String::new();
        unpack(input, &Budget::default()).unwrap().read_to_string(&mut whole).unwrap();
        assert_eq!(whole, "ab");
    }
}
