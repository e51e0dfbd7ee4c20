//! Files that are cut off, damaged or not database files.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ovsdb_sim::{FileError, Sim};
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, program};
use sha1::{Digest as _, Sha1};

use super::servers::{SimServer, dump, run, tool, transact};
use super::steps::schema_file;

/// File with some transactions, and the offset of its last record.
struct Sample {
    dir: ScratchDir,
    file: PathBuf,
    bytes: Vec<u8>,
    last: usize,
}

impl Sample {
    fn new() -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("d.db");
        run(tool("create", &file).arg(schema_file(dir.path())));
        for name in ["a", "b", "c"] {
            let row = format!(r#"{{"name":"{name}","number":{}}}"#, name.as_bytes()[0]);
            let operation = format!(r#"{{"op":"insert","table":"Parent","row":{row}}}"#);
            run(tool("transact", &file).arg(format!("[\"D\",{operation}]")));
        }
        let bytes = fs::read(&file).unwrap();
        let header = b"OVSDB JSON";
        let last = bytes.windows(header.len()).rposition(|at| at == header);
        Self { dir, file, last: last.unwrap(), bytes }
    }

    /// Writes another file into the folder.
    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.dir.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    }

    /// The file with one more record of this text.
    fn with_record(&self, text: &str) -> PathBuf {
        self.write("more.db", &[&*self.bytes, &record(text)].concat())
    }
}

fn record(text: &str) -> Vec<u8> {
    record_of("JSON", text)
}

/// A record with this text in a file of a kind, `JSON` or `CLUSTER`.
pub(crate) fn record_of(kind: &str, text: &str) -> Vec<u8> {
    let hash: [u8; 20] = Sha1::digest(text.as_bytes()).into();
    let hash = hash.map(|byte| format!("{byte:02x}")).concat();
    format!("OVSDB {kind} {} {hash}\n{text}", text.len()).into_bytes()
}

/// The number of rows of Parent in a file.
fn rows(file: &Path) -> usize {
    let sim = Sim::builder().load(file).build().unwrap();
    sim.database("D").unwrap().snapshot().row_count()
}

fn error(file: &Path) -> String {
    Sim::builder().load(file).build().unwrap_err().to_string()
}

#[test]
fn a_last_record_cut_off_anywhere_is_ignored() {
    let sample = Sample::new();
    assert_eq!(rows(&sample.file), 3);
    let cut = sample.write("cut.db", &sample.bytes[..sample.bytes.len() - 1]);
    let file = fs::File::options().write(true).open(&cut).unwrap();
    for len in (sample.last..sample.bytes.len()).rev() {
        file.set_len(len as u64).unwrap();
        assert_eq!(rows(&cut), 2, "{len} bytes");
    }
}

#[test]
fn a_last_record_with_any_byte_damaged_is_ignored() {
    let sample = Sample::new();
    let damaged = sample.write("damaged.db", &sample.bytes);
    let file = fs::File::options().write(true).open(&damaged).unwrap();
    for at in sample.last..sample.bytes.len() {
        let byte = sample.bytes[at];
        file.write_all_at(&[byte ^ 1], at as u64).unwrap();
        assert_eq!(rows(&damaged), 2, "byte {at}");
        file.write_all_at(&[byte], at as u64).unwrap();
    }
    assert_eq!(rows(&damaged), 3);
}

#[test]
fn ovsdb_server_ignores_the_same() {
    let sample = Sample::new();
    let len = sample.bytes.len();
    for cut in [sample.last + 1, sample.last + 20, sample.last + 60, len - 1] {
        let file = sample.write("cut.db", &sample.bytes[..cut]);
        let content = dump(SimServer::load(&file).socket());
        assert_eq!(content, dump(RealServer::open([&file]).socket()), "{cut} of {len}");
    }
    // Everything after a damaged record is ignored, too.
    let mut bytes = sample.bytes.clone();
    bytes[sample.last - 3] ^= 1;
    let file = sample.write("damaged.db", &bytes);
    assert_eq!(rows(&file), 1);
    let content = dump(SimServer::load(&file).socket());
    assert_eq!(content, dump(RealServer::open([&file]).socket()));
}

#[test]
fn a_journal_replaces_a_damaged_tail() {
    let sample = Sample::new();
    let junk = b"OVSDB JSON 5000 and so on, longer than what will be written here".repeat(20);
    for tail in [&sample.bytes[sample.last..sample.bytes.len() - 1], &junk] {
        let file = sample.write("cut.db", &[&sample.bytes[..sample.last], tail].concat());
        let sim = SimServer::journal(&file);
        let insert = r#"{"op":"insert","table":"Parent","row":{"name":"new","number":1}}"#;
        transact(sim.socket(), insert);
        let left = dump(sim.socket());
        drop(sim);
        assert_eq!(rows(&file), 3);
        run(&mut tool("show-log", &file));
        assert_eq!(dump(RealServer::open([&file]).socket()), left);
    }
}

