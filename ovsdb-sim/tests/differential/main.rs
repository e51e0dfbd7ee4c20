//! Comparison of the simulator with the real ovsdb-server: the same schemas and requests must give
//! the same messages.
//!
//! Directed cases are in `cases/*.case`, one theme each; see [`script`] for their form. They have
//! no expected replies: those are the real server's.

mod client;
mod crashes;
mod large;
mod normal;
mod random;
mod script;
mod servers;
mod transactions;

use std::thread;
use std::time::Duration;

use ovsdb_sim::Model;
use patchbay_ovn_programs::testing::Release;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;

use normal::Scope;
use script::{Action, Case, Script};
use servers::{Comparison, Servers};

/// Time in which a server notices that a client has closed its connection. Without it, the server
/// may execute later requests of others first.
const CLOSE_NOTICE_TIME: Duration = Duration::from_millis(200);

/// Runs a file of cases, each on empty tables and new connections. Reports the first difference of
/// each.
fn run(release: &Release, text: &str) {
    run_on(release, Model::Standalone, text);
}

/// Runs a file of cases like [`run`], on clusters of one server.
fn run_clustered(release: &Release, text: &str) {
    run_on(release, Model::Clustered, text);
}

/// Runs a file of cases like [`run`], on relays of the two servers.
fn run_relayed(release: &Release, text: &str) {
    let script = Script::parse(text);
    let servers = Servers::start_relays(release, Model::Standalone, &script.schema);
    run_script(release, &script, &servers, Model::Standalone);
}

/// Runs a file of cases like [`run_clustered`], on relays of the two clusters.
fn run_relayed_clustered(release: &Release, text: &str) {
    let script = Script::parse(text);
    let servers = Servers::start_relays(release, Model::Clustered, &script.schema);
    run_script(release, &script, &servers, Model::Clustered);
}

fn run_on(release: &Release, model: Model, text: &str) {
    let script = Script::parse(text);
    let servers = Servers::start(release, model, &script.schema);
    run_script(release, &script, &servers, model);
}

