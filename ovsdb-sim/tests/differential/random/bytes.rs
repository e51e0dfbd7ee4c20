//! Requests with wrong bytes.

use ovsdb_sim::Model;
use patchbay_ovn_programs::testing::Release;
use patchbay_schemas::json::{Framer, Json};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::normal::Scope;
use crate::servers::Servers;

use super::requests::{CLOSE, Requests};
use super::values::pick;
use super::{number, schema};

/// Number of schemas, and of requests for each.
const SCHEMAS: u32 = 8;
const REQUESTS: usize = 300;
/// Maximum percentage of the requests at which the real server crashes.
const MAX_CRASHES: usize = 1;

/// Texts that are put into a request.
const TOKENS: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00\\ud800",
    "\\x",
    "null",
    "true",
    "-",
    "-0",
    "01",
    "1.",
    "1e400",
    "-1e-400",
    "9223372036854775808",
    "0.1e1",
    "\u{e9}",
    "\u{7f}",
    "\t",
    "\n",
    " ",
    "//",
    "[]",
    "{}",
];
/// Bytes that are invalid in a text. NUL is not among them, because the real server stops reading
/// at a NUL behind a number.
const BYTES: [u8; 7] = [1, 0x1f, 0x80, 0xc0, 0xed, 0xf5, 0xff];

#[test]
fn broken_requests_get_the_same_replies() {
    let release = Release::installed();
    let seed = number("PATCHBAY_DIFFERENTIAL_SEED").unwrap_or_default();
    let schemas = number("PATCHBAY_DIFFERENTIAL_CASES").map_or(SCHEMAS, |cases| cases as u32);
    let crashes: usize =
        (0..u64::from(schemas)).map(|case| compare(&release, seed ^ case << 32)).sum();
    assert!(
        crashes * 100 <= MAX_CRASHES * REQUESTS * schemas as usize,
        "the real server crashed {crashes} times"
    );
}

/// Sends broken requests, each on a new connection. Returns the number of the real server's
/// crashes.
fn compare(release: &Release, seed: u64) -> usize {
    let rng = &mut StdRng::seed_from_u64(seed);
    let schema = schema::random(rng.random());
    let start = || Servers::start(release, Model::Standalone, &schema);
    let mut servers = start();
    let mut requests = Requests::new(&schema);
    let mut crashes = 0;
    for id in 0..REQUESTS {
        let seeds: Vec<u64> = (0..rng.random_range(1..4)).map(|_| rng.random()).collect();
        let (_, method, params) = requests.any(&seeds, id);
        if method == CLOSE {
            continue;
        }
        // A string, because a reply has another spelling of some numbers.
        let mut text =
            format!(r#"{{"id":"r{id}","method":"{method}","params":{params}}}"#).into_bytes();
        break_at(rng, &mut text);
        end(&mut text);
        let request = Json::parse(&text).ok();
        let mut comparison = servers.compare(Scope::Broken);
        let Err(difference) = comparison.send('A', &text, request.as_ref()) else {
            continue;
        };
        if !comparison.real_is_gone() {
            let text = String::from_utf8_lossy(&text);
            panic!("schema {schema}\n{}", difference.describe("broken request", &text));
        }
        crashes += 1;
        servers = start();
    }
    crashes
}

/// Changes a few random bytes.
fn break_at(rng: &mut StdRng, text: &mut Vec<u8>) {
    let at = rng.random_range(0..text.len());
    let end = (at + rng.random_range(1..8)).min(text.len());
    let piece = text[at..end].to_vec();
    let elsewhere = rng.random_range(0..text.len());
    match rng.random_range(0..6) {
        0 => drop(text.splice(at..end, [])),
        1 => drop(text.splice(elsewhere..elsewhere, piece)),
        2 => text[at] = pick(rng, &BYTES),
        3 => drop(text.splice(at..=at, pick(rng, &TOKENS).bytes())),
        _ => drop(text.splice(at..at, pick(rng, &TOKENS).bytes())),
    }
}

/// Closes open arrays and objects, so that the server can reply.
fn end(text: &mut Vec<u8>) {
    let is_open = |text: &[u8]| {
        let mut framer = Framer::new(usize::MAX);
        framer.push(text);
        matches!(framer.next_text(), Ok(None))
    };
    for closing in ["", "\"", "]", "}", "\""].iter().cycle() {
        text.extend_from_slice(closing.as_bytes());
        if !is_open(text) {
            return;
        }
    }
}
