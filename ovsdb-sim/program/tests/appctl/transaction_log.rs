//! Log of changed rows, in tables that the operator chooses.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::Release;

use crate::{Server, TIMEOUT, both, same, send_requests, succeeds};

/// Changes of rows of T, each with one line in the log, and one of a table that is not logged.
const REQUESTS: &str = r#"
    {"id":1,"method":"transact","params":["D",
        {"op":"insert","table":"T","uuid":"00000000-0000-4000-8000-000000000001",
            "row":{"i":1,"set":"a b","map":["map",[["k",1],["true",2]]]}},
        {"op":"insert","table":"Global","row":{}}]}
    {"id":2,"method":"transact","params":["D",{"op":"update","table":"T","where":[],"row":{"i":1}}]}
    {"id":3,"method":"transact","params":["D",{"op":"update","table":"T","where":[],
        "row":{"set":["set",["x","y"]],"friends":["uuid","00000000-0000-4000-8000-000000000001"]}}]}
    {"id":4,"method":"transact","params":["D",{"op":"delete","table":"T","where":[]}]}"#;

#[test]
fn tables_are_chosen_as_in_ovsdb_server() {
    let (_folder, mut servers) = both();
    for command in [
        "tlog-list",
        "tlog-set D:T on",
        "tlog-set _Server:Database ON",
        "tlog-set ::D::Global:: on",
        "tlog-list",
        "tlog-set D:Global Off",
        "tlog-list",
        "tlog-set D:T maybe",
        "tlog-set X:T maybe",
        "tlog-set X:T on",
        "tlog-set D:X on",
        "tlog-set D: maybe",
        "tlog-set D:T:i on",
        "tlog-set D:T",
        "tlog-list D",
    ] {
        same(&mut servers, &format!("ovsdb-server/{command}"));
    }
    // The tables of another schema are other ones.
    for server in &servers {
        let schema = crate::SCHEMA.replace('\n', "");
        let request = format!(r#"{{"id":1,"method":"convert","params":["D",{schema}]}}"#);
        send_requests(&server.socket, &request);
    }
    same(&mut servers, "ovsdb-server/tlog-list");
}

/// The lines about rows of T when the last one is there: their columns without `_version`, which
/// are in no order.
fn logged(log: &Path) -> Vec<BTreeSet<String>> {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap();
        if text.contains("op:deleted") {
            let rows = text.lines().filter_map(|line| line.split_once("table:T,"));
            let columns = rows.map(|(_, row)| row.split(',').map(str::to_owned).collect());
            return columns
                .map(|mut columns: BTreeSet<String>| {
                    columns.retain(|column| !column.starts_with("_version:"));
                    columns
                })
                .collect();
        }
        assert!(start.elapsed() < TIMEOUT, "{text}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn changed_rows_are_logged_as_in_ovsdb_server() {
    let (folder, [mut real, _]) = both();
    let log = folder.path().join("log");
    let output = File::create(&log).unwrap();
    let schema = folder.path().join("ovsschema");
    let mut sim = Server::sim_with_log(&Release::installed(), &schema, output.into());
    let real_log = real.unixctl.parent().unwrap().join("log");
    let rows = [(&mut real, real_log), (&mut sim, log)].map(|(server, log)| {
        succeeds(server, "vlog/set transaction:console:info");
        succeeds(server, "ovsdb-server/tlog-set D:T on");
        send_requests(&server.socket, REQUESTS);
        logged(&log)
    });
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0].len(), 3, "{:?}", rows[0]);
}
