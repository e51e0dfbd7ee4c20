//! Records of a database file: a header line and a JSON text.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::os::unix::fs::FileExt as _;

use patchbay_schemas::json::{Reader, TextBuf, ValueKind};
use sha1::{Digest as _, Sha1};

use super::Damage;

/// Length of the longest header line, in bytes, as in ovsdb-server.
const MAX_HEADER_BYTES: u64 = 128;
/// Maximum number of bytes that are reserved for a text before it is read, because a damaged header
/// may have any length.
const MAX_RESERVED_BYTES: usize = 1 << 20;

/// Length of the beginning of a file that shows its kind, in bytes.
pub(super) const KIND_BYTES: usize = 16;

/// Kind of a database file, the second word in the headers of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Standalone database.
    Standalone,
    /// One server's log of a clustered database.
    Clustered,
}

impl FileKind {
    fn word(self) -> &'static str {
        match self {
            Self::Standalone => "JSON",
            Self::Clustered => "CLUSTER",
        }
    }

    /// Reads the kind of an open file from its first bytes.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; KIND_BYTES];
        let len = file.read_at(&mut bytes, 0)?;
        Ok(Self::of(&bytes[..len]))
    }

    /// The kind of a file that begins with `bytes`, [`KIND_BYTES`] at least unless it is shorter. A
    /// file of an unknown kind is taken for a standalone one, whose reader reports the damage.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let is_clustered = bytes.starts_with(b"OVSDB CLUSTER ");
        if is_clustered { Self::Clustered } else { Self::Standalone }
    }
}

/// Error: there is no intact next record.
#[derive(Debug)]
pub(super) enum RecordError {
    /// The file could not be read.
    Io(io::Error),
    /// The record belongs to a file of another kind.
    OtherKind,
    /// The record is damaged.
    Damaged(Damage),
}

impl From<Damage> for RecordError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reader of a file's records, one after the other.
#[derive(Debug)]
pub(super) struct Records<R> {
    input: R,
    kind: FileKind,
    /// Offset of the next record, in bytes.
    offset: u64,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, kind: FileKind) -> Self {
        Self { input, kind, offset: 0 }
    }

    /// The offset of the record that is not read yet or is damaged, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the JSON object of the next record. `None`: end of the file. Must not be called again
    /// after an error.
    pub(super) fn next(&mut self) -> Result<Option<TextBuf>, RecordError> {
        let mut line = Vec::new();
        (&mut self.input).take(MAX_HEADER_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let Some(header) = Header::parse(&line) else {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            return Err(Damage::Header { line }.into());
        };
        if header.kind != self.kind {
            return Err(RecordError::OtherKind);
        }
        let (offset, len) = (self.offset + line.len() as u64, header.len);
        let reserved = usize::try_from(len).unwrap_or(usize::MAX);
        let mut text = Vec::with_capacity(reserved.min(MAX_RESERVED_BYTES));
        (&mut self.input).take(len).read_to_end(&mut text)?;
        let read = text.len() as u64;
        if read < len {
            return Err(Damage::Cut { offset, len, read }.into());
        }
        let hash: [u8; 20] = Sha1::digest(&text).into();
        if hash != header.sha1 {
            let [found, expected] = [&hash, &header.sha1].map(|hash| hex(hash));
            let damage = Damage::Hash { offset, len, found, expected };
            return Err(damage.into());
        }
        let text = TextBuf::parse(text).map_err(|error| Damage::Json { offset, len, error })?;
        if Reader::new(text.as_text()).kind() != ValueKind::Object {
            return Err(Damage::NotAnObject { offset, len }.into());
        }
        self.offset = offset + len;
        Ok(Some(text))
    }
}

#[derive(Debug, PartialEq)]
struct Header {
    kind: FileKind,
    len: u64,
    sha1: [u8; 20],
}

impl Header {
    /// Parses the line `OVSDB <JSON|CLUSTER> <length> <sha1>`.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_prefix(b"OVSDB ")?.strip_suffix(b"\n")?;
        let mut words = line.split(|byte| *byte == b' ');
        let word = words.next()?;
        let kind = [FileKind::Standalone, FileKind::Clustered]
            .into_iter()
            .find(|kind| kind.word().as_bytes() == word)?;
        let len = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        // As in ovsdb-server.
        if len == 0 {
            return None;
        }
        let sha1 = parse_hex(words.next()?)?;
        words.next().is_none().then_some(Self { kind, len, sha1 })
    }
}

