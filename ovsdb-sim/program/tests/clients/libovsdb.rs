//! libovsdb, the client inside OVN-Kubernetes, by a program in Go in the folder `libovsdb`: it must
//! print the same results and events on both servers.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use patchbay_ovn_programs::testing::Release;

use crate::server::Server;
use crate::{differing_lines, lists};

/// Name of the schema's database.
const DATABASE: &str = "Things";

#[test]
#[ignore = "it compiles libovsdb, which takes a minute"]
fn libovsdb_sees_the_same_of_standalone_databases() {
    let schemas = vec![schema()];
    compare([&|| Server::real(&Release::installed(), &schemas), &|| {
        Server::sim_as("standalone", &schemas)
    }]);
}

/// A clustered database has a history, from which a returning client gets what it missed.
#[test]
#[ignore = "it compiles libovsdb, which takes a minute"]
fn libovsdb_sees_the_same_of_clustered_databases() {
    let schemas = vec![schema()];
    compare([&|| Server::real_member(&Release::installed(), DATABASE, &schemas[0]), &|| {
        Server::sim_as("clustered", &schemas)
    }]);
}

fn schema() -> PathBuf {
    lists().join("libovsdb/things.ovsschema")
}

/// Runs the program on both servers at the same time.
fn compare(starts: [&(dyn Fn() -> Server + Sync); 2]) {
    let Some(program) = program() else {
        return;
    };
    let [real, sim] = thread::scope(|scope| {
        let runs = starts.map(|start| scope.spawn(|| output(program, &start())));
        runs.map(|run| run.join().expect("no server fails to start"))
    });
    let (left, right) = differing_lines(&real, &sim);
    assert!(real == sim, "--- real\n{left}--- sim\n{right}");
    assert!(real.contains("== 10,000 rows\n"), "{real}");
}

fn output(program: &Path, server: &Server) -> String {
    let output =
        Command::new(program).arg(server.remote()).output().expect("a built program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("the output is text")
}

/// Builds the program. `None`: Go is missing, which standard error names.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libovsdb");
        let mut go = Command::new("go");
        go.current_dir(lists().join("libovsdb"))
            .env("CGO_ENABLED", "0")
            .args(["build", "-buildvcs=false", "-o"])
            .arg(&program)
            .arg(".");
        let Ok(output) = go.output() else {
            // Not by a macro, whose output appears only if a test fails.
            writeln!(io::stderr(), "not run: go is missing, which builds libovsdb")
                .expect("standard error is open");
            return None;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        Some(program)
    };
    PROGRAM.get_or_init(build).as_deref()
}
