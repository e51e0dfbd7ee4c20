//! Roles of remotes beside ovsdb-server, installed and newest: the same requests of clients with a
//! certificate have the same replies.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{Release, ScratchDir};

/// Timeout of actions of other processes.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Common name in the certificate of the tests' client.
const CLIENT: &str = "client of a test";

/// Length of the reply to an `echo` with the id 1 and no parameters.
const ECHO_REPLY_BYTES: usize = r#"{"id":1,"result":[],"error":null}"#.len();

/// Rows that ovn-northd and an ovn-controller would write: permissions of the role
/// `ovn-controller`, the client's chassis and another one.
const CONTENT: &str = r#"["OVN_Southbound",
 {"op":"insert","table":"RBAC_Permission","uuid-name":"chassis","row":{"table":"Chassis",
  "authorization":"name","insert_delete":true,"update":["set",["nb_cfg","encaps","hostname"]]}},
 {"op":"insert","table":"RBAC_Permission","uuid-name":"encap","row":{"table":"Encap",
  "authorization":"chassis_name","insert_delete":true,"update":["set",["type","ip"]]}},
 {"op":"insert","table":"RBAC_Permission","uuid-name":"igmp","row":{"table":"IGMP_Group",
  "authorization":"","insert_delete":true,"update":["set",["address","chassis"]]}},
 {"op":"insert","table":"RBAC_Permission","uuid-name":"connection","row":{"table":"Connection",
  "authorization":["set",["external_ids:owner:x","none","none:owner","max_backoff","read_only:owner"]],
  "insert_delete":false,"update":["set",["external_ids","max_backoff"]]}},
 {"op":"insert","table":"RBAC_Permission","uuid-name":"rules","row":{"table":"RBAC_Permission",
  "authorization":"","insert_delete":true,"update":["set",["authorization"]]}},
 {"op":"insert","table":"RBAC_Role","row":{"name":"ovn-controller","permissions":["map",[
  ["Chassis",["named-uuid","chassis"]],["Encap",["named-uuid","encap"]],
  ["IGMP_Group",["named-uuid","igmp"]],["Connection",["named-uuid","connection"]],
  ["RBAC_Permission",["named-uuid","rules"]]]]}},
 {"op":"insert","table":"Encap","uuid-name":"tunnel","row":{"type":"geneve","ip":"192.0.2.9"}},
 {"op":"insert","table":"Chassis","row":{"name":"other","encaps":["named-uuid","tunnel"]}},
 {"op":"insert","table":"Connection","row":{"target":"ptcp:0:192.0.2.1",
  "external_ids":["map",[["owner","client of a test"]]]}},
 {"op":"insert","table":"Connection","row":{"target":"ptcp:0:192.0.2.2"}}]"#;

