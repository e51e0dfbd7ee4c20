//! Patchbay's client beside the Python IDL and `ovn-nbctl` (the C IDL), on the data set "32K".
//!
//! `cargo bench --workspace --bench client` runs all parts; `-- sync following memory
//! transactions show`, or some of these names, runs only those parts. Every measured client is a process
//! of its own. The benchmark needs ovsdb-server, ovn-nbctl and Debian's `python3-openvswitch`.

#![allow(clippy::print_stdout, reason = "the tables are what this program is for")]

mod show;
mod subject;
mod transactions;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mimalloc::MiMalloc;
use patchbay_benches::client::RawClient;
use patchbay_benches::northbound;
use patchbay_benches::parts::{self, Part};
use patchbay_benches::process::{Server, ServerKind};
use patchbay_benches::text::growth_exponent;
use patchbay_ovn_programs::testing::{installed_nb_schema, program};
use uuid::Uuid;

/// Allocator of `patchbay`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Debian's interpreter, because it has the IDL.
const PYTHON: &str = "/usr/bin/python3";
/// Router ports of the data set "32K"; it has as many routes.
const PORTS: usize = 32_000;
/// Runs of each measurement; the best is printed.
const ROUNDS: usize = 3;
/// Number of changes that a client applies to its replica.
const CHANGES: usize = 2_000;
/// Numbers of router ports over which the growth is measured.
const SIZES: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 128_000];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, mode, remote] = &arguments[..]
        && first == subject::SUBJECT
    {
        return subject::run(mode, remote);
    }
    let parts: [(&str, Part); 5] = [
        ("sync", measure_sync),
        ("following", measure_following),
        ("memory", measure_memory),
        ("transactions", transactions::report),
        ("show", show::report),
    ];
    parts::run(&parts, &arguments)
}

/// Client under measurement.
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

    /// Returns the program and its arguments. `ovn-nbctl` ends after the sync in every mode.
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
                vec![PYTHON.into(), "-c".into(), script, mode.into(), remote.into(), schema]
            }
            Self::Nbctl => {
                let nbctl = text(&program("ovn-nbctl"));
                vec![nbctl, format!("--db={remote}"), "--no-leader-only".into(), "show".into()]
            }
        };
        Ok(words)
    }
}

/// Measures the first sync.
fn measure_sync() -> Result<()> {
    println!("Initial sync of the 32K data: wall s, own CPU s, peak resident MiB");
    for kind in [ServerKind::Real, ServerKind::Simulator] {
        let server = start_loaded(kind, PORTS)?.0;
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

/// Measures updates of the replica after changes of a router's ports.
fn measure_following() -> Result<()> {
    println!(
        "Client CPU for each change of one port, us: {CHANGES} pipelined changes from ovsdb-sim"
    );
    for (subject, sizes) in [(Subject::Patchbay, &SIZES[..]), (Subject::Python, &SIZES[..3])] {
        let (mut inserts, mut updates) = (Vec::new(), Vec::new());
        for size in sizes {
            let [insert, update] = measure_changes(subject, *size)?;
            inserts.push((*size as f64, insert));
            updates.push((*size as f64, update));
        }
        for (what, line) in [("a new port", inserts), ("a port's address", updates)] {
            let name = format!("{}: {what}", subject.name());
            print!("  {name:<34}");
            for (size, cost) in &line {
                print!(" {size:>7}: {cost:>8.2}");
            }
            println!("  exponent {:.3}", growth_exponent(&line).context("costs are above 0")?);
        }
    }
    Ok(())
}

/// Returns the CPU microseconds of a client for each new port and for each change of a port.
fn measure_changes(subject: Subject, size: usize) -> Result<[f64; 2]> {
    let (server, mut client, router) = start_loaded(ServerKind::Simulator, size)?;
    let mut follower = Follower::start(&subject.command("follow", &server.remote())?)?;
    let range = size..size + CHANGES;
    let last = range.end - 1;
    let inserts: Vec<String> =
        range.clone().map(|i| northbound::add_given_port_transaction(2, i, router)).collect();
    let insert =
        follower.cpu_until(last, &northbound::port_mac(last), || client.pipeline(&inserts))?;
    let updates: Vec<String> = range.map(|i| northbound::update_port_transaction(2, i)).collect();
    let update =
        follower.cpu_until(last, &northbound::updated_mac(last), || client.pipeline(&updates))?;
    Ok([insert, update].map(|seconds| seconds * 1e6 / CHANGES as f64))
}

/// Client in another process that monitors the database.
struct Follower {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Follower {
    fn start(command: &[impl AsRef<OsStr>]) -> Result<Self> {
        let [program, arguments @ ..] = command else { anyhow::bail!("no program") };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("a piped input")?;
        let output = BufReader::new(child.stdout.take().context("a piped output")?);
        Ok(Self { child, input, output })
    }

    /// Runs `work`, and returns the CPU seconds of the follower until its replica shows this
    /// address of the port.
    fn cpu_until(
        &mut self,
        port: usize,
        mac: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        writeln!(self.input, "{} {mac}", northbound::given_uuid(port))?;
        ensure!(self.line()?.trim() == "waiting", "the follower does not wait");
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
        // Both calls fail only if the process has ended.
        self.child.kill().unwrap_or_default();
        let _ = self.child.wait();
    }
}

/// Measures the memory of a client over the number of rows.
fn measure_memory() -> Result<()> {
    println!("Resident memory of a client over the number of rows");
    let (empty, _, _) = start_loaded(ServerKind::Simulator, 1)?;
    let base = resident_bytes(&empty)?;
    let mut line = Vec::new();
    for size in [500, 4_000, 16_000, 64_000, 128_000] {
        let (server, _, _) = start_loaded(ServerKind::Simulator, size)?;
        let rows = 2 * size + 1;
        let bytes = resident_bytes(&server)?;
        println!(
            "  {rows:>7} rows: {:>6.1} MiB, {:>6.0} bytes per row above the {:.1} MiB without rows",
            bytes / f64::from(1 << 20),
            (bytes - base) / rows as f64,
            base / f64::from(1 << 20)
        );
        line.push((rows as f64, bytes - base));
    }
    println!("  exponent {:.3}", growth_exponent(&line).context("memory grows")?);
    Ok(())
}

fn resident_bytes(server: &Server) -> Result<f64> {
    let command = Subject::Patchbay.command("resident", &server.remote())?;
    let output = Command::new(&command[0]).args(&command[1..]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Starts a server with a router of `ports` ports and as many routes, and connects to it.
fn start_loaded(kind: ServerKind, ports: usize) -> Result<(Server, RawClient, Uuid)> {
    let server = Server::start(kind)?;
    let mut client = RawClient::connect(server.socket())?;
    let reply = client.call(&northbound::router_transaction(1, ports))?;
    let router = northbound::last_inserted_uuid(&reply)?;
    Ok((server, client, router))
}
