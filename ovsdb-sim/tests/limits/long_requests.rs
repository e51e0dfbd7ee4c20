//! Long requests: the sessions that do not need their database are answered meanwhile.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use ovsdb_sim::Limits;

use crate::Bed;

const ROWS: usize = 4_000;
/// Number of threads of the server.
const THREADS: usize = 2;

fn send(socket: &Path, text: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Reads until the reply with this id has begun.
fn wait_for_reply(stream: &mut UnixStream) {
    stream.read_exact(&mut [0; 6]).unwrap();
}

#[test]
fn a_long_request_delays_no_session_without_that_database() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    let bed = runtime.block_on(Bed::new(Limits::default()));
    let row = r#"{"op":"insert","table":"A","row":{"s":"x"}}"#;
    let rows = format!("{},{row}", vec![row; ROWS - 1].join(","));
    let fill = format!(r#"{{"id":1,"method":"transact","params":["D",{rows}]}}"#);
    wait_for_reply(&mut send(&bed.socket, &fill));
    // A short text whose execution takes seconds.
    let add = r#"{"op":"mutate","table":"A","where":[],"mutations":[["i","+=",1]]}"#;
    let long =
        format!(r#"{{"id":1,"method":"transact","params":["D",{}]}}"#, vec![add; 150].join(","));
    // One executes, others wait for it, and others end their connections.
    let mut busy: Vec<_> = (0..2 * THREADS).map(|_| send(&bed.socket, &long)).collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    for (method, params) in [
        ("echo", "[]"),
        ("get_schema", r#"["D"]"#),
        ("list_dbs", "[]"),
        ("lock", r#"["l"]"#),
        ("transact", r#"["_Server",{"op":"select","table":"Database","where":[]}]"#),
    ] {
        let text = format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#);
        wait_for_reply(&mut send(&bed.socket, &text));
    }
    // The last of the long requests has not been answered.
    let last = busy.iter_mut().filter_map(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0; 64]).err()
    });
    assert!(last.count() >= 2 * THREADS - 1, "the others waited for long requests");
}
