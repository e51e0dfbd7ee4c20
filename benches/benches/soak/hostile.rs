//! Hostile clients.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// Connections of a storm.
const STORM: usize = 200;
/// Bytes of a message without an end.
const UNFINISHED_BYTES: usize = 1 << 20;
/// Time for which a client holds what it has.
const HOLD: Duration = Duration::from_millis(100);

/// Attack on the server at a socket, for the n-th time.
type Attack = fn(&Path, u64) -> Result<()>;

/// The attacks, each of a thread of its own.
pub(crate) const ATTACKS: [(&str, Attack); 5] = [
    ("nonsense", send_nonsense),
    ("connections", storm_with_connections),
    ("unfinished messages", storm_with_unfinished_messages),
    ("long requests", send_long_request),
    ("slow readers", do_not_read),
];

/// Random bytes, and malformed messages.
fn send_nonsense(socket: &Path, number: u64) -> Result<()> {
    let mut stream = connect(socket)?;
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let texts: [&[u8]; 4] = [
        b"{\"id\":1,\"method\":\"transact\",\"params\":[\"OVN_Northbound\",{\"op\":\"insert\"}]}",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        b"{\"id\":1,\"method\":\"monitor\",\"params\":[\"OVN_Northbound\",null,{\"Nope\":{}}]}",
        b"{\"id\":1,\"result\":[],\"error\":null}",
    ];
    stream.write_all(texts[(number % 4) as usize])?;
    let noise: Vec<u8> = (0..4096)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    stream.write_all(&noise)?;
    drain(stream)
}

/// Many connections at once, which say nothing.
fn storm_with_connections(socket: &Path, _number: u64) -> Result<()> {
    let mut connections = Vec::new();
    for _ in 0..STORM {
        connections.push(connect(socket)?);
    }
    thread::sleep(HOLD);
    Ok(())
}

/// Many long messages without an end.
fn storm_with_unfinished_messages(socket: &Path, _number: u64) -> Result<()> {
    let text = vec![b'x'; UNFINISHED_BYTES];
    let mut connections = Vec::new();
    for _ in 0..STORM / 4 {
        let mut stream = connect(socket)?;
        stream.write_all(b"{\"id\":1,\"method\":\"echo\",\"params\":[\"")?;
        stream.write_all(&text)?;
        connections.push(stream);
    }
    thread::sleep(HOLD);
    Ok(())
}

/// A request of many clauses over all rows.
fn send_long_request(socket: &Path, _number: u64) -> Result<()> {
    let mut stream = connect(socket)?;
    let clauses: Vec<_> = (0..2_000).map(|i| format!("[\"name\",\"!=\",\"no{i}\"]")).collect();
    let select = format!(
        "{{\"id\":1,\"method\":\"transact\",\"params\":[\"OVN_Northbound\",{{\"op\":\"select\",\
         \"table\":\"Logical_Switch\",\"where\":[{}]}}]}}",
        clauses.join(",")
    );
    stream.write_all(select.as_bytes())?;
    drain(stream)
}

/// Requests whose replies nobody reads.
fn do_not_read(socket: &Path, _number: u64) -> Result<()> {
    let mut stream = connect(socket)?;
    let request = "{\"id\":1,\"method\":\"transact\",\"params\":[\"OVN_Northbound\",{\"op\":\"select\",\
                   \"table\":\"Logical_Switch\",\"where\":[]}]}";
    // Ends with the timeout of the socket: the server does not read any more.
    while stream.write_all(request.as_bytes()).is_ok() {}
    Ok(())
}

fn connect(socket: &Path) -> Result<UnixStream> {
    let stream = UnixStream::connect(socket).inspect_err(|_| {
        // The server is being started again.
        thread::sleep(HOLD);
    })?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// Reads until the server closes the connection.
fn drain(mut stream: UnixStream) -> Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}
