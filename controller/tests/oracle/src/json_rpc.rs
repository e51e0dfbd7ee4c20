//! Single calls of JSON-RPC at unix sockets, of ovsdb-server and of programs' control sockets.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};

/// Time in which a program must answer: far more than it needs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Calls a method and returns the reply.
///
/// # Errors
/// The program has ended, or answers no JSON within [`TIMEOUT`].
pub(crate) fn call(socket: &Path, method: &str, parameters: &Value) -> io::Result<Value> {
    call_within(TIMEOUT, socket, method, parameters)
}

/// [`call`] with another time limit.
pub(crate) fn call_within(
    limit: Duration,
    socket: &Path,
    method: &str,
    parameters: &Value,
) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    let request = json!({"id": 0, "method": method, "params": parameters});
    stream.write_all(request.to_string().as_bytes())?;
    let mut reply = serde_json::Deserializer::from_reader(stream);
    Value::deserialize(&mut reply).map_err(io::Error::other)
}

/// Executes a transaction and returns its results.
///
/// # Panics
/// An operation fails.
pub(crate) fn transact(socket: &Path, request: &Value) -> Value {
    let reply = call(socket, "transact", request).expect("a running server answers");
    let results = reply["result"].as_array().unwrap_or_else(|| panic!("{reply}"));
    if let Some(failed) = results.iter().find(|result| result["error"].is_string()) {
        panic!("{failed}");
    }
    reply["result"].clone()
}
