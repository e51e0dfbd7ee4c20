//! The client against servers whose messages have random faults: it is live on the first correct
//! server.

use std::time::Duration;

use patchbay_engine::client::{Client, Config};
use patchbay_schemas::nb::LogicalSwitch;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tokio::io::AsyncWriteExt;

use crate::peer::{FakeServer, Peer, ROW, SCHEMA, SERVER, ZERO, one_switch};
use crate::{impatient, soon, until_live};

/// Replacements for a word or number.
const REPLACEMENTS: [&str; 24] = [
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "9223372036854775807",
    "1e308",
    "1e400",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "\"integer\"",
    "\"uuid\"",
    "\"unlimited\"",
    "\"Logical_Switch\"",
    "\"name\"",
    "\"insert\"",
    "\"modify\"",
    "\"delete\"",
    "\"update2\"",
    "\"echo\"",
    "[\"set\",[]]",
    "[\"map\",[[\"a\",1]]]",
];

/// The faults of one server: positions and replacements.
type Faults = Vec<(Index, Index)>;

#[test]
fn a_client_recovers_from_any_malformed_messages() {
    let cases = std::env::var("PATCHBAY_FUZZ_CASES").ok();
    let cases = cases.map_or(150, |cases| cases.parse().expect("a number"));
    let config =
        Cases { cases, failure_persistence: None, max_shrink_iters: 100, ..Cases::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let wrong = vec((any::<Index>(), any::<Index>()), 1..4);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    TestRunner::new_with_rng(config, rng)
        .run(&vec(wrong, 1..6), |servers| {
            runtime
                .block_on(run_faulty_servers_then_a_correct_one(&servers))
                .map_err(TestCaseError::fail)
        })
        .unwrap();
}

async fn run_faulty_servers_then_a_correct_one(servers: &[Faults]) -> Result<(), String> {
    let server = FakeServer::start();
    let mut config = impatient(Config::new(server.remote().parse().unwrap(), "D"));
    config.backoff = (Duration::from_millis(1), Duration::from_millis(2));
    let client = tokio::spawn(Client::connect(config));
    let mut peer = server.accept_live(&one_switch("first")).await;
    let client = soon(client).await.unwrap().unwrap();
    let lock = client.lock("l").map_err(|error| error.to_string())?;
    for wrong in servers {
        drop(peer);
        peer = server.accept().await;
        misbehave(&mut peer, wrong).await;
    }
    drop(peer);
    let mut peer = server.accept_live(&one_switch("right")).await;
    until_live(&client, true).await;
    if peer.request().await != "lock" {
        return Err("the lock is not requested".to_owned());
    }
    peer.answer(r#""result":{"locked":true},"error":null"#).await;
    soon(lock.wait_until_held()).await.map_err(|error| error.to_string())?;
    let snapshot = client.snapshot();
    let switches: Vec<_> = snapshot.typed::<LogicalSwitch>().iter().collect();
    match &switches[..] {
        [Ok((_, switch))] if switch.name == "right" => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Replies to the client's requests and sends updates, with these faults.
async fn misbehave(peer: &mut Peer, wrong: &Faults) {
    let update = |update: &str| {
        format!(
            r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"Logical_Switch":{{"{ROW}":{update}}}}}]}}"#
        )
    };
    let contents = one_switch("wrong");
    let mut script: Vec<Vec<String>> = [
        format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#),
        r#"{"id":2,"result":{"locked":true},"error":null}"#.to_owned(),
        r#"{"id":3,"result":{},"error":null}"#.to_owned(),
        format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#),
        format!(r#"{{"id":5,"result":[false,"{ZERO}",{contents}],"error":null}}"#),
        format!(r#"{{"id":6,"result":{SCHEMA},"error":null}}"#),
        update(r#"{"modify":{"name":"b","ports":["set",[]]}}"#),
        update(r#"{"delete":null}"#),
        r#"{"id":7,"result":{"locked":false},"error":null}"#.to_owned(),
        r#"{"id":null,"method":"locked","params":["l"]}"#.to_owned(),
        r#"{"id":null,"method":"stolen","params":["l"]}"#.to_owned(),
        r#"{"id":"echo","method":"echo","params":[]}"#.to_owned(),
    ]
    .map(|message| words(&message))
    .into();
    for (place, odd) in wrong {
        let message = place.index(script.len());
        let words = &mut script[message];
        let is_value = |word: &String| word.starts_with(|c: char| c == '"' || c.is_alphanumeric());
        let values: Vec<usize> = (0..words.len()).filter(|i| is_value(&words[*i])).collect();
        let word = &mut words[values[odd.index(values.len())]];
        (*odd.get(&REPLACEMENTS)).clone_into(word);
    }
    for (number, message) in script.iter().enumerate() {
        // A client that got no answer, to its mind, asks nothing more.
        if number < 5 {
            let asked = tokio::time::timeout(Duration::from_millis(20), peer.next_text()).await;
            if !matches!(asked, Ok(Some(_))) {
                return;
            }
        }
        // The client may have hung up.
        let sent = peer.stream.write_all(message.concat().as_bytes()).await;
        sent.unwrap_or_default();
    }
}

/// The tokens of a text.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_string = false;
    for char in text.chars() {
        let goes_on = in_string
            || char.is_alphanumeric()
                && words.last().is_some_and(|w| w.ends_with(char::is_alphanumeric));
        match words.last_mut() {
            Some(word) if goes_on => word.push(char),
            _ => words.push(char.into()),
        }
        if char == '"' {
            in_string = !in_string;
        }
    }
    words
}
