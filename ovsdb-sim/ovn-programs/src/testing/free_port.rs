//! TCP ports for servers that cannot choose one themselves.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports below those that systems give to outgoing connections.
const FIRST_PORT: u16 = 10_000;
/// Number of ports from which one is chosen.
const PORTS: u32 = 20_000;
/// Distance between the first ports of two processes with adjacent ids.
const PORTS_OF_PROCESS: u32 = 64;

/// Returns a TCP port of the loopback interface on which no program listens.
///
/// An outgoing connection does not take it meanwhile, and another call in this process does not
/// return it again.
///
/// # Panics
///
/// If no port can be used.
#[must_use]
pub fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let start = process::id().wrapping_mul(PORTS_OF_PROCESS);
    (0..PORTS)
        .map(|_| {
            let call = CALLS.fetch_add(1, Ordering::Relaxed);
            FIRST_PORT + (start.wrapping_add(call) % PORTS) as u16
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("one of the ports is free")
}