/// Operations of one transaction each.
const OPERATIONS: &[&str] = &[
    // A chassis of the client, with columns that it may not change later.
    r#"{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"192.0.2.1",
        "chassis_name":"client of a test"}},
       {"op":"insert","table":"Chassis","row":{"name":"client of a test",
        "transport_zones":"a","encaps":["named-uuid","e"]}}"#,
    // The chassis of another client; an operation before and one after it.
    r#"{"op":"comment","comment":""},{"op":"insert","table":"Chassis","row":{"name":"another"}},
       {"op":"comment","comment":""}"#,
    r#"{"op":"insert","table":"Chassis","row":{}}"#,
    // The errors of the operation itself come first.
    r#"{"op":"insert","table":"Chassis","row":{"none":1}}"#,
    r#"{"op":"insert","table":"Chassis","row":{},"none":1}"#,
    r#"{"op":"update","table":"Chassis","where":[],"row":{"name":1}}"#,
    r#"{"op":"mutate","table":"Chassis","where":[["none","==",1]],"mutations":[]}"#,
    // Updates of the own row, and of others.
    r#"{"op":"update","table":"Chassis","where":[["name","==","client of a test"]],
        "row":{"nb_cfg":3,"hostname":"h"}}"#,
    r#"{"op":"update","table":"Chassis","where":[["name","==","client of a test"]],
        "row":{"nb_cfg":3,"vtep_logical_switches":"v"}}"#,
    r#"{"op":"update","table":"Chassis","where":[["name","==","other"]],"row":{"nb_cfg":3}}"#,
    r#"{"op":"update","table":"Chassis","where":[],"row":{"nb_cfg":3}}"#,
    r#"{"op":"update","table":"Chassis","where":[],"row":{}}"#,
    r#"{"op":"update","table":"Chassis","where":[["name","==","nobody"]],"row":{"name":"x"}}"#,
    r#"{"op":"update","table":"Chassis","where":[["name","==","client of a test"]],"row":{}}"#,
    r#"{"op":"mutate","table":"Chassis","where":[["name","==","client of a test"]],
        "mutations":[["nb_cfg","+=",1]]}"#,
    r#"{"op":"mutate","table":"Chassis","where":[["name","==","client of a test"]],
        "mutations":[["nb_cfg","+=",1],["vtep_logical_switches","insert","v"]]}"#,
    r#"{"op":"mutate","table":"Chassis","where":[["name","==","client of a test"]],
        "mutations":[["nb_cfg","/=",0]]}"#,
    r#"{"op":"mutate","table":"Chassis","where":[["name","==","other"]],
        "mutations":[["nb_cfg","+=",1]]}"#,
    // Without mutations the rules do not count since Open vSwitch 3.4.
    r#"{"op":"mutate","table":"Chassis","where":[],"mutations":[]}"#,
    r#"{"op":"mutate","table":"Port_Binding","where":[],"mutations":[]}"#,
    // Tables without permissions.
    r#"{"op":"select","table":"Port_Binding","where":[],"columns":[]}"#,
    r#"{"op":"delete","table":"Port_Binding","where":[]}"#,
    r#"{"op":"update","table":"Port_Binding","where":[],"row":{}}"#,
    r#"{"op":"insert","table":"DNS","row":{}}"#,
    // Everybody is authorized.
    r#"{"op":"insert","table":"IGMP_Group","row":{"address":"a"}}"#,
    r#"{"op":"update","table":"IGMP_Group","where":[],"row":{"address":"b"}}"#,
    r#"{"op":"update","table":"IGMP_Group","where":[],"row":{"ports":["set",[]]}}"#,
    r#"{"op":"delete","table":"IGMP_Group","where":[]}"#,
    // Authorized by a key of a map, without the right to insert and delete.
    r#"{"op":"update","table":"Connection","where":[["target","==","ptcp:0:192.0.2.1"]],
        "row":{"max_backoff":5000}}"#,
    r#"{"op":"update","table":"Connection","where":[["target","==","ptcp:0:192.0.2.2"]],
        "row":{"max_backoff":5000}}"#,
    r#"{"op":"insert","table":"Connection","row":{"target":"ptcp:0:192.0.2.3",
        "external_ids":["map",[["owner","client of a test"]]]}}"#,
    r#"{"op":"delete","table":"Connection","where":[["target","==","ptcp:0:192.0.2.1"]]}"#,
    r#"{"op":"delete","table":"Connection","where":[["target","==","none"]]}"#,
    // A row that the transaction itself has handed over, or made the client's.
    r#"{"op":"update","table":"Connection","where":[["target","==","ptcp:0:192.0.2.1"]],
        "row":{"external_ids":["map",[["owner","x"]]]}},
       {"op":"update","table":"Connection","where":[["target","==","ptcp:0:192.0.2.1"]],
        "row":{"max_backoff":6000}}"#,
    // Rules that the transaction itself changes count at once.
    r#"{"op":"update","table":"Chassis","where":[["name","==","other"]],"row":{"nb_cfg":7}}"#,
    r#"{"op":"update","table":"RBAC_Permission","where":[["table","==","Chassis"]],
        "row":{"authorization":""}},
       {"op":"update","table":"Chassis","where":[["name","==","other"]],"row":{"nb_cfg":7}}"#,
    r#"{"op":"delete","table":"RBAC_Permission","where":[["table","==","Chassis"]]},
       {"op":"update","table":"Chassis","where":[["name","==","other"]],"row":{"nb_cfg":7}}"#,
    // Deletions.
    r#"{"op":"delete","table":"Encap","where":[["ip","==","192.0.2.9"]]}"#,
    r#"{"op":"delete","table":"Chassis","where":[]}"#,
    r#"{"op":"delete","table":"RBAC_Role","where":[]}"#,
    r#"{"op":"delete","table":"Chassis","where":[["name","==","client of a test"]]}"#,
];

/// Server with the schema of OVN_Southbound, and its folder.
struct Bed {
    release: Release,
    folder: ScratchDir,
}

