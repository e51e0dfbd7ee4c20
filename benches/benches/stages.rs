//! Times of the stages of the 32K transaction in the process of ovsdb-sim: framing, then decoding;
//! framing and decoding concurrently, as ovsdb-sim does; execution with commit; freeing the
//! database.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use patchbay_benches::northbound::router_transaction;
use patchbay_engine::db::{Access, Database, Execution};
use patchbay_schemas::json::{Framer, Reader, TextBuf};
use patchbay_schemas::nb;
use patchbay_schemas::streaming::StreamedOperations;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Message, decode_transaction};

/// Allocator of `ovsdb-sim`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Bytes that a session reads at once.
const READ_BYTES: usize = 1 << 18;
/// Bytes of operations that are decoded together.
const DECODED_BYTES: usize = 1 << 19;

/// Runs of each stage; the best is printed.
const RUNS: usize = 7;

const STAGES: [&str; 5] = [
    "frame",
    "decode in one thread",
    "frame and decode concurrently, in several threads",
    "execute and commit",
    "free",
];

fn main() -> anyhow::Result<()> {
    let ports =
        std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(32_000);
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
        println!("{name:<46} {:8.1} ms {:8.0} MB/s", seconds * 1e3, megabytes / seconds);
    }
    let [_, _, decode, execute, _] = best;
    let all = decode + execute;
    println!("{:<46} {:8.1} ms", "decode to commit", all.as_secs_f64() * 1e3);
    Ok(())
}

fn run(request: &str) -> anyhow::Result<[Duration; STAGES.len()]> {
    let mut framer = Framer::new(usize::MAX);
    let mut frame = Duration::ZERO;
    let mut text = None;
    for piece in request.as_bytes().chunks(READ_BYTES) {
        let start = Instant::now();
        framer.push(piece);
        text = framer.next_text()?;
        frame += start.elapsed();
    }
    let text = text.ok_or_else(|| anyhow::anyhow!("the request is one text"))?;

    let schema = nb::schema();
    let (mut strings, mut uuids) = (StringCache::default(), UuidSource::random());
    let start = Instant::now();
    let mut params = params(&text)?;
    params.enter_array();
    params.next_element();
    params.skip();
    drop(decode_transaction(params, &schema, &mut strings, &mut uuids));
    let decode_once = start.elapsed();

    let start = Instant::now();
    let mut transaction = decode_streamed(request)?;
    let decode_streamed = start.elapsed();

    let mut database = Database::new(schema);
    let start = Instant::now();
    let execution = database.execute(&mut transaction, &Access::unrestricted());
    let execute = start.elapsed();
    anyhow::ensure!(matches!(execution, Execution::Committed { .. }), "not committed");
    drop(transaction);
    drop(execution);
    let start = Instant::now();
    drop(database);
    Ok([frame, decode_once, decode_streamed, execute, start.elapsed()])
}

/// Frames and decodes concurrently, as ovsdb-sim does.
fn decode_streamed(request: &str) -> anyhow::Result<DecodedTransaction> {
    let mut framer = Framer::new(usize::MAX);
    let mut streamed: Option<StreamedOperations> = None;
    let (mut parts, uuids) = (Vec::new(), UuidSource::random());
    for bytes in request.as_bytes().chunks(READ_BYTES) {
        framer.push(bytes);
        if let Some(text) = framer.next_text()? {
            let mut streamed = streamed.ok_or_else(|| anyhow::anyhow!("the request is long"))?;
            let rest = streamed.decode_rest(params(&text)?);
            for part in parts {
                streamed.append(Receiver::recv(&part)?);
            }
            return Ok(streamed.finish(rest));
        }
        let Some(elements) = framer.open_elements(DECODED_BYTES) else {
            continue;
        };
        if streamed.is_none() {
            streamed = StreamedOperations::new(nb::schema(), &uuids, &elements);
        }
        let Some(streamed) = &mut streamed else {
            anyhow::bail!("there is no seed");
        };
        let part = streamed.take(elements);
        let (decoded, result) = sync_channel(1);
        rayon::spawn(move || drop(decoded.send(part.decode())));
        parts.push(result);
    }
    anyhow::bail!("the request has an end")
}

fn params(text: &TextBuf) -> anyhow::Result<Reader<'_>> {
    match Message::decode(text)? {
        Message::Request { params, .. } => Ok(params),
        _ => anyhow::bail!("the request is a request"),
    }
}