fn run_script(release: &Release, script: &Script, servers: &Servers, model: Model) {
    let clean = delete_everything(&script.schema);
    let mut differences = String::new();
    let works = |case: &&Case| {
        let name = case.name.as_str();
        let is_damaged = model == Model::Clustered && DAMAGED_BY_CLUSTERS.contains(&name);
        let is_different = servers.are_relays() && DIFFERENT_ON_RELAYS.contains(&name);
        !is_damaged && !is_different
    };
    for case in script.cases_of(&release.version()).filter(works) {
        let mut comparison = servers.compare(Scope::Directed);
        differences += &run_case(case, &mut comparison);
        // After a crash, or with different tables, the next cases have no meaning.
        let cleaned = comparison.send('Z', clean.as_bytes(), None);
        if let Err(difference) = cleaned {
            differences += &difference.describe(&case.name, "cleaning up");
            break;
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

/// Runs a file of cases that change the schema, each on new servers.
fn run_apart(release: &Release, text: &str) {
    run_apart_on(release, Model::Standalone, text);
}

/// Runs a file of cases like [`run_apart`], on clusters of one server.
fn run_apart_clustered(release: &Release, text: &str) {
    run_apart_on(release, Model::Clustered, text);
}

fn run_apart_on(release: &Release, model: Model, text: &str) {
    let script = Script::parse(text);
    let compare = |case| {
        let servers = Servers::start(release, model, &script.schema);
        run_case(case, &mut servers.compare(Scope::Directed))
    };
    let differences: String = script.cases_of(&release.version()).map(compare).collect();
    assert!(differences.is_empty(), "\n{differences}");
}

/// Cases in which a cluster of ovsdb-server 3.1 damages its content, because it reads the
/// difference from a default that is not empty as the new value.
const DAMAGED_BY_CLUSTERS: [&str; 1] = ["every change in every version"];

/// Cases in which a relay differs: ovsdb-server's executes a waiting transaction again after any
/// that was forwarded, and so finds sooner that its lock was stolen; and it gives a row another
/// version that the source has changed without a trace.
const DIFFERENT_ON_RELAYS: [&str; 2] =
    ["locks and waiting transactions", "weak references without a trace"];

/// Runs a case and returns its first difference. Later ones may be its consequences.
fn run_case(case: &Case, comparison: &mut Comparison) -> String {
    for step in &case.steps {
        let outcome = match &step.action {
            Action::Request(text) => {
                comparison.send(step.connection, text.as_bytes(), step.request().as_ref())
            }
            Action::Bytes(bytes) => comparison.send(step.connection, bytes, None),
            Action::Part(bytes) => {
                comparison.send_part(step.connection, bytes);
                Ok(())
            }
            Action::Close => {
                comparison.close(step.connection);
                thread::sleep(CLOSE_NOTICE_TIME);
                Ok(())
            }
            Action::Sleep(pause) => {
                thread::sleep(*pause);
                comparison.send(step.connection, b"", None)
            }
        };
        if let Err(difference) = outcome {
            return difference.describe(&case.name, &step.text);
        }
    }
    String::new()
}

/// A request that empties all tables.
fn delete_everything(schema: &str) -> String {
    let schema = DatabaseSchema::parse(schema.as_bytes()).expect("a valid schema");
    let mut params = vec![Json::string(&schema.name)];
    params.extend(schema.tables.iter().map(|table| {
        Json::object([
            ("op", Json::string("delete")),
            ("table", Json::string(&*table.name)),
            ("where", Json::Array(Vec::new())),
        ])
    }));
    let params = Json::Array(params).to_text();
    format!("{{\"id\":0,\"method\":\"transact\",\"params\":{params}}}")
}

macro_rules! themes {
    ($($name:ident: $run:ident),* $(,)?) => {
        /// Against the installed release.
        mod installed {
            use patchbay_ovn_programs::testing::Release;
            $(
                #[test]
                fn $name() {
                    super::$run(&Release::installed(), include_str!(concat!("cases/", stringify!($name), ".case")));
                }
            )*
        }

        /// Against the release of Debian trixie.
        mod trixie {
            use patchbay_ovn_programs::testing::Release;
            $(
                #[test]
                fn $name() {
                    if let Some(release) = Release::trixie() {
                        super::$run(&release, include_str!(concat!("cases/", stringify!($name), ".case")));
                    }
                }
            )*
        }

        /// Against the newest release, that of Debian sid.
        mod newest {
            use patchbay_ovn_programs::testing::Release;
            $(
                #[test]
                fn $name() {
                    if let Some(release) = Release::newest() {
                        super::$run(&release, include_str!(concat!("cases/", stringify!($name), ".case")));
                    }
                }
            )*
        }
    };
}

themes! {
    commit: run,
    conditions: run,
    convert: run_apart,
    garbage: run,
    methods: run,
    monitors: run,
    mutations: run,
    operations: run,
    schemas: run,
    sessions: run,
    values: run,
    wire: run,
}

/// Comparison with clusters of the installed release.
mod clustered {
    use patchbay_ovn_programs::testing::Release;

    use super::{run_apart_clustered, run_clustered};

    #[test]
    fn history() {
        run_clustered(&Release::installed(), include_str!("cases/history.case"));
    }

    #[test]
    fn methods() {
        run_clustered(&Release::installed(), include_str!("cases/methods.case"));
    }

    #[test]
    fn monitors() {
        run_clustered(&Release::installed(), include_str!("cases/monitors.case"));
    }

    #[test]
    fn convert() {
        run_apart_clustered(&Release::installed(), include_str!("cases/convert.case"));
    }
}

/// Comparison of relays with those of the installed release and of the newest one.
mod relayed {
    use patchbay_ovn_programs::testing::Release;

    use super::{run_relayed, run_relayed_clustered};

    fn run_on_newest(text: &str) {
        if let Some(release) = Release::newest() {
            run_relayed(&release, text);
        }
    }

    #[test]
    fn commit() {
        run_on_newest(include_str!("cases/commit.case"));
    }

    #[test]
    fn history() {
        run_relayed_clustered(&Release::installed(), include_str!("cases/history.case"));
    }

    #[test]
    fn methods() {
        run_on_newest(include_str!("cases/methods.case"));
    }

    #[test]
    fn monitors() {
        run_on_newest(include_str!("cases/monitors.case"));
    }

    #[test]
    fn operations() {
        run_on_newest(include_str!("cases/operations.case"));
    }

    #[test]
    fn sessions() {
        run_on_newest(include_str!("cases/sessions.case"));
        run_relayed(&Release::installed(), include_str!("cases/sessions.case"));
    }

    #[test]
    fn values() {
        run_on_newest(include_str!("cases/values.case"));
    }
}
