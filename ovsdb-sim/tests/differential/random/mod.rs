//! Random schemas, transactions and monitors.
//!
//! A run has a fixed seed. `PATCHBAY_DIFFERENTIAL_SEED` sets another one, and
//! `PATCHBAY_DIFFERENTIAL_CASES` the number of databases.

mod bytes;
mod changed_schema;
mod clusters;
mod conditions;
mod conversions;
mod monitor_requests;
mod requests;
mod schema;
mod sequences;
mod values;

use std::env;

use ovsdb_sim::Model;
use patchbay_ovn_programs::testing::Release;
use patchbay_schemas::json::Json;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::normal::Scope;
use crate::servers::Servers;

use requests::{CLOSE, Requests};
use serde_json::json;

/// Number of databases that are compared with the installed release, which takes about twenty
/// seconds.
const CASES: u32 = 350;
/// Number of clustered databases, small because it takes long to start a cluster.
const CLUSTERED_CASES: u32 = 20;

/// Number of databases that are compared with the release of trixie.
const TRIXIE_CASES: u32 = 75;
/// Number of databases that are compared with the newest release.
const NEWEST_CASES: u32 = 75;

/// Seeds of a database's schema and of its requests. The removal of requests or operations does not
/// change the others, so that a difference can be reduced.
#[derive(Clone, Debug)]
struct Seeds {
    schema: u64,
    setup: Vec<u64>,
    requests: Vec<Vec<u64>>,
}

fn seeds() -> impl Strategy<Value = Seeds> {
    let seed = || any::<u64>().no_shrink();
    let requests = vec(vec(seed(), 1..6), 1..25);
    (seed(), vec(seed(), 1..7), requests).prop_map(|(schema, setup, requests)| Seeds {
        schema,
        setup,
        requests,
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}

#[test]
fn random_requests_get_the_same_replies() {
    run(&Release::installed(), Model::Standalone, CASES);
}

#[test]
fn random_requests_to_clusters_get_the_same_replies() {
    run(&Release::installed(), Model::Clustered, CLUSTERED_CASES);
}

#[test]
fn random_requests_get_the_same_replies_as_in_trixie() {
    if let Some(release) = Release::trixie() {
        run(&release, Model::Standalone, TRIXIE_CASES);
    }
}

#[test]
fn random_requests_get_the_same_replies_as_in_the_newest_release() {
    if let Some(release) = Release::newest() {
        run(&release, Model::Standalone, NEWEST_CASES);
    }
}

fn run(release: &Release, model: Model, cases: u32) {
    let cases = number("PATCHBAY_DIFFERENTIAL_CASES").map_or(cases, |cases| cases as u32);
    let mut seed = [0; 32];
    let number = number("PATCHBAY_DIFFERENTIAL_SEED").unwrap_or_default();
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: match model {
            Model::Standalone => 1500,
            // A missing message of a cluster costs its timeout.
            Model::Clustered => 50,
        },
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(&seeds(), |seeds| compare(release, model, &seeds).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(TestError::Abort(reason)) => panic!("no cases: {reason}"),
    }
}

/// Runs one case.
///
/// # Errors
/// The first difference, with the requests that led to it in the form of a script.
fn compare(release: &Release, model: Model, seeds: &Seeds) -> Result<(), String> {
    let schema = schema::random(seeds.schema);
    let schema = match model {
        Model::Standalone => schema,
        Model::Clustered => clusters::without_lengths(&schema),
    };
    let servers = Servers::start(release, model, &schema);
    let mut comparison = servers.compare(Scope::Random);
    let mut requests = Requests::new(&schema);
    let mut script = vec![format!("schema {schema}")];
    let monitors: Vec<_> = seeds.setup.iter().map(|seed| requests.monitor(*seed)).collect();
    let changes =
        seeds.requests.iter().zip(monitors.len()..).map(|(seeds, id)| requests.any(seeds, id));
    for (id, (connection, method, params)) in monitors.into_iter().chain(changes).enumerate() {
        if method == CLOSE {
            script.push(format!("{connection} {method}"));
            comparison
                .close_noticed(connection)
                .map_err(|difference| difference.describe("random", &script.join("\n")))?;
            continue;
        }
        let params = match model {
            Model::Standalone => params,
            Model::Clustered => clusters::with_known_transaction(&params, id),
        };
        let (id, mark) = match method {
            "cancel" => (json!(null), "notify "),
            _ => (json!(id), ""),
        };
        let text = format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
        let request = Json::parse(text.as_bytes()).map_err(|error| format!("{error}: {text}"))?;
        let text = match id.as_u64() {
            Some(id) if id % 2 == 0 => with_escapes(&text),
            _ => text,
        };
        script.push(format!("{connection} {mark}{method} {params}"));
        let request = (method != "cancel").then_some(&request);
        comparison
            .send(connection, text.as_bytes(), request)
            .map_err(|difference| difference.describe("random", &script.join("\n")))?;
    }
    Ok(())
}

/// The text with other spellings of the same strings.
fn with_escapes(text: &str) -> String {
    text.replace('é', "\\u00E9")
        .replace('\u{1f600}', "\\ud83d\\uDE00")
        .replace('\u{7f}', "\\u007f")
        .replace('/', "\\/")
}