#[test]
fn a_transaction_that_violates_a_constraint_is_left_out_as_in_ovsdb_server() {
    let sample = Sample::new();
    let (one, two) =
        ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222");
    for broken in [
        format!(r#"{{"Parent":{{"{one}":{{"name":"a"}}}}}}"#),
        format!(r#"{{"Parent":{{"{one}":{{"name":"x","children":["uuid","{two}"]}}}}}}"#),
    ] {
        let good = record(&format!(r#"{{"Parent":{{"{two}":{{"name":"after"}}}}}}"#));
        let file = sample.with_record(&broken);
        let bytes = [fs::read(&file).unwrap(), good].concat();
        let file = sample.write("broken.db", &bytes);
        assert_eq!(rows(&file), 4, "{broken}");
        let content = dump(SimServer::load(&file).socket());
        assert_eq!(content, dump(RealServer::open([&file]).socket()), "{broken}");
    }
}

#[test]
fn rows_are_collected_and_completed_as_in_ovsdb_server() {
    let sample = Sample::new();
    let one = "11111111-1111-1111-1111-111111111111";
    for record in [
        format!(r#"{{"Child":{{"{one}":{{"name":"orphan"}}}}}}"#),
        format!(
            r#"{{"_is_diff":true,"Parent":{{"{one}":{{"friends":["uuid","{one}"],"ephemeral":"kept"}}}}}}"#
        ),
        format!(
            r#"{{"_is_diff":false,"_date":1.0,"Parent":{{"{one}":{{"friends":["uuid","22222222-2222-2222-2222-222222222222"]}}}}}}"#
        ),
        r#"{"_comment":"only","_date":5}"#.to_owned(),
    ] {
        let file = sample.with_record(&record);
        let content = dump(SimServer::load(&file).socket());
        assert_eq!(content, dump(RealServer::open([&file]).socket()), "{record}");
    }
}

#[test]
fn a_record_that_is_not_a_transaction_on_the_schema_is_left_out_as_in_ovsdb_server() {
    let sample = Sample::new();
    let row = "11111111-1111-1111-1111-111111111111";
    let after = r#"{"Parent":{"22222222-2222-2222-2222-222222222222":{"name":"after"}}}"#;
    for text in [
        format!(r#"{{"X":{{"{row}":{{}}}}}}"#),
        r#"{"_date":"today"}"#.to_owned(),
        format!(r#"{{"Parent":{{"{row}":{{"x":1}}}}}}"#),
        format!(r#"{{"Parent":{{"{row}":{{"number":"1"}}}}}}"#),
        format!(r#"{{"Parent":{{"{row}":{{"range":6}}}}}}"#),
        format!(r#"{{"Parent":{{"{row}":null}}}}"#),
        format!(r#"{{"Parent":{{"{row}":5}}}}"#),
        r#"{"Parent":{"x":{}}}"#.to_owned(),
        r#"{"Parent":[]}"#.to_owned(),
    ] {
        let bytes = fs::read(sample.with_record(&text)).unwrap();
        let file = sample.write("broken.db", &[bytes, record(after)].concat());
        assert_eq!(rows(&file), 4, "{text}");
        let content = dump(SimServer::load(&file).socket());
        let real = dump(RealServer::open([&file]).socket());
        assert_eq!(content, real, "{text}");
    }
}

#[test]
fn a_journal_goes_on_before_a_last_record_that_is_not_a_transaction() {
    let sample = Sample::new();
    let file = sample.with_record(r#"{"X":{}}"#);
    let intact = sample.bytes.len();
    let sim = SimServer::journal(&file);
    let insert = r#"{"op":"insert","table":"Parent","row":{"name":"new","number":1}}"#;
    transact(sim.socket(), insert);
    let left = dump(sim.socket());
    drop(sim);
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes[..intact], sample.bytes);
    assert!(!String::from_utf8(bytes).unwrap().contains(r#"{"X":{}}"#));
    assert_eq!(dump(RealServer::open([&file]).socket()), left);
}

#[test]
fn a_file_that_does_not_begin_with_a_schema_is_not_a_database_file() {
    let sample = Sample::new();
    for (bytes, problem) in [
        (&b""[..], "the file is empty"),
        (b"\n", "bad header line \"\""),
        (SCHEMA_ALONE, "bad header line \"{\\\"name\\\":\\\"D\\\"}\""),
        (&sample.bytes[..200], "the file ends after"),
        (&record("{\"name\":\"D\"}"), "Required 'tables' member is missing"),
        (&[0; 1000], "bad header line"),
    ] {
        let found = error(&sample.write("bad.db", bytes));
        assert!(found.contains("bad.db: not a database file: "), "{found}");
        assert!(found.contains(problem), "{found}");
    }
    let found = error(&sample.dir.path().join("nowhere.db"));
    assert!(found.contains("nowhere.db: No such file"), "{found}");
}

/// Content of an `.ovsschema` file, which is not a database file.
const SCHEMA_ALONE: &[u8] = b"{\"name\":\"D\"}";

#[test]
fn a_clustered_file_is_refused_with_the_way_to_convert_it() {
    let dir = ScratchDir::new();
    let (clustered, standalone) = (dir.path().join("c.db"), dir.path().join("s.db"));
    run(tool("create-cluster", &clustered).arg(schema_file(dir.path())).arg("tcp:127.0.0.1:6644"));
    let error = Sim::builder().load(&clustered).build().unwrap_err();
    assert!(matches!(error.file_error(), Some(FileError::Clustered { .. })), "{error}");
    assert!(error.to_string().contains("ovsdb-tool cluster-to-standalone"), "{error}");
    run(Command::new(program("ovsdb-tool"))
        .arg("cluster-to-standalone")
        .args([&standalone, &clustered]));
    assert_eq!(rows(&standalone), 0);
}
