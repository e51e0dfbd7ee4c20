//! `--config-file`, beside the newest ovsdb-server: the same files and commands have the same
//! results.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use patchbay_ovn_programs::testing::{Release, ScratchDir};

/// One server with a configuration file, started as `ovsdb-server`.
struct Bed {
    release: Release,
    folder: ScratchDir,
    /// Results of all commands: what ran, its output and its exit code.
    results: Vec<(String, String, Option<i32>)>,
}

impl Bed {
    /// Makes the folder of a server, with the files `db1` and `db2` of two databases.
    fn new(release: &Release) -> Self {
        let folder = ScratchDir::new();
        for name in ["db1", "db2"] {
            let schema = folder.path().join("schema");
            let text = format!(
                r#"{{"name":"D{name}","tables":{{"T":{{"columns":{{"s":{{"type":"string"}}}}}}}}}}"#
            );
            fs::write(&schema, text).unwrap();
            let created = release
                .command("ovsdb-tool")
                .arg("create")
                .args([&folder.path().join(name), &schema])
                .status();
            assert!(created.unwrap().success());
        }
        Self { release: release.clone(), folder, results: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, text: &str) {
        fs::write(self.path("config.json"), text).unwrap();
    }

    /// Runs a command and records what it printed; `with_output` adds its text.
    fn run(&mut self, what: &str, mut command: Command, with_output: bool) {
        command.current_dir(self.folder.path());
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.folder.path());
        }
        let output = command.env_remove("RUST_LOG").output().unwrap();
        let text = if with_output {
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            without_times(&text.replace(&self.path("").display().to_string(), "<folder>/"))
        } else {
            String::new()
        };
        self.results.push((what.to_owned(), text, output.status.code()));
    }

    /// Starts the server of a program. It serves when the command has ended.
    fn start(&mut self, mut program: Command, arguments: &[&str]) {
        program.args(["--detach", "--no-chdir", "--pidfile", "-vconsole:off"]).args(arguments);
        self.run("start", program, false);
    }

    fn appctl(&mut self, command: &str) {
        let mut program = self.release.command("ovs-appctl");
        program.args(["--timeout=20", "-t", "ovsdb-server"]).args(command.split(' '));
        self.run(command, program, true);
    }

    /// What is served now.
    fn list(&mut self) {
        self.appctl("ovsdb-server/list-dbs");
        self.appctl("ovsdb-server/list-remotes");
    }
}

impl Drop for Bed {
    /// Ends the server that a failed test has left.
    fn drop(&mut self) {
        if let Ok(process) = fs::read_to_string(self.path("ovsdb-server.pid")) {
            let _ = Command::new("kill").arg(process.trim()).status();
        }
    }
}