impl Bed {
    fn start(release: &Release, program: Option<&str>) -> Self {
        let bed = Self { release: release.clone(), folder: ScratchDir::new() };
        let mut tool = bed.command("ovsdb-tool");
        tool.args(["create", "db"]).arg(release.schema("ovn-sb"));
        assert!(tool.status().unwrap().success());
        let mut server = match program {
            Some(program) => {
                let link = bed.path("ovsdb-server");
                symlink(program, &link).unwrap();
                bed.in_folder(Command::new(link))
            }
            None => bed.command("ovsdb-server"),
        };
        if program.is_some() && release.version().starts_with("3.1") {
            server.arg("--compat=3.1");
        }
        server
            .args(["--detach", "--no-chdir", "--pidfile", "--log-file"])
            .args(["-vconsole:off", "--remote=punix:db.sock", "db"])
            .arg("--remote=db:OVN_Southbound,SB_Global,connections");
        for (option, file) in [
            ("private-key", "server-key.pem"),
            ("certificate", "server.pem"),
            ("ca-cert", "ca.pem"),
        ] {
            server.arg(key_option(option, file));
        }
        let started = server.output().unwrap();
        assert!(started.status.success(), "{started:?}");
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        self.in_folder(self.release.command(program))
    }

    fn in_folder(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env_remove("RUST_LOG");
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    /// Runs ovsdb-client with the keys of the tests' client. Returns its output.
    fn client(&self, arguments: &[&str]) -> String {
        let mut command = self.command("ovsdb-client");
        command.args(["--timeout=60", "-vconsole:off"]);
        for (option, file) in [
            ("private-key", "client-key.pem"),
            ("certificate", "client.pem"),
            ("ca-cert", "ca.pem"),
        ] {
            command.arg(key_option(option, file));
        }
        let output = command.args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        without_uuids(&String::from_utf8(text).unwrap())
    }

    /// Executes operations for a client that a remote serves.
    fn transact(&self, remote: &str, operations: &str) -> String {
        let transaction = format!(r#"["OVN_Southbound",{operations}]"#);
        self.client(&["transact", remote, &transaction])
    }

    /// Makes a remote of a TLS port and of a unix socket, both with a role, and returns their
    /// addresses for clients.
    fn add_remotes(&self, role: &str) -> [String; 2] {
        let insert = |target: &str, name: &str| {
            format!(
                r#"{{"op":"insert","table":"Connection","uuid-name":"{name}","row":{{
                    "target":"{target}","role":"{role}","inactivity_probe":60000}}}}"#
            )
        };
        let (tls, unix) = (insert("pssl:0:127.0.0.1", "a"), insert("punix:role.sock", "b"));
        let added = self.transact(
            "unix:db.sock",
            &format!(
                r#"{tls},{unix},{{"op":"insert","table":"SB_Global","row":{{"connections":
                ["set",[["named-uuid","a"],["named-uuid","b"]]]}}}}"#
            ),
        );
        assert!(!added.contains("error"), "{added}");
        [format!("ssl:127.0.0.1:{}", self.chosen_port()), "unix:role.sock".to_owned()]
    }

    /// The last port in the log that the system has chosen.
    fn chosen_port(&self) -> u16 {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.path("ovsdb-server.log")).unwrap_or_default();
            let port = log
                .rsplit_once("127.0.0.1: listening on port ")
                .and_then(|(_, tail)| tail.lines().next()?.parse().ok());
            if let Some(port) = port
                && self.path("role.sock").exists()
            {
                return port;
            }
            assert!(start.elapsed() < TIMEOUT, "{log}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let mut exit = self.command("ovs-appctl");
        let _ = exit.args(["--timeout=20", "-t", "ovsdb-server", "exit"]).status();
    }
}

fn key_option(option: &str, file: &str) -> String {
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/tests/connection/keys");
    format!("--{option}={}", keys.join(file).display())
}

/// Replaces UUIDs that a server draws.
fn without_uuids(text: &str) -> String {
    let is_part = |text: &str| text.len() == 36 && text.matches('-').count() == 4;
    let parts: Vec<&str> =
        text.split('"').map(|part| if is_part(part) { "UUID" } else { part }).collect();
    parts.join("\"")
}

/// The installed release and the newest one.
fn both_releases() -> [Option<Release>; 2] {
    [Some(Release::installed()), Release::newest()]
}

