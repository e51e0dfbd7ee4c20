//! Addition and removal of databases: the output of the commands, and the messages to clients.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use patchbay_ovn_programs::testing::{RealServer, Release, ScratchDir, program};
use serde_json::{Value, json};

use crate::{SCHEMA, Server, TIMEOUT, both_of, send_requests, succeeds, until};

const NAMES: [&str; 2] = ["real", "sim"];

/// Two servers, and for each a folder with the same files.
struct Bed {
    folder: ScratchDir,
    servers: [Server; 2],
}

impl Bed {
    /// Starts both servers. Each folder has the files `E.db` and `namesake.db` of a database `E`,
    /// and `reserved.db` of one with a reserved name.
    fn new(release: &Release) -> Self {
        let (folder, servers) = both_of(release);
        let bed = Self { folder, servers };
        for file in ["E.db", "namesake.db"] {
            bed.create(file, &SCHEMA.replace(r#""name":"D""#, r#""name":"E""#));
        }
        bed.create("reserved.db", r#"{"name":"_E","tables":{}}"#);
        bed
    }

    fn create(&self, file: &str, schema: &str) {
        let source = self.folder.path().join("schema");
        std::fs::write(&source, schema).unwrap();
        for name in NAMES {
            let folder = self.folder.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            tool("create", &folder.join(file), &source.display().to_string());
        }
    }

    fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        for name in NAMES {
            std::fs::write(self.folder.path().join(name).join(file), &content).unwrap();
        }
    }

    /// The servers, each with the path of its folder.
    fn each(&mut self) -> [(&mut Server, PathBuf); 2] {
        let folders = NAMES.map(|name| self.folder.path().join(name));
        let [real, sim] = &mut self.servers;
        let [real_folder, sim_folder] = folders;
        [(real, real_folder), (sim, sim_folder)]
    }

    /// Runs a command, whose output must be the same on both servers. `@` is replaced by the
    /// folder.
    fn same(&mut self, command: &str) -> String {
        let [real, sim] = self.each().map(|(server, folder)| {
            let folder = folder.display().to_string();
            let (output, code) = server.appctl(&command.replace('@', &folder));
            (output.replace(&folder, "@"), code)
        });
        assert_eq!(real, sim, "{command}");
        real.0
    }
}

fn tool(command: &str, file: &Path, argument: &str) {
    let mut tool = Command::new(program("ovsdb-tool"));
    let output = tool.arg(command).arg(file).arg(argument).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A database file with records of these texts.
fn file_of(texts: &[&str]) -> String {
    let records = texts.iter().map(|text| {
        let text = format!("{text}\n");
        let sum = sha1(&text);
        format!("OVSDB JSON {} {sum}\n{text}", text.len())
    });
    records.collect()
}

fn sha1(text: &str) -> String {
    use sha1::{Digest as _, Sha1};
    let bytes = Sha1::digest(text);
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn databases_are_added_and_removed() {
    come_and_go(&Release::installed());
}

#[test]
fn databases_are_added_and_removed_as_in_trixie() {
    if let Some(release) = Release::trixie() {
        come_and_go(&release);
    }
}

fn come_and_go(release: &Release) {
    let mut bed = Bed::new(release);
    assert_eq!(bed.same("ovsdb-server/add-db @/E.db"), "");
    for command in [
        "ovsdb-server/list-dbs",
        "ovsdb-server/get-db-storage-status E",
        "ovsdb-server/compact E",
        "ovsdb-server/add-db @/E.db",
        "ovsdb-server/add-db @/../@/E.db",
        "ovsdb-server/remove-db",
        "ovsdb-server/remove-db none",
        "ovsdb-server/remove-db _Server",
        "ovsdb-server/remove-db _none",
        "ovsdb-server/remove-db E F",
        "ovsdb-server/add-db",
        "ovsdb-server/add-db @/E.db x",
    ] {
        bed.same(command);
    }
    let list = r#"{"id":1,"method":"list_dbs","params":[]}"#;
    let [real, sim] = bed.each().map(|(server, _)| send_requests(&server.socket, list));
    assert_eq!(real, sim);
    let insert = r#"["E",{"op":"insert","table":"T","row":{"i":7}}]"#;
    let [real, sim] = bed.each().map(|(server, _)| {
        let request = format!(r#"{{"id":1,"method":"transact","params":{insert}}}"#);
        send_requests(&server.socket, &request)
    });
    assert!(real.contains(r#"{"uuid":["uuid""#), "{real}");
    assert!(sim.contains(r#"{"uuid":["uuid""#), "{sim}");

    assert_eq!(bed.same("ovsdb-server/remove-db E"), "");
    assert_eq!(bed.same("ovsdb-server/list-dbs"), "D\n_Server\n");
    bed.same("ovsdb-server/get-db-storage-status E");
    bed.same("ovsdb-server/compact E");
    bed.same("ovsdb-server/remove-db E");
    // Its file is unlocked.
    for (_, folder) in bed.each() {
        tool("transact", &folder.join("E.db"), &insert.replace('7', "8"));
    }
    bed.same("ovsdb-server/add-db @/namesake.db");
    bed.same("ovsdb-server/remove-db E");
    bed.same("ovsdb-server/add-db @/E.db");
    let select = r#"{"id":1,"method":"transact","params":["E",{"op":"select","table":"T","where":[],"columns":["i"]}]}"#;
    for (server, _) in bed.each() {
        let reply = send_requests(&server.socket, select);
        assert!(reply.contains(r#"{"i":7}"#) && reply.contains(r#"{"i":8}"#), "{reply}");
    }
    bed.same("ovsdb-server/remove-db D");
    bed.same("ovsdb-server/remove-db E");
    assert_eq!(bed.same("ovsdb-server/list-dbs"), "_Server\n");
    bed.same("ovsdb-server/compact");
    bed.same("ovsdb-server/add-db @/E.db");
    bed.same("ovsdb-server/list-dbs");
}

#[test]
fn files_without_a_database_are_rejected() {
    let mut bed = Bed::new(&Release::installed());
    let schema = r#"{"name":"E","tables":{}}"#;
    let whole = file_of(&[schema]);
    let files = [
        ("empty", String::new()),
        ("header", "OVSDB JSON 5 ".to_owned()),
        ("other", "garbage\n".to_owned()),
        ("nothing", "OVSDB JSON 0 da39a3ee5e6b4b0d3255bfef95601890afd80709\n".to_owned()),
        ("short", whole[..whole.len() - 3].to_owned()),
        ("changed", whole.replace('E', "F")),
        ("list", file_of(&["[1]"])),
        ("nameless", file_of(&[r#"{"tables":{}}"#])),
        ("type", file_of(&[&SCHEMA.replace("integer", "int")])),
    ];
    for (file, content) in &files {
        bed.write(file, content);
        let output = bed.same(&format!("ovsdb-server/add-db @/{file}"));
        assert!(output.contains("error"), "{file}: {output}");
    }
    std::os::unix::fs::symlink("E.db", bed.folder.path().join("real/link")).unwrap();
    std::os::unix::fs::symlink("E.db", bed.folder.path().join("sim/link")).unwrap();
    for file in ["none", "none/none", "empty/none", "", "../real/."] {
        bed.same(&format!("ovsdb-server/add-db @/{file}"));
    }
    bed.same("ovsdb-server/add-db /");
    let output = bed.same("ovsdb-server/add-db @/reserved.db");
    assert!(output.contains("names beginning"), "{output}");
    let others = bed.each().map(|(_, folder)| RealServer::open([folder.join("E.db")]));
    let output = bed.same("ovsdb-server/add-db @/E.db");
    assert!(output.contains("failed to lock lockfile"), "{output}");
    drop(others);
    bed.same("ovsdb-server/add-db @/link");
    let output = bed.same("ovsdb-server/add-db @/E.db");
    assert!(output.contains("already open"), "{output}");
}

/// ovsdb-server closes connections, removes the other database of the name for the remaining
/// clients, and ends at the next command.
#[test]
fn a_second_database_with_a_name_is_rejected_and_nothing_changes() {
    let mut bed = Bed::new(&Release::installed());
    let (sim, folder) = &mut bed.each()[1];
    let add = |file| format!("ovsdb-server/add-db {}/{file}", folder.display());
    succeeds(sim, &add("E.db"));
    let mut client = Client::new(&sim.socket);
    client.request("get_schema", &json!(["E"]));
    let (output, _) = sim.appctl(&add("namesake.db"));
    assert!(output.starts_with("ovsdb error: E: duplicate database name\n"), "{output}");
    client.request("get_schema", &json!(["E"]));
    succeeds(sim, "ovsdb-server/remove-db E");
    succeeds(sim, &add("namesake.db"));
}

/// Connection of the test.
struct Client {
    stream: UnixStream,
}

impl Client {
    fn new(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream }
    }

    fn send(&mut self, method: &str, params: &Value) {
        let request = json!({"id": method, "method": method, "params": params}).to_string();
        // The server may have closed the connection.
        self.stream.write_all(request.as_bytes()).unwrap_or_default();
    }

    /// Sends a request and returns all messages up to its reply.
    fn request(&mut self, method: &str, params: &Value) -> Vec<Value> {
        self.send(method, params);
        let received = self.read_to_reply(&json!(method));
        assert!(received.last().is_some_and(|last| last["id"] == method), "{received:?}");
        received
    }

    /// Reads the messages up to the reply to this request, or to the end of the connection.
    fn read_to_reply(&mut self, id: &Value) -> Vec<Value> {
        let mut received: Vec<Value> = Vec::new();
        let mut text = Vec::new();
        while received.last().is_none_or(|last| last["id"] != *id) {
            let mut piece = [0; 1 << 13];
            let count = self.stream.read(&mut piece).unwrap_or_default();
            if count == 0 {
                break;
            }
            text.extend_from_slice(&piece[..count]);
            let mut messages = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
            received.clear();
            received.extend(messages.by_ref().map_while(Result::ok));
        }
        received
    }
}

/// Removes the parts of a message that differ between two servers.
fn without_ids(mut message: Value) -> Value {
    let Some(rows) = message.pointer_mut("/params/1/Database") else {
        return message;
    };
    let mut rows: Vec<Value> = rows.as_object().unwrap().values().cloned().collect();
    for row in &mut rows {
        for version in ["new", "old"] {
            if let Some(row) = row.get_mut(version).and_then(Value::as_object_mut) {
                row.remove("_version");
                // The order of members is arbitrary.
                let schema = row["schema"].as_str().unwrap_or("null");
                row["schema"] = serde_json::from_str(schema).unwrap();
            }
        }
    }
    json!(rows)
}

#[test]
fn clients_are_notified_of_added_and_removed_databases() {
    compare_notifications(&Release::installed());
}

#[test]
fn clients_are_notified_of_added_and_removed_databases_as_in_trixie() {
    if let Some(release) = Release::trixie() {
        compare_notifications(&release);
    }
}

fn compare_notifications(release: &Release) {
    let mut bed = Bed::new(release);
    let received = bed.each().map(|(server, folder)| {
        let add = format!("ovsdb-server/add-db {}", folder.join("E.db").display());
        succeeds(server, &add);
        let wait = json!({"op": "wait", "table": "T", "where": [], "columns": ["i"], "until": "!=", "rows": []});
        let mut clients: Vec<_> = ["E", "D", "_Server"]
            .into_iter()
            .flat_map(|database| [(database, true), (database, false)])
            .map(|(database, aware)| {
                let mut client = Client::new(&server.socket);
                client.request("set_db_change_aware", &json!([aware]));
                let table = if database == "_Server" { "Database" } else { "T" };
                client.request("monitor", &json!([database, ["m", database], {table: {}}]));
                client.request("lock", &json!([format!("{database}{aware}")]));
                if database != "_Server" {
                    client.send("transact", &json!([database, wait]));
                }
                // The reply shows that the transaction waits.
                client.request("echo", &json!([]));
                client
            })
            .collect();
        let mut received = Vec::new();
        for command in ["ovsdb-server/remove-db E", &add] {
            succeeds(server, command);
            // ovsdb-server notifies clients with a delay.
            for _ in 0..2 {
                Client::new(&server.socket).request("echo", &json!([]));
            }
            for client in &mut clients {
                client.send("get_schema", &json!(["E"]));
                let news = client.read_to_reply(&json!("get_schema")).into_iter();
                received.push(news.map(without_ids).collect::<Vec<_>>());
            }
            // Clients whose connections were closed connect again.
            let mut client = Client::new(&server.socket);
            received.push(client.request("lock", &json!(["Efalse"])));
            received.push(client.request("list_dbs", &json!([])));
            clients.push(client);
        }
        received
    });
    let [real, sim] = received;
    assert_eq!(real, sim, "{real:#?} {sim:#?}");
    let text = |news: &[Value]| json!(news).to_string();
    assert!(text(&sim[0]).contains("monitor_canceled"), "{:?}", sim[0]);
    assert!(text(&sim[0]).contains("canceled"), "{:?}", sim[0]);
    assert!(text(&sim[0]).contains("unknown database"), "{:?}", sim[0]);
    assert_eq!([&sim[1], &sim[3], &sim[5]], [&Vec::<Value>::new(); 3]);
    assert!(text(&sim[4]).contains("old"), "{:?}", sim[4]);
    assert!(text(&sim[8 + 4]).contains("new"), "{:?}", sim[8 + 4]);
}

#[test]
fn configured_remotes_are_closed_and_opened_with_their_database() {
    let mut bed = Bed::new(&Release::installed());
    for (server, folder) in bed.each() {
        let name = folder.display();
        let add = format!("ovsdb-server/add-db {name}/E.db");
        succeeds(server, &add);
        let place = folder.join("place");
        let insert = json!({"op": "insert", "table": "Global",
            "row": {"targets": format!("punix:{}", place.display())}});
        Client::new(&server.socket).request("transact", &json!(["E", insert]));
        succeeds(server, "ovsdb-server/add-remote db:E,Global,targets");
        for _ in 0..2 {
            until(|| UnixStream::connect(&place).is_ok());
            let mut client = Client::new(&place);
            client.request("set_db_change_aware", &json!([true]));
            succeeds(server, "ovsdb-server/remove-db E");
            until(|| !place.exists());
            assert_eq!(client.read_to_reply(&json!(0)), [] as [Value; 0], "{name}");
            let remotes = server.appctl("ovsdb-server/list-remotes").0;
            assert!(remotes.contains("db:E,Global,targets"), "{remotes}");
            succeeds(server, &add);
        }
    }
}
