//! The client beside the Python IDL and `ovn-nbctl` (the C IDL), on the data set "32K".
//!
//! `cargo bench --workspace --bench client`, with `-- sync following memory transactions` or some of them only
//! these parts. Every client that is measured is a process of its own. Needs ovsdb-server, ovn-nbctl and Debian's
//! `python3-openvswitch`.

#![allow(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

mod subject;
mod transactions;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mimalloc::MiMalloc;
use ovsdb_sim::testing::{installed_nb_schema, program};
use patchbay_benches::client::Client;
use patchbay_benches::northbound;
use patchbay_benches::parts::{self, Part};
use patchbay_benches::plot::{Chart, growth_exponent};
use patchbay_benches::process::{Kind, Server};
use uuid::Uuid;

/// That of `patchbay`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Debian's, which has the IDL.
const PYTHON: &str = "/usr/bin/python3";
/// Ports of the data set "32K"; there are as many routes.
const PORTS: usize = 32_000;
/// Each measurement is made so often, and the best is shown.
const ROUNDS: usize = 3;
/// Changes that are followed.
const CHANGES: usize = 2_000;
/// Sizes over which the growth is shown.
const SIZES: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 128_000];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, mode, remote] = &arguments[..]
        && first == subject::SUBJECT
    {
        return subject::run(mode, remote);
    }
    let parts: [(&str, Part); 4] = [
        ("sync", initial_sync),
        ("following", following),
        ("memory", memory),
        ("transactions", transactions::report),
    ];
    parts::run(&parts, &arguments)
}

/// A client that can be measured.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Patchbay,
    Python,
    Nbctl,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Patchbay => "Patchbay",
            Self::Python => "Python ovs IDL",
            Self::Nbctl => "C IDL (ovn-nbctl show)",
        }
    }

    /// The program and its arguments. `ovn-nbctl` ends after the sync whatever the mode.
    fn command(self, mode: &str, remote: &str) -> Result<Vec<String>> {
        let text = |path: &Path| path.display().to_string();
        let words: Vec<String> = match self {
            Self::Patchbay => {
                let own = text(&std::env::current_exe()?);
                vec![own, subject::SUBJECT.into(), mode.into(), remote.into()]
            }
            Self::Python => {
                let script = include_str!("idl.py").to_owned();
                let schema = text(&installed_nb_schema());
                vec![
                    PYTHON.into(),
                    "-c".into(),
                    script,
                    mode.into(),
                    remote.into(),
                    schema,
                ]
            }
            Self::Nbctl => {
                let nbctl = text(&program("ovn-nbctl"));
                vec![
                    nbctl,
                    format!("--db={remote}"),
                    "--no-leader-only".into(),
                    "show".into(),
                ]
            }
        };
        Ok(words)
    }
}

/// What the first sync costs.
fn initial_sync() -> Result<()> {
    println!("Initial sync of the 32K data: wall s, own CPU s, peak resident MiB");
    for kind in Kind::BOTH {
        let server = loaded(kind, PORTS)?.0;
        for subject in [Subject::Patchbay, Subject::Nbctl, Subject::Python] {
            let mut best = [f64::INFINITY; 3];
            for _ in 0..ROUNDS {
                let output = Command::new(PYTHON)
                    .args(["-c", include_str!("measure.py")])
                    .args(subject.command("sync", &server.remote())?)
                    .output()?;
                ensure!(
                    output.status.success(),
                    "{}: {}",
                    subject.name(),
                    String::from_utf8_lossy(&output.stderr)
                );
                let text = String::from_utf8(output.stdout)?;
                for (best, figure) in best.iter_mut().zip(text.split_whitespace()) {
                    *best = best.min(figure.parse()?);
                }
            }
            let [wall, cpu, peak] = best;
            println!(
                "  {:<14} {:<24} {wall:>8.3} {cpu:>8.3} {:>8.1}",
                kind.name(),
                subject.name(),
                peak / f64::from(1 << 20)
            );
        }
    }
    Ok(())
}