/// Replaces the times in the output of `cluster/status`.
fn without_times(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let time = line.split_once(" ms ago");
        let before = time.and_then(|(before, after)| Some((before.rsplit_once(' ')?.0, after)));
        match before {
            Some((before, after)) => format!("{before} N ms ago{after}"),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// The program of a server.
type Program = fn(&Bed) -> Command;

/// Does the same with both servers and compares the results, which it returns.
fn compare(act: impl Fn(&mut Bed, Program)) -> Vec<(String, String, Option<i32>)> {
    let release = Release::newest().unwrap_or_else(Release::installed);
    let real: Program = |bed| bed.release.command("ovsdb-server");
    let sim: Program = |bed| {
        let link = bed.path("ovsdb-server");
        if !link.exists() {
            symlink(env!("CARGO_BIN_EXE_ovsdb-sim"), &link).unwrap();
        }
        Command::new(link)
    };
    let [real, sim] = [real, sim].map(|program| {
        let mut bed = Bed::new(&release);
        act(&mut bed, program);
        std::mem::take(&mut bed.results)
    });
    for (number, (real, sim)) in real.iter().zip(&sim).enumerate() {
        assert_eq!(real, sim, "command {number}");
    }
    assert_eq!(real.len(), sim.len());
    sim
}

/// `true`: some ovsdb-server with the option can be had.
fn has_newest() -> bool {
    Release::newest().is_some()
}

#[test]
fn a_configuration_file_names_databases_and_remotes_and_is_read_again() {
    if !has_newest() {
        return;
    }
    let results = compare(|bed, program| {
        bed.configure(
            r#"{"remotes":{"punix:db.sock":{}},
                "databases":{"db1":null,"db2":{"service-model":"standalone"}}}"#,
        );
        let server = program(bed);
        bed.start(server, &["--config-file=config.json"]);
        bed.list();
        for command in [
            "ovsdb-server/add-db db1",
            "ovsdb-server/remove-db Ddb1",
            "ovsdb-server/add-remote punix:b",
            "ovsdb-server/remove-remote punix:db.sock",
        ] {
            bed.appctl(command);
        }
        for text in [
            // A remote and a database go, others come.
            r#"{"remotes":{"punix:other":{"inactivity-probe":1000}},"databases":{"db2":null}}"#,
            r#"{"remotes":{"punix:db.sock":null,"db:Ddb1,T,s":{}},"databases":{"db1":{},"db2":{}}}"#,
            // The remote stays while the database is not there.
            r#"{"remotes":{"punix:db.sock":null,"db:Ddb1,T,s":{}},"databases":{"db2":{}}}"#,
            // Refused; nothing changes.
            r#"{"remotes":{},"databases":{"db1":{"service-model":"nonsense"}}}"#,
            r#"{"remotes":{},"databases":{"db1":{"unknown":1}}}"#,
            r#"{"remotes":[],"databases":{}}"#,
            "{",
            "[]",
            // Refused; what can be opened is open.
            r#"{"remotes":{},"databases":{"db1":{},"missing":{}}}"#,
            r#"{"remotes":{},"databases":{"db1":{"service-model":"clustered"},"db2":{}}}"#,
            r#"{"remotes":{},"databases":{}}"#,
        ] {
            bed.configure(text);
            bed.appctl("ovsdb-server/reload");
            bed.list();
        }
        fs::remove_file(bed.path("config.json")).unwrap();
        bed.appctl("ovsdb-server/reload");
        bed.appctl("exit");
    });
    let codes: Vec<_> = results.iter().map(|(_, _, code)| code.unwrap()).collect();
    assert!(codes.contains(&0) && codes.contains(&2), "{results:?}");
}

#[test]
fn a_server_without_what_its_configuration_names_does_not_start() {
    if !has_newest() {
        return;
    }
    let results = compare(|bed, program| {
        for text in [
            "{",
            r#"{"remotes":{},"databases":{"missing":{}}}"#,
            r#"{"remotes":{},"databases":{"db1":{"service-model":"clustered"}}}"#,
            r#"{"remotes":{},"databases":{"db1":{"service-model":"relay"}}}"#,
            r#"{"remotes":{"db:no,such,column":{}},"databases":{"db1":{}}}"#,
        ] {
            bed.configure(text);
            let server = program(bed);
            bed.start(server, &["--config-file=config.json"]);
        }
        bed.configure(r#"{"remotes":{},"databases":{}}"#);
        for arguments in [
            &["--config-file=missing"][..],
            &["--config-file=config.json", "--remote=punix:x"],
            &["--config-file=config.json", "db1"],
        ] {
            let server = program(bed);
            bed.start(server, arguments);
        }
    });
    assert!(results.iter().all(|(_, _, code)| *code == Some(1)), "{results:?}");
}

#[test]
fn clusters_with_one_server_answer_like_those_of_ovsdb_server() {
    let Some(release) = Release::newest() else {
        return;
    };
    let folder = ScratchDir::new();
    let (schema, file) = (folder.path().join("schema"), folder.path().join("c.db"));
    let text = r#"{"name":"C","tables":{"T":{"columns":{"i":{"type":"integer"}}}}}"#;
    fs::write(&schema, text).unwrap();
    let created = release
        .command("ovsdb-tool")
        .arg("create-cluster")
        .args([&file, &schema])
        .arg(format!("unix:{}/s1.raft", folder.path().display()))
        .status();
    assert!(created.unwrap().success());
    let results = compare(|bed, program| {
        // The same ids on both servers.
        fs::copy(&file, bed.path("c.db")).unwrap();
        let add = |bed: &Bed, number: u8| {
            let row = format!(r#"{{"op":"insert","table":"T","row":{{"i":{number}}}}}"#);
            let mut client = bed.release.command("ovsdb-client");
            let client = client
                .args(["--timeout=60", "transact"])
                .arg(format!("unix:{}", bed.path("db.sock").display()))
                .arg(format!(r#"["C",{row}]"#));
            assert!(client.output().unwrap().status.success());
        };
        let remotes = r#""remotes":{"punix:db.sock":null}"#;
        bed.configure(&format!(r#"{{{remotes},"databases":{{"db1":{{}},"c.db":{{}}}}}}"#));
        let server = program(bed);
        bed.start(server, &["--config-file=config.json"]);
        bed.list();
        add(bed, 1);
        for command in [
            "cluster/cid C",
            "cluster/sid C",
            "cluster/cid Ddb1",
            "cluster/sid none",
            "cluster/status C",
            "cluster/status Ddb1",
            "cluster/change-election-timer C 1000",
            "cluster/change-election-timer C 99",
            "cluster/change-election-timer C x",
            "cluster/change-election-timer C 2001",
            "cluster/change-election-timer C 1500",
            "cluster/change-election-timer none 1500",
            "cluster/set-backlog-threshold C 49 1",
            "cluster/set-backlog-threshold C x 1",
            "cluster/set-backlog-threshold C 50 0",
            "cluster/set-backlog-threshold none 50 0",
            "ovsdb-server/get-db-storage-status C",
        ] {
            bed.appctl(command);
        }
        // The reply comes after the entries before it are committed.
        add(bed, 2);
        bed.appctl("cluster/status C");
        bed.appctl("ovsdb-server/compact C");
        add(bed, 3);
        for (path, model) in [("c.db", "clustered"), ("c.db", "standalone"), ("db1", "clustered")] {
            bed.configure(&format!(
                r#"{{{remotes},"databases":{{"{path}":{{"service-model":"{model}"}}}}}}"#
            ));
            bed.appctl("ovsdb-server/reload");
            bed.list();
            bed.appctl("cluster/status C");
        }
        bed.appctl("exit");

        // The compacted file has everything.
        let mut check = bed.release.command("ovsdb-tool");
        check.arg("check-cluster").arg("c.db");
        bed.run("check-cluster", check, true);
        bed.configure(&format!(r#"{{{remotes},"databases":{{"c.db":{{}}}}}}"#));
        let server = program(bed);
        bed.start(server, &["--config-file=config.json"]);
        let mut dump = bed.release.command("ovsdb-client");
        dump.args(["--timeout=60", "--no-headings", "dump"])
            .arg(format!("unix:{}", bed.path("db.sock").display()))
            .args(["C", "T", "i"]);
        bed.run("dump", dump, true);
        bed.appctl("exit");
    });
    assert!(results.len() > 30, "{results:?}");
}

#[test]
fn a_configuration_file_names_sources_of_relays_and_backups() {
    if !has_newest() {
        return;
    }
    let results = compare(|bed, program| {
        let backup = |rest: &str| {
            format!(
                r#"{{"remotes":{{}},"databases":{{"db1":{{"service-model":"active-backup",{rest}}},
                    "E":{{"service-model":"relay","source":{{"unix:nowhere":null}}}}}}}}"#
            )
        };
        bed.configure(&backup(r#""backup":true,"source":{"unix:nowhere":{}}"#));
        let server = program(bed);
        bed.start(server, &["--config-file=config.json"]);
        bed.list();
        bed.appctl("ovsdb-server/get-db-storage-status E");
        for command in [
            "ovsdb-server/sync-status",
            "ovsdb-server/connect-active-ovsdb-server",
            "ovsdb-server/disconnect-active-ovsdb-server",
            "ovsdb-server/set-active-ovsdb-server unix:x",
            "ovsdb-server/set-active-ovsdb-server-probe-interval 2000",
            "ovsdb-server/set-relay-source-probe-interval 2000",
            "ovsdb-server/set-sync-exclude-tables D:T",
        ] {
            bed.appctl(command);
        }
        for text in [
            backup(r#""backup":false"#),
            backup(r#""backup":true,"source":{"unix:other":{"inactivity-probe":0}}"#),
            // Refused; nothing changes.
            backup(r#""backup":true"#),
            backup(r#""backup":true,"source":{}"#),
            backup(r#""backup":true,"source":{"unix:a":{},"unix:b":{}}"#),
            backup(r#""backup":true,"source":{"unix:a":3}"#),
            backup(r#""source":{"unix:a":{}}"#),
            backup(r#""backup":false,"exclude-tables":[1]"#),
            r#"{"remotes":{},"databases":{"db1":{"service-model":"standalone"}}}"#.to_owned(),
            r#"{"remotes":{},"databases":{"db1":{"service-model":"standalone","backup":true}}}"#
                .to_owned(),
        ] {
            bed.configure(&text);
            bed.appctl("ovsdb-server/reload");
            bed.list();
            bed.appctl("ovsdb-server/sync-status");
        }
        bed.appctl("exit");
    });
    let shown = |text: &str| results.iter().any(|(_, output, _)| output.contains(text));
    assert!(shown("connecting: unix:nowhere") && shown("state: active"), "{results:?}");
}

#[test]
fn relays_and_backups_are_arguments() {
    if !has_newest() {
        return;
    }
    let results = compare(|bed, program| {
        for arguments in [
            &["relay:E:unix:nowhere", "db1"][..],
            &["relay:E:unix:nowhere", "--sync-from=unix:nowhere"],
            &["db1", "--sync-from=unix:nowhere"],
            &["db1", "--sync-from=unix:nowhere", "--active"],
            &["db1", "--sync-exclude-tables=Ddb1:T,E:U"],
            &["db1", "--active"],
        ] {
            let server = program(bed);
            bed.start(server, arguments);
            bed.appctl("ovsdb-server/list-dbs");
            for command in ["sync-status", "get-active-ovsdb-server", "get-sync-exclude-tables"] {
                bed.appctl(&format!("ovsdb-server/{command}"));
            }
            bed.appctl("exit");
            let pidfile = bed.path("ovsdb-server.pid");
            while pidfile.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        // They exclude each other.
        bed.configure(r#"{"remotes":{},"databases":{}}"#);
        let server = program(bed);
        let source = "--sync-from=unix:nowhere";
        bed.start(server, &["--config-file=config.json", source]);
    });
    assert_eq!(results.last().and_then(|(_, _, code)| *code), Some(1));
}
