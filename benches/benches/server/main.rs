//! ovsdb-server and ovsdb-sim side by side, over unix sockets, on the data set "32K".
//!
//! `cargo bench -p patchbay-benches --bench server`. Prints both figures and their ratio. ovsdb-server, ovsdb-tool and
//! OVN's schema must be installed; the simulator is the program that this workspace builds.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

mod process;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::client::Client;
use patchbay_benches::northbound;

use process::Server;

/// Ports of the big router.
const PORTS: usize = 32_000;
/// Ports of the smaller one.
const FEW_PORTS: usize = 2_000;
/// Small transactions on ovsdb-server, whose time for each grows with the router.
const SMALL: usize = 2_000;
/// Clients that follow the changes.
const WATCHERS: usize = 50;

struct Figures {
    load: Duration,
    monitor: Duration,
    resident: u64,
    small: f64,
    small_few: f64,
    independent: f64,
    independent_cpu: f64,
    watched_cpu: f64,
}

fn main() -> Result<()> {
    let sim = measure(&Server::simulator)?;
    let real = measure(&Server::real)?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let row = |what: &str, real: f64, sim: f64, unit: &str, more_is_better: bool| {
        let ratio = if more_is_better {
            sim / real
        } else {
            real / sim
        };
        println!("{what:<58} {real:>12.3} {sim:>12.3} {unit:<5} {ratio:>7.1} x");
    };
    println!("{:<58} {:>12} {:>12}", "", "ovsdb-server", "ovsdb-sim");
    row(
        "the 32K transaction",
        real.load.as_secs_f64(),
        sim.load.as_secs_f64(),
        "s",
        false,
    );
    row(
        "first monitor_cond reply of it",
        real.monitor.as_secs_f64(),
        sim.monitor.as_secs_f64(),
        "s",
        false,
    );
    row(
        "port + mutate, 32,000-port router, pipelined",
        real.small,
        sim.small,
        "/s",
        true,
    );
    row(
        "port + mutate, 2,000-port router, pipelined",
        real.small_few,
        sim.small_few,
        "/s",
        true,
    );
    row(
        "independent inserts, pipelined",
        real.independent,
        sim.independent,
        "/s",
        true,
    );
    row(
        "  server CPU per transaction",
        real.independent_cpu,
        sim.independent_cpu,
        "us",
        false,
    );
    row(
        "2,000 changes, 50 monitors: CPU per update sent",
        real.watched_cpu,
        sim.watched_cpu,
        "us",
        false,
    );
    row(
        "resident memory with the 32K data",
        mib(real.resident),
        mib(sim.resident),
        "MiB",
        false,
    );
    Ok(())
}

fn measure(start: &dyn Fn() -> Result<Server>) -> Result<Figures> {
    let server = start()?;
    let mut client = Client::connect(server.socket())?;
    let (load, router) = load(&mut client, PORTS)?;
    let resident = server.resident()?;
    let monitor = first_monitor(server.socket())?;
    let small = add_ports(&mut client, &router, PORTS)?;
    drop(server);

    let server = start()?;
    let mut client = Client::connect(server.socket())?;
    let (_, router) = self::load(&mut client, FEW_PORTS)?;
    let small_few = add_ports(&mut client, &router, FEW_PORTS)?;
    drop(server);

    let server = start()?;
    let (independent, independent_cpu) = independent(&server)?;
    drop(server);

    let server = start()?;
    let watched_cpu = watched(&server)?;
    Ok(Figures {
        load,
        monitor,
        resident,
        small,
        small_few,
        independent,
        independent_cpu,
        watched_cpu,
    })
}

/// Loads a router and returns its UUID.
fn load(client: &mut Client, ports: usize) -> Result<(Duration, String)> {
    let request = northbound::router_transaction(1, ports);
    let begin = Instant::now();
    let reply = client.call(&request)?;
    let time = begin.elapsed();
    ensure!(
        !reply.contains("\"details\""),
        "the transaction failed: {}",
        &reply[reply.len().saturating_sub(300)..]
    );
    let router = reply
        .rsplit("[\"uuid\",\"")
        .next()
        .and_then(|rest| rest.get(..36))
        .context("a uuid in the reply")?;
    Ok((time, router.to_owned()))
}

fn first_monitor(socket: &Path) -> Result<Duration> {
    let mut client = Client::connect(socket)?;
    let begin = Instant::now();
    let reply = client.call(&northbound::monitor_request(1))?;
    let time = begin.elapsed();
    ensure!(
        reply.contains("\"initial\""),
        "no initial rows: {}",
        &reply[..reply.len().min(300)]
    );
    Ok(time)
}

/// Small transactions a second on a big router.
fn add_ports(client: &mut Client, router: &str, ports: usize) -> Result<f64> {
    let requests: Vec<String> = (0..SMALL)
        .map(|i| northbound::add_port_transaction(2, ports + i).replace("ROUTER", router))
        .collect();
    pipelined(client, &requests)
}

/// Independent transactions a second, and the server's CPU microseconds for each.
fn independent(server: &Server) -> Result<(f64, f64)> {
    const COUNT: u32 = 40_000;
    let mut client = Client::connect(server.socket())?;
    let requests: Vec<String> = (0..COUNT)
        .map(northbound::independent_transaction)
        .collect();
    let before = server.cpu()?;
    let rate = pipelined(&mut client, &requests)?;
    let cpu = server.cpu()?.saturating_sub(before);
    Ok((rate, cpu.as_secs_f64() * 1e6 / f64::from(COUNT)))
}

fn pipelined(client: &mut Client, requests: &[String]) -> Result<f64> {
    let mut sender = client.sender()?;
    let all = requests.concat();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || sender.write_all(all.as_bytes()));
        client.receive_many(requests.len())?;
        sending
            .join()
            .map_err(|_| anyhow::anyhow!("the sender failed"))??;
        Ok(requests.len() as f64 / begin.elapsed().as_secs_f64())
    })
}

/// CPU microseconds of the server for each update that it sends.
fn watched(server: &Server) -> Result<f64> {
    let mut client = Client::connect(server.socket())?;
    let (_, router) = load(&mut client, 10)?;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let mut watcher = Client::connect(server.socket())?;
        watcher.call(&northbound::monitor_request(1))?;
        watchers.push(watcher);
    }
    let before = server.cpu()?;
    std::thread::scope(|scope| {
        for watcher in &mut watchers {
            // Changes may come merged, so a count is no end; the end is the last port's name.
            scope.spawn(move || {
                while watcher
                    .receive()
                    .is_ok_and(|message| !message.contains("_node2009\""))
                {}
            });
        }
        for i in 0..SMALL {
            client.call(&northbound::add_port_transaction(2, 10 + i).replace("ROUTER", &router))?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    let cpu = server.cpu()?.saturating_sub(before);
    Ok(cpu.as_secs_f64() * 1e6 / (SMALL * WATCHERS) as f64)
}
