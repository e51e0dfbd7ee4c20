//! Memory that goes back to the system, and that clients cannot take.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::Program;

/// Number of storms, one after the other.
const STORMS: usize = 15;
/// Number of connections of a storm.
const CONNECTIONS: usize = 50;
/// Length in bytes of each unfinished message.
const MESSAGE_BYTES: usize = 1 << 20;
/// Time for which a storm holds its connections.
const HOLD: Duration = Duration::from_millis(50);
/// Memory in bytes that the server may keep.
const KEPT_BYTES: u64 = 10 << 20;
/// Time within which memory has to go back, on a machine with other load.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Number of requests with a long text that a client sends.
const LONG_TEXTS: usize = 32;
/// Memory in bytes that these requests may take, and the allocator with them: much less than their
/// texts have together, each of which a server without a budget would hold several times.
const BUDGET_GROWTH_BYTES: u64 = 40 << 20;

/// Transaction that waits for ever, with another operation.
const WAITING: &str = r#"["OVN_Northbound",
    {"op":"wait","table":"NB_Global","where":[],"columns":["name"],"until":"!=","rows":[]}"#;

/// Words of the error of a request that would leave behind too much.
const REFUSAL: &str = "resources exhausted";

/// Methods and parameters in which `TEXT` is a long text, and `true` if the server keeps it when it
/// has answered.
const LONG_REQUESTS: &[(&str, &str, bool)] = &[
    ("list_dbs", r#"["TEXT"]"#, false),
    ("get_schema", r#"["TEXT"]"#, false),
    ("get_server_id", r#"["TEXT"]"#, false),
    ("set_db_change_aware", r#"["TEXT"]"#, false),
    ("echo", r#"["TEXT"]"#, false),
    ("nonsense", r#"["TEXT"]"#, false),
    ("convert", r#"["OVN_Northbound",{"name":"TEXT"}]"#, false),
    ("lock", r#"["TEXT"]"#, true),
    ("steal", r#"["TEXT"]"#, true),
    ("unlock", r#"["TEXT"]"#, false),
    ("cancel", r#"["TEXT"]"#, false),
    ("monitor", r#"["OVN_Northbound","TEXT",{"NB_Global":{}}]"#, true),
    ("monitor", r#"["OVN_Northbound",["TEXT"],{"NB_Global":{}}]"#, true),
    ("monitor_cond", r#"["OVN_Northbound",{"TEXT":1},{"NB_Global":{}}]"#, true),
    (
        "monitor_cond",
        r#"["OVN_Northbound",NUMBER,{"NB_Global":{"where":[["name","==","TEXT"]]}}]"#,
        true,
    ),
    (
        "monitor_cond_since",
        r#"["OVN_Northbound","TEXT",{"NB_Global":{}},"00000000-0000-0000-0000-000000000000"]"#,
        true,
    ),
    ("monitor_cond_change", r#"[-1,-1,{"NB_Global":[{"where":[["name","==","TEXT"]]}]}]"#, false),
    ("monitor_cancel", r#"["TEXT"]"#, false),
    ("transact", r#"WAITING,{"op":"comment","comment":"TEXT"}]"#, true),
    ("transact", r#"WAITING,{"op":"assert","lock":"TEXT"}]"#, true),
    (
        "transact",
        r#"WAITING,{"op":"insert","table":"Logical_Switch","row":{"name":"TEXT"}}]"#,
        true,
    ),
    (
        "transact",
        r#"WAITING,{"op":"select","table":"Logical_Switch","where":[["name","==","TEXT"]]}]"#,
        true,
    ),
    (
        "transact",
        r#"WAITING,{"op":"update","table":"Logical_Switch","where":[],"row":{"name":"TEXT"}}]"#,
        true,
    ),
    (
        "transact",
        r#"WAITING,{"op":"mutate","table":"Logical_Switch","where":[],
            "mutations":[["external_ids","insert",["map",[["TEXT","a"]]]]]}]"#,
        true,
    ),
    (
        "transact",
        r#"WAITING,{"op":"delete","table":"Logical_Switch","where":[["name","!=","TEXT"]]}]"#,
        true,
    ),
    (
        "transact",
        r#"WAITING,{"op":"wait","table":"NB_Global","where":[],"columns":["name"],
            "until":"==","rows":[{"name":"TEXT"}]}]"#,
        true,
    ),
    ("transact", r#"WAITING,{"op":"TEXT"}]"#, true),
    ("transact", r#"WAITING,{"op":"commit","durable":false},{"op":"abort"}]"#, true),
];

/// Resident memory of a program in bytes.
fn resident_bytes(program: &Program) -> u64 {
    status_bytes(program, "VmRSS:")
}

/// A number of bytes in the status of a program.
fn status_bytes(program: &Program, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn unfinished_messages_leave_no_memory_with_idle_threads() {
    let mut program = Program::start(&[]);
    assert!(program.line().starts_with("listening"));
    let begin = resident_bytes(&program);
    let text = vec![b'x'; MESSAGE_BYTES];
    for _ in 0..STORMS {
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = UnixStream::connect(program.socket()).unwrap();
                stream.write_all(b"{\"id\":1,\"method\":\"echo\",\"params\":[\"").unwrap();
                stream.write_all(&text).unwrap();
                stream
            })
            .collect();
        thread::sleep(HOLD);
        drop(connections);
    }
    let start = Instant::now();
    let mut kept = u64::MAX;
    while kept > KEPT_BYTES {
        assert!(start.elapsed() < TIMEOUT, "{kept} bytes are kept");
        thread::sleep(HOLD);
        kept = resident_bytes(&program).saturating_sub(begin);
    }
}

/// Sends a request with a long text many times, and reads the replies meanwhile. Returns the
/// connection and the number of requests that were refused because of their bytes.
fn send_long_texts(program: &Program, method: &str, params: &str) -> (UnixStream, usize) {
    let mut stream = UnixStream::connect(program.socket()).unwrap();
    stream.set_read_timeout(Some(4 * TIMEOUT)).unwrap();
    let mut reading = stream.try_clone().unwrap();
    let count_refusals = move || {
        let (mut refused, mut unseen) = (0, String::new());
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = reading.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection has ended");
            unseen += str::from_utf8(&buffer[..count]).unwrap();
            let seen = unseen.rfind(REFUSAL).map_or(0, |at| at + REFUSAL.len());
            refused += unseen[..seen].matches(REFUSAL).count();
            if unseen.contains(r#""id":"end""#) {
                return refused;
            }
            // The words may be in two parts.
            let seen = seen.max(unseen.len().saturating_sub(REFUSAL.len()));
            unseen.drain(..seen);
        }
    };
    let refused = thread::spawn(count_refusals);
    let mut send = |id: &str, method: &str, params: &str| {
        let request = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
        stream.write_all(request.as_bytes()).unwrap();
    };
    send("0", "monitor_cond", r#"["OVN_Northbound",-1,{"NB_Global":{}}]"#);
    let text = "x".repeat(1 << 20);
    for number in 0..LONG_TEXTS {
        let text = format!("{number}_{text}");
        // The texts of waiting transactions without a text are in their ids.
        let id = if params.contains("TEXT") { number.to_string() } else { format!("\"{text}\"") };
        let params = params
            .replace("WAITING", WAITING)
            .replace("NUMBER", &number.to_string())
            .replace("TEXT", &format!("_{text}"));
        send(&id, method, &params);
    }
    send("\"end\"", "echo", "[]");
    (stream, refused.join().unwrap())
}

#[test]
fn long_texts_in_any_method_take_no_more_than_the_budget() {
    let mut program = Program::start(&["--memory-per-connection=8"]);
    assert!(program.line().starts_with("listening"));
    for (method, params, is_kept) in LONG_REQUESTS {
        let begin = resident_bytes(&program);
        let (connection, refused) = send_long_texts(&program, method, params);
        assert_eq!(refused > 0, *is_kept, "{method} {params}: {refused}");
        // What the allocator keeps of texts that are gone goes back.
        let start = Instant::now();
        let mut growth = u64::MAX;
        while growth > BUDGET_GROWTH_BYTES {
            assert!(start.elapsed() < TIMEOUT, "{method} {params}: {growth} bytes");
            thread::sleep(HOLD);
            growth = resident_bytes(&program).saturating_sub(begin);
        }
        drop(connection);
    }
}

/// Opens a WebSocket at the control API.
fn open_websocket(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(4 * TIMEOUT)).unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    stream
}

/// Reads the content of a frame that a server sends.
fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let len_bytes = match head[1] {
        126 => 2,
        127 => 8,
        len => {
            let mut content = vec![0; len.into()];
            stream.read_exact(&mut content).unwrap();
            return content;
        }
    };
    let mut len = [0; 8];
    stream.read_exact(&mut len[8 - len_bytes..]).unwrap();
    let mut content = vec![0; usize::try_from(u64::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut content).unwrap();
    content
}

#[test]
fn answers_of_the_control_api_are_made_one_after_the_other() {
    const ROWS: usize = 3_000;
    const DUMPS: usize = 100;
    /// Memory of an answer of a megabyte as a tree, several times; all answers take much more.
    const GROWTH_BYTES: u64 = 200 << 20;
    let mut program = Program::start(&["--control=127.0.0.1:0"]);
    assert!(program.line().starts_with("listening"));
    let line = program.line();
    let address = line.strip_prefix("control API on http://").unwrap();
    let row = r#",{"op":"insert","table":"Logical_Switch","row":{"name":"a"}}"#;
    let rows = row.repeat(ROWS);
    let insert = format!(r#"{{"id":0,"method":"transact","params":["OVN_Northbound"{rows}]}}"#);
    let mut client = UnixStream::connect(program.socket()).unwrap();
    client.write_all(insert.as_bytes()).unwrap();
    client.read_exact(&mut [0]).unwrap();
    let begin = resident_bytes(&program);
    let mut stream = open_websocket(address);
    for id in 0..DUMPS {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"sim_dump"}}"#);
        // A whole text, which is masked by zeros.
        let head = [0x81, 0x80 | u8::try_from(request.len()).unwrap(), 0, 0, 0, 0];
        stream.write_all(&head).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
    }
    for _ in 0..DUMPS {
        assert!(read_frame(&mut stream).starts_with(br#"{"jsonrpc""#));
    }
    let peak = status_bytes(&program, "VmHWM:").saturating_sub(begin);
    assert!(peak < GROWTH_BYTES, "{peak}");
}
