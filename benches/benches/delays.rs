//! Requests whose cost could grow out of proportion, and how long they delay the `echo` of another
//! client, on ovsdb-server (installed and newest) and ovsdb-sim.
//!
//! `cargo bench --workspace --bench delays` prints for each request the time until its reply, and
//! the longest `echo` of a second client meanwhile. Each figure is the best of two runs, or of N
//! with `-- N`.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use patchbay_benches::client::RawClient;
use patchbay_benches::process::{Server, ServerKind};

/// Number of rows in the table.
const ROWS: usize = 20_000;
/// Number of clauses of the long conditions.
const CLAUSES: usize = 2_000;
/// Numbers of keys that a mutation inserts into a map of each row.
const KEYS: [usize; 2] = [4, 40];
/// Number of small transactions in one write.
const PIPELINED: usize = 1_000;
/// Runs of each measurement, unless the command line has another number; the best is printed.
const ROUNDS: usize = 2;
/// Pause between two `echo` requests of the other client.
const ECHO_INTERVAL: Duration = Duration::from_millis(2);

/// Times of one request.
#[derive(Clone, Copy, Debug)]
struct Times {
    reply: Duration,
    longest_echo: Duration,
}

impl Times {
    fn best(self, other: Self) -> Self {
        Self {
            reply: self.reply.min(other.reply),
            longest_echo: self.longest_echo.min(other.longest_echo),
        }
    }
}

fn main() -> Result<()> {
    let kinds = ServerKind::available();
    let requests = requests();
    let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(ROUNDS);
    let all =
        kinds.iter().map(|kind| measure(*kind, &requests, rounds)).collect::<Result<Vec<_>>>()?;
    print!("{:<56}", "time until the reply, longest echo of another client");
    for kind in &kinds {
        print!(" {:>20}", kind.title());
    }
    println!();
    for (line, (name, _)) in requests.iter().enumerate() {
        print!("{name:<56}");
        for times in &all {
            let Times { reply, longest_echo } = times[line];
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            print!(" {:>9.1} {:>7.1} ms", ms(reply), ms(longest_echo));
        }
        println!();
    }
    Ok(())
}

/// The requests with their names. Each name may stand for several requests in one write.
fn requests() -> Vec<(String, Vec<String>)> {
    let mut requests = Vec::new();
    let mut push = |name: String, operation: String| {
        requests.push((name, vec![transact(&operation)]));
    };
    let clauses = |clause: &dyn Fn(usize) -> String| {
        let clauses: Vec<_> = (0..CLAUSES).map(clause).collect();
        clauses.join(",")
    };
    let select = |clauses: &str| {
        format!(
            r#"{{"op":"select","table":"Address_Set","where":[{clauses}],"columns":["_uuid"]}}"#
        )
    };
    push(
        format!("select, {CLAUSES} clauses !="),
        select(&clauses(&|i| format!(r#"["name","!=","no{i}"]"#))),
    );
    push(
        format!("select, {CLAUSES} clauses excludes, sets"),
        select(&clauses(&|i| {
            format!(r#"["addresses","excludes","10.9.{}.{}"]"#, i / 200, i % 200)
        })),
    );
    push(
        format!("select, {CLAUSES} clauses excludes, maps"),
        select(&clauses(&|i| {
            format!(r#"["external_ids","excludes",["map",[["number","no{i}"]]]]"#)
        })),
    );
    push(
        format!("select, {CLAUSES} clauses includes, sets"),
        select(&clauses(&|_| r#"["addresses","includes","10.0.0.1"]"#.to_owned())),
    );
    for keys in KEYS {
        let pairs: Vec<_> = (0..keys).map(|i| format!(r#"["key{i}","value{i}"]"#)).collect();
        let all_rows = |mutator: &str, value: &str| {
            format!(
                r#"{{"op":"mutate","table":"Address_Set","where":[],"mutations":[["external_ids",{mutator:?},{value}]]}}"#
            )
        };
        push(
            format!("mutate, insert {keys} keys into each of {ROWS} rows"),
            all_rows("insert", &format!(r#"["map",[{}]]"#, pairs.join(","))),
        );
        let names: Vec<_> = (0..keys).map(|i| format!("\"key{i}\"")).collect();
        push(
            format!("mutate, delete {keys} keys from each of {ROWS} rows"),
            all_rows("delete", &format!(r#"["set",[{}]]"#, names.join(","))),
        );
    }
    push(
        format!("update of {ROWS} rows"),
        r#"{"op":"update","table":"Address_Set","where":[],"row":{"external_ids":["map",[["owner","bench"]]]}}"#
            .to_owned(),
    );
    push(
        format!("select of {ROWS} rows, all columns"),
        r#"{"op":"select","table":"Address_Set","where":[]}"#.to_owned(),
    );
    let small = transact(
        r#"{"op":"update","table":"Address_Set","where":[["name","==","as7"]],"row":{"addresses":["set",[]]}}"#,
    );
    requests.push((format!("{PIPELINED} small updates, pipelined"), vec![small; PIPELINED]));
    requests
}

fn transact(operation: &str) -> String {
    format!(r#"{{"id":1,"method":"transact","params":["OVN_Northbound",{operation}]}}"#)
}

/// Measures all requests on one server with the rows.
fn measure(
    kind: ServerKind,
    requests: &[(String, Vec<String>)],
    rounds: usize,
) -> Result<Vec<Times>> {
    let server = Server::start(kind)?;
    let mut client = RawClient::connect(server.socket())?;
    let rows: Vec<_> = (0..ROWS)
        .map(|i| {
            format!(
                r#"{{"op":"insert","table":"Address_Set","row":{{"name":"as{i}","addresses":["set",["10.0.0.1","10.0.0.2"]],"external_ids":["map",[["number","{i}"],["owner","bench"]]]}}}}"#
            )
        })
        .collect();
    client.call_and_skip(&transact(&rows.join(",")))?;
    let mut all: Vec<Option<Times>> = vec![None; requests.len()];
    for _ in 0..rounds {
        for ((name, requests), best) in requests.iter().zip(&mut all) {
            let times =
                measure_request(&server, &mut client, requests).with_context(|| name.clone())?;
            *best = Some(best.map_or(times, |best| best.best(times)));
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Sends requests in one write, while another client measures its `echo` requests.
fn measure_request(server: &Server, client: &mut RawClient, requests: &[String]) -> Result<Times> {
    let mut other = RawClient::connect(server.socket())?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echoing = scope.spawn(|| -> Result<Duration> {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                other.call_and_skip(r#"{"id":1,"method":"echo","params":[]}"#)?;
                longest = longest.max(begin.elapsed());
                thread::sleep(ECHO_INTERVAL);
            }
            Ok(longest)
        });
        let begin = Instant::now();
        let sent = client.pipeline(requests);
        let reply = begin.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let longest_echo = echoing.join().map_err(|_| anyhow!("the other client failed"))??;
        sent?;
        Ok(Times { reply, longest_echo })
    })
}