/// The results of a function with both servers of each release, which must be the same.
fn compare(
    releases: impl IntoIterator<Item = Option<Release>>,
    act: impl Fn(&Bed) -> Vec<String>,
) -> Vec<Vec<String>> {
    let results = releases.into_iter().flatten().map(|release| {
        let [real, sim] = [None, Some(env!("CARGO_BIN_EXE_ovsdb-sim"))]
            .map(|program| act(&Bed::start(&release, program)));
        for (number, (real, sim)) in real.iter().zip(&sim).enumerate() {
            assert_eq!(real, sim, "result {number} of {}", release.version());
        }
        assert_eq!(real.len(), sim.len());
        sim
    });
    results.collect()
}

#[test]
fn a_client_with_a_role_writes_the_rows_that_the_rules_allow() {
    let results = compare(both_releases(), |bed| {
        let filled = bed.client(&["transact", "unix:db.sock", CONTENT]);
        assert!(!filled.contains("error"), "{filled}");
        let remotes = bed.add_remotes("ovn-controller");
        let mut results = Vec::new();
        for operations in OPERATIONS {
            for remote in remotes.iter().rev() {
                results.push(bed.transact(remote, operations));
            }
        }
        results
    });
    for results in results {
        let denied = |results: &[String]| {
            let denied = results.iter().filter(|result| result.contains("permission error"));
            denied.count()
        };
        assert!(results.iter().any(|result| result.contains(&format!(
            "RBAC rules for client \\\"{CLIENT}\\\" role \\\"ovn-controller\\\" prohibit row insertion into \
             table \\\"Chassis\\\"."
        ))), "{results:#?}");
        assert!(denied(&results) > OPERATIONS.len(), "{} of {}", denied(&results), results.len());
    }
}

#[test]
fn only_clients_without_a_role_convert_databases_and_write_without_rules() {
    let results = compare(both_releases(), |bed| {
        let remotes = bed.add_remotes("ovn-controller");
        let schema = bed.release.schema("ovn-sb");
        let convert = |remote: &str| bed.client(&["convert", remote, schema.to_str().unwrap()]);
        let insert = r#"{"op":"insert","table":"RBAC_Permission","row":{}}"#;
        let mut results = Vec::new();
        for remote in &remotes {
            // The table of roles is there, and empty.
            results.push(bed.transact(remote, insert));
            results.push(convert(remote));
        }
        results.push(bed.transact("unix:db.sock", insert));
        results.push(convert("unix:db.sock"));
        results
    });
    for results in results {
        for denied in &results[..4] {
            assert!(denied.contains("permission error"), "{denied}");
        }
        assert!(
            results[1].contains("(only the root role may convert databases)"),
            "{}",
            results[1]
        );
        assert!(results[2].contains("client \\\"(null)\\\""), "{}", results[2]);
        for allowed in &results[4..] {
            assert!(!allowed.contains("permission error"), "{allowed}");
        }
    }
}

#[test]
fn a_remote_whose_role_changes_closes_its_connections() {
    // ovsdb-server 3.1 keeps the former role until the remote is removed.
    let results = compare([Release::newest()], |bed| {
        bed.add_remotes("");
        let insert = r#"{"op":"insert","table":"RBAC_Permission","row":{}}"#;
        let mut results = vec![bed.transact("unix:role.sock", insert)];
        for role in ["ovn-controller", "other", ""] {
            let mut client = UnixStream::connect(bed.path("role.sock")).unwrap();
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            // A client with a reply has been accepted.
            let echo = br#"{"id":1,"method":"echo","params":[]}"#;
            client.write_all(echo).unwrap();
            let mut reply = [0; ECHO_REPLY_BYTES];
            client.read_exact(&mut reply).unwrap();
            let update = format!(
                r#"{{"op":"update","table":"Connection","where":[["target","==","punix:role.sock"]],
                    "row":{{"role":"{role}"}}}}"#
            );
            results.push(bed.transact("unix:db.sock", &update));
            let mut rest = String::new();
            client.read_to_string(&mut rest).unwrap();
            results.push(rest);
            // ovsdb-server closes the connections before the socket, which it opens again.
            let start = Instant::now();
            let result = loop {
                let result = bed.transact("unix:role.sock", insert);
                if result.starts_with('[') {
                    break result;
                }
                assert!(start.elapsed() < TIMEOUT, "{result}");
            };
            results.push(result);
        }
        results
    });
    for results in results {
        assert!(results[0].contains("UUID"), "{results:?}");
        assert!(results[3].contains("ovn-controller"), "{results:?}");
        assert!(results[6].contains("other"), "{results:?}");
        assert!(results[9].contains("UUID"), "{results:?}");
    }
}