/// What it costs to follow changes of a router's ports.
fn following() -> Result<()> {
    println!(
        "Own CPU for each change of one port, us: {CHANGES} changes, pipelined, from ovsdb-sim"
    );
    let mut chart = Chart::new(
        "One change followed by a client",
        "ports on the router (and as many routes in the database)",
        "client CPU, microseconds",
    );
    for (subject, sizes) in [
        (Subject::Patchbay, &SIZES[..]),
        (Subject::Python, &SIZES[..3]),
    ] {
        let (mut inserts, mut updates) = (Vec::new(), Vec::new());
        for size in sizes {
            let [insert, update] = follow(subject, *size)?;
            inserts.push((*size as f64, insert));
            updates.push((*size as f64, update));
        }
        for (what, line) in [("a new port", inserts), ("a port's address", updates)] {
            let name = format!("{}: {what}", subject.name());
            print!("  {name:<34}");
            for (size, cost) in &line {
                print!(" {size:>7}: {cost:>8.2}");
            }
            println!(
                "  exponent {:.3}",
                growth_exponent(&line).context("costs are above 0")?
            );
            chart = chart.line(&name, line);
        }
    }
    write(&chart, "following.svg")
}

/// CPU microseconds of a client for each new port and for each change of a port.
fn follow(subject: Subject, size: usize) -> Result<[f64; 2]> {
    let (server, mut client, router) = loaded(Kind::Simulator, size)?;
    let mut follower = Follower::start(&subject.command("follow", &server.remote())?)?;
    let range = size..size + CHANGES;
    let last = range.end - 1;
    let inserts: Vec<String> = range
        .clone()
        .map(|i| northbound::add_given_port_transaction(2, i, router))
        .collect();
    let insert = follower.cpu_until(last, &northbound::port_mac(last), || {
        client.pipeline(&inserts)
    })?;
    let updates: Vec<String> = range
        .map(|i| northbound::update_port_transaction(2, i))
        .collect();
    let update = follower.cpu_until(last, &northbound::updated_mac(last), || {
        client.pipeline(&updates)
    })?;
    Ok([insert, update].map(|seconds| seconds * 1e6 / CHANGES as f64))
}

/// A client that follows the database in another process.
struct Follower {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Follower {
    fn start(command: &[impl AsRef<OsStr>]) -> Result<Self> {
        let [program, arguments @ ..] = command else {
            anyhow::bail!("no program")
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("a piped input")?;
        let output = BufReader::new(child.stdout.take().context("a piped output")?);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// The CPU seconds that the follower spends while `work` is done, until it has seen that a port has this address.
    fn cpu_until(
        &mut self,
        port: usize,
        mac: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        writeln!(self.input, "{} {mac}", northbound::given_uuid(port))?;
        ensure!(
            self.line()?.trim() == "waiting",
            "the follower does not wait"
        );
        work()?;
        Ok(self.line()?.trim().parse()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.child.kill().unwrap_or_default();
        let _ = self.child.wait();
    }
}

/// How a client's memory grows with the rows.
fn memory() -> Result<()> {
    println!("Resident memory of a client over the number of rows");
    let (empty, _, _) = loaded(Kind::Simulator, 1)?;
    let base = resident(&empty)?;
    let mut line = Vec::new();
    for size in [500, 4_000, 16_000, 64_000, 128_000] {
        let (server, _, _) = loaded(Kind::Simulator, size)?;
        let rows = 2 * size + 1;
        let bytes = resident(&server)?;
        println!(
            "  {rows:>7} rows: {:>6.1} MiB, {:>6.0} bytes a row above the {:.1} MiB of none",
            bytes / f64::from(1 << 20),
            (bytes - base) / rows as f64,
            base / f64::from(1 << 20)
        );
        line.push((rows as f64, bytes - base));
    }
    println!(
        "  exponent {:.3}",
        growth_exponent(&line).context("memory grows")?
    );
    let chart = Chart::new(
        "Memory of a client",
        "rows",
        "resident bytes above those of none",
    )
    .line("Patchbay", line);
    write(&chart, "client-memory.svg")
}

fn resident(server: &Server) -> Result<f64> {
    let command = Subject::Patchbay.command("resident", &server.remote())?;
    let output = Command::new(&command[0]).args(&command[1..]).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// A server with a router of so many ports and as many routes, and a connection to it.
fn loaded(kind: Kind, ports: usize) -> Result<(Server, Client, Uuid)> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.socket())?;
    let reply = client.call(&northbound::router_transaction(1, ports))?;
    let router = northbound::inserted_last(&reply)?;
    Ok((server, client, router))
}

fn write(chart: &Chart, name: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("figures")
        .join(name);
    chart.write(&path)?;
    println!("  {}", path.display());
    Ok(())
}
