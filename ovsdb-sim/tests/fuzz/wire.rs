//! Valid and broken bytes to a server, which must go on serving others.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ovsdb_sim::{Limits, Listener, Sim};
use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::Message;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::generate::{self, Generator};
use crate::{Seeds, mutate, panics, run, seeds};

/// Number of cases, which take about four seconds.
const CASES: u32 = 800;
/// Timeout of a server's immediate reaction.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum memory in bytes of the test with a server of small limits.
const MAX_MEMORY_BYTES: u64 = 1 << 30;

#[test]
fn no_bytes_stop_a_server() {
    panics::watch();
    let runtime = Runtime::new().unwrap();
    let (inputs, replies) = (Cell::new(0_u64), Cell::new(0_u64));
    run(CASES, &seeds(60), |seeds| {
        let stream = stream(seeds);
        inputs.set(inputs.get() + stream.len() as u64);
        // Servers and clients end where their tasks are dropped. They must not have panicked
        // before.
        let answered = runtime
            .block_on(attack(seeds.schema, &stream))
            .map_err(|error| format!("{error}\nafter {}", shown(&stream)))?;
        replies.set(replies.get() + answered);
        panics::check().map_err(|error| format!("{error}\nafter {}", shown(&stream)))
    });
    let peak = peak_memory();
    println!("{} messages, {} replies, {} MiB at most", inputs.get(), replies.get(), peak >> 20);
    assert!(replies.get() * 5 > inputs.get(), "hardly anything was answered");
    assert!(peak < MAX_MEMORY_BYTES, "{peak} bytes");
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    run(CASES, &seeds(60), |seeds| {
        let bytes = stream(seeds).concat();
        let whole = texts(&bytes, bytes.len());
        for piece in [1, 7, 64] {
            if texts(&bytes, piece) != whole {
                return Err(format!("pieces of {piece}: {}", shown(std::slice::from_ref(&bytes))));
            }
        }
        Ok(())
    });
}

/// The texts in a stream that is received in pieces. True: it ends in an error.
fn texts(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut framer, mut texts) = (Framer::new(1 << 20), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        framer.push(piece);
        loop {
            match framer.next_text() {
                Ok(Some(text)) => {
                    // They must not panic. Other tests check their results.
                    drop(Message::decode(&text));
                    texts.push(Json::from_text(text.as_text()).to_text().into_bytes());
                }
                Ok(None) => break,
                Err(_) => return (texts, true),
            }
        }
    }
    (texts, false)
}

/// The messages of a client, one for each step.
fn stream(seeds: &Seeds) -> Vec<Vec<u8>> {
    let schema = generate::schema(seeds.schema);
    let mut generator = Generator::new(&schema);
    let message = |(id, step): (usize, &Vec<u64>)| {
        let (method, params) = generator.request(step, &schema);
        let id = if method == "cancel" { "null".to_owned() } else { (id % 20).to_string() };
        let text = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
        let rng = &mut StdRng::seed_from_u64(!step[0]);
        match rng.random_range(0..100) {
            0..=49 => text.into_bytes(),
            50..=95 => {
                let mut message: Value = serde_json::from_str(&text).unwrap();
                // Most messages stay valid, because a broken one closes the connection.
                let part = ["params", "params", "params", "params", "id", "method"];
                let part = part[rng.random_range(0..part.len())];
                mutate::tree(rng, &mut message[part]);
                message.to_string().into_bytes()
            }
            96..=98 => {
                let mut text = text.into_bytes();
                mutate::bytes(rng, &mut text);
                text
            }
            _ => mutate::noise(rng),
        }
    };
    seeds.steps.iter().enumerate().map(message).collect()
}

fn shown(stream: &[Vec<u8>]) -> String {
    let lines = stream.iter().map(|message| message.escape_ascii().to_string());
    lines.collect::<Vec<_>>().join("\n")
}