fn parse_hex(text: &[u8]) -> Option<[u8; 20]> {
    let mut hash = [0; 20];
    if text.len() != 2 * hash.len() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(hash)
}

fn hex(hash: &[u8]) -> String {
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Content of the file of a standalone database with the texts of its records: the schema, and
/// transactions, each a JSON object (ovsdb(5), "Standalone Format").
///
/// ```
/// use ovsdb_sim::{DatabaseLog, database_file};
///
/// let schema = r#"{"name":"D","tables":{"T":{"columns":{"c":{"type":"string"}}}}}"#;
/// let uuid = "3e36c5e8-6b5f-4a2b-9a0e-2c9e6a3f0a11";
/// let transaction = format!(r#"{{"T":{{"{uuid}":{{"c":"a"}}}}}}"#);
/// let file = database_file(&[schema, &transaction]);
/// let mut log = DatabaseLog::read("d", &*file)?;
/// assert_eq!(log.replay()?, 1);
/// # Ok::<(), ovsdb_sim::FileError>(())
/// ```
pub fn database_file(records: &[&str]) -> Vec<u8> {
    let records = records.iter().map(|text| encode(FileKind::Standalone, text.as_bytes().to_vec()));
    records.collect::<Vec<_>>().concat()
}

/// Encodes a record with the text of a JSON object, to which it adds a line end.
pub(super) fn encode(kind: FileKind, mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    let hash = hex(&Sha1::digest(&text));
    let mut record = format!("OVSDB {} {} {hash}\n", kind.word(), text.len()).into_bytes();
    record.append(&mut text);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed() {
        let hash = "0123456789abcdef0123456789ABCDEF01234567";
        for kind in [FileKind::Standalone, FileKind::Clustered] {
            let word = kind.word();
            let header = Header::parse(format!("OVSDB {word} 73 {hash}\n").as_bytes()).unwrap();
            assert_eq!((header.kind, header.len), (kind, 73));
            assert_eq!(header.sha1[..2], [0x01, 0x23]);
            assert_eq!(header.sha1[18..], [0x45, 0x67]);
        }
        for bad in [
            "OVSDB JSON 73".to_owned(),
            format!("OVSDB JSON 73 {hash}"),
            format!("OVSDB JSON 73 {hash} \n"),
            format!("OVSDB JSON  73 {hash}\n"),
            format!("OVSDB JSON x {hash}\n"),
            format!("OVSDB JSON 0 {hash}\n"),
            format!("OVSDB JSON 73 {hash}0\n"),
            format!("OVSDB JSOM 73 {hash}\n"),
            format!("ovsdb JSON 73 {hash}\n"),
        ] {
            assert_eq!(Header::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn encoded_records_are_read_again() {
        let mut file = encode(FileKind::Clustered, b"{\"a\":1}".to_vec());
        let second = file.len() as u64;
        file.extend(encode(FileKind::Clustered, b"{}".to_vec()));
        let mut records = Records::new(&file[..], FileKind::Clustered);
        let text = records.next().unwrap().unwrap();
        assert_eq!(text.as_text().bytes(), b"{\"a\":1}\n");
        assert_eq!(records.offset(), second);
        assert!(records.next().unwrap().is_some());
        assert!(records.next().unwrap().is_none());
        assert_eq!(records.offset(), file.len() as u64);
    }

    #[test]
    fn a_wrong_length_does_not_reserve_memory() {
        let hash = "0".repeat(40);
        let file = format!("OVSDB JSON {} {hash}\n{{}}\n", u64::MAX);
        let mut records = Records::new(file.as_bytes(), FileKind::Standalone);
        let error = records.next().unwrap_err();
        assert!(
            matches!(error, RecordError::Damaged(Damage::Cut { len: u64::MAX, read: 3, .. })),
            "{error:?}"
        );
    }
}
