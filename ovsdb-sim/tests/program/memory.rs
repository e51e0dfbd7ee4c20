//! Memory that goes back to the system.

use std::io::Write as _;
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

/// Resident memory of a program in bytes.
fn resident_bytes(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
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
                stream
                    .write_all(b"{\"id\":1,\"method\":\"echo\",\"params\":[\"")
                    .unwrap();
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