/// Sends everything, on a new connection after each message that must end one. Returns the number
/// of replies.
async fn attack(schema: u64, stream: &[Vec<u8>]) -> Result<u64, String> {
    let bed = Bed::new(schema).await;
    let mut witness = UnixStream::connect(&bed.socket).await.unwrap();
    witness.write_all(AWARE).await.unwrap();
    read_replies(&mut witness, 1).await?;
    let (mut replies, mut rest) = (0, stream);
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(until_nonsense(rest));
        let aware = if batch.len() % 2 == 0 { AWARE } else { b"" };
        replies += one_connection(&bed.socket, &[aware, &batch.concat()].concat()).await?;
        rest = after;
    }
    witness.write_all(STILL_THERE).await.unwrap();
    read_replies(&mut witness, 2).await?;
    Ok(replies)
}

/// The witness wants to stay connected when databases are converted.
const AWARE: &[u8] = br#"{"id":1,"method":"set_db_change_aware","params":[true]}"#;
/// Requests that must be answered: the server runs, and its databases are not locked.
const STILL_THERE: &[u8] =
    br#"{"id":2,"method":"echo","params":[]}{"id":3,"method":"transact","params":["D"]}"#;

struct Bed {
    _listener: Listener,
    _folder: TempDir,
    socket: PathBuf,
}

impl Bed {
    async fn new(schema: u64) -> Self {
        let schema = DatabaseSchema::parse(generate::schema(schema).as_bytes()).unwrap();
        let limits = Limits { message: 1 << 20, backlog: 1 << 20, ..Limits::default() };
        let sim = Sim::builder().schema(Arc::new(schema)).limits(limits).seed(1).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("db.sock");
        let listener = sim.listen(&format!("punix:{}", socket.display())).await;
        Self { _listener: listener.unwrap(), _folder: folder, socket }
    }
}

/// The number of messages up to the first one that ends the connection.
fn until_nonsense(messages: &[Vec<u8>]) -> usize {
    let mut framer = Framer::new(1 << 20);
    let ends = |message: &Vec<u8>| {
        framer.push(message);
        loop {
            match framer.next_text() {
                Ok(Some(text)) => match Message::decode(&text) {
                    Ok(Message::Request { .. } | Message::Notification { .. }) => {}
                    Ok(Message::Reply(_)) | Err(_) => return true,
                },
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    };
    let at = messages.iter().position(ends);
    at.map_or(messages.len(), |at| at + 1)
}

/// Sends bytes and reads until the server closes the connection. Returns the number of replies.
async fn one_connection(socket: &Path, bytes: &[u8]) -> Result<u64, String> {
    let (mut input, mut output) = UnixStream::connect(socket).await.unwrap().into_split();
    let sending = async move {
        // The server may have closed the connection.
        output.write_all(bytes).await.unwrap_or_default();
        drop(output);
    };
    let hearing = async {
        let (mut framer, mut replies) = (Framer::new(usize::MAX), 0);
        loop {
            while let Some(text) = framer.next_text().map_err(|error| error.to_string())? {
                if let Message::Reply(_) = Message::decode(&text).map_err(|e| e.to_string())? {
                    replies += 1;
                }
            }
            let read = input.read_buf(framer.buffer_mut());
            match timeout(REPLY_TIMEOUT, read).await {
                Ok(Ok(0) | Err(_)) => return Ok(replies),
                Ok(Ok(_)) => {}
                Err(_) => return Err("the server does not end a connection".to_owned()),
            }
        }
    };
    tokio::join!(sending, hearing).1
}

/// Waits for replies.
async fn read_replies(stream: &mut UnixStream, mut replies: usize) -> Result<(), String> {
    let mut framer = Framer::new(usize::MAX);
    while replies > 0 {
        if let Some(text) = framer.next_text().map_err(|error| error.to_string())? {
            let is_reply = matches!(Message::decode(&text), Ok(Message::Reply(_)));
            replies -= usize::from(is_reply);
            continue;
        }
        let read = timeout(REPLY_TIMEOUT, stream.read_buf(framer.buffer_mut())).await;
        if read.map_err(|_| "the server does not answer")?.unwrap_or(0) == 0 {
            return Err("the server hung up on another client".to_owned());
        }
    }
    Ok(())
}

/// The peak memory of this process in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0_u64) << 10
}
