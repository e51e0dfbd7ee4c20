//! Where the time of the 32K transaction goes inside the simulator's process: framing, reading the message, decoding,
//! executing with commit, the first monitor's reply.

use std::time::{Duration, Instant};

use patchbay_benches::northbound::router_transaction;
use patchbay_engine::db::{Access, Database, Execution};
use patchbay_schemas::json::Framer;
use patchbay_schemas::nb;
use patchbay_schemas::strings::Strings;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{Message, decode_transaction};

/// Each stage's time is the best of so many runs.
const RUNS: usize = 7;

const STAGES: [&str; 6] = [
    "frame",
    "message",
    "decode in one thread",
    "decode in several threads",
    "execute and commit",
    "free",
];

fn main() -> anyhow::Result<()> {
    let ports = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(32_000);
    let request = router_transaction(1, ports);
    let mut best = [Duration::MAX; STAGES.len()];
    for _ in 0..RUNS {
        for (best, took) in best.iter_mut().zip(run(&request)?) {
            *best = took.min(*best);
        }
    }
    let megabytes = request.len() as f64 / 1e6;
    println!("{megabytes:.1} MB, {ports} ports, {ports} routes");
    for (name, took) in STAGES.iter().zip(best) {
        let seconds = took.as_secs_f64();
        println!(
            "{name:<26} {:8.1} ms {:8.0} MB/s",
            seconds * 1e3,
            megabytes / seconds
        );
    }
    let [frame, message, _, decode, execute, _] = best;
    let all = frame + message + decode + execute;
    println!(
        "{:<26} {:8.1} ms",
        "until committed",
        all.as_secs_f64() * 1e3
    );
    Ok(())
}

fn run(request: &str) -> anyhow::Result<[Duration; STAGES.len()]> {
    let mut framer = Framer::new(usize::MAX);
    let mut frame = Duration::ZERO;
    let mut text = None;
    for piece in request.as_bytes().chunks(1 << 18) {
        let start = Instant::now();
        framer.push(piece);
        text = framer.next_text()?;
        frame += start.elapsed();
    }
    let text = text.ok_or_else(|| anyhow::anyhow!("the request is one text"))?;

    let start = Instant::now();
    let Message::Request { mut params, .. } = Message::decode(&text)? else {
        anyhow::bail!("the request is a request");
    };
    let message = start.elapsed();

    let schema = nb::schema();
    let mut database = Database::new(schema.clone());
    params.enter_array();
    params.next_element();
    params.skip();
    let decode = |cuts: &[usize]| {
        let start = Instant::now();
        let (mut strings, mut uuids) = (Strings::default(), UuidSource::random());
        let transaction = decode_transaction(params, cuts, &schema, &mut strings, &mut uuids);
        (transaction, start.elapsed())
    };
    let (_, decode_once) = decode(&[]);
    let (mut transaction, decode_in_parts) = decode(text.cuts());

    let start = Instant::now();
    let execution = database.execute(&mut transaction, &Access::unrestricted());
    let execute = start.elapsed();
    anyhow::ensure!(
        matches!(execution, Execution::Committed { .. }),
        "not committed"
    );
    drop(transaction);
    drop(execution);
    let start = Instant::now();
    drop(database);
    Ok([
        frame,
        message,
        decode_once,
        decode_in_parts,
        execute,
        start.elapsed(),
    ])
}
