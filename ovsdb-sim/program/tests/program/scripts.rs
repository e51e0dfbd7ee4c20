//! `ovn-ctl` and `ovs-ctl`, which start what is called `ovsdb-server` in `PATH`.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use patchbay_ovn_programs::testing::{Release, ScratchDir, create_script, nbctl};

/// Folder for all files of a script's servers, with programs in `bin`.
struct Bed {
    folder: ScratchDir,
}

impl Bed {
    /// Makes the folder. `bin/ovsdb-server` is the simulator.
    fn new() -> Self {
        let folder = ScratchDir::new();
        for name in ["bin", "run", "db", "log", "etc"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let bed = Self { folder };
        let link = bed.path("bin/ovsdb-server");
        symlink(env!("CARGO_BIN_EXE_ovsdb-sim"), link).unwrap();
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a program of a release to `bin`.
    fn add_program(&self, release: &Release, name: &str) {
        let command = release.command(name);
        let words: Vec<String> = [command.get_program()]
            .into_iter()
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.display()))
            .collect();
        let path = self.path("bin").join(name);
        let text = format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "));
        create_script(&path, &text);
    }

    /// Runs a script and returns what it printed.
    fn run(&self, script: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let path = env::var("PATH").unwrap();
        let mut command = Command::new(script);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env_remove("RUST_LOG");
        for (variable, value) in variables {
            let value = match value.strip_prefix('/') {
                Some(_) => (*value).into(),
                None => self.path(value),
            };
            command.env(variable, value);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }
}

impl Drop for Bed {
    /// Ends what a failed test has left.
    fn drop(&mut self) {
        for file in fs::read_dir(self.path("run")).unwrap().flatten() {
            if file.path().extension().is_some_and(|kind| kind == "pid") {
                let process = fs::read_to_string(file.path()).unwrap_or_default();
                let _ = Command::new("kill").arg(process.trim()).status();
            }
        }
    }
}

/// `true` if a process that a pidfile names is the simulator.
fn is_simulator(pidfile: &Path) -> bool {
    let process = fs::read_to_string(pidfile).unwrap();
    let program = fs::read_link(format!("/proc/{}/exe", process.trim())).unwrap();
    program == Path::new(env!("CARGO_BIN_EXE_ovsdb-sim")).canonicalize().unwrap()
}

#[test]
fn ovn_ctl_starts_and_stops_it() {
    let bed = Bed::new();
    let script = Path::new("/usr/share/ovn/scripts/ovn-ctl");
    let variables = [
        ("OVN_RUNDIR", "run"),
        ("OVS_RUNDIR", "run"),
        ("OVN_DBDIR", "db"),
        ("OVN_LOGDIR", "log"),
        ("OVN_SYSCONFDIR", "etc"),
    ];
    bed.run(script, &["start_ovsdb"], &variables);
    for name in ["nb", "sb"] {
        assert!(is_simulator(&bed.path(&format!("run/ovn{name}_db.pid"))));
    }
    let status = bed.run(script, &["status_ovsdb"], &variables);
    assert_eq!(status.matches("is running").count(), 2, "{status}");
    let remote = format!("unix:{}", bed.path("run/ovnnb_db.sock").display());
    let added = nbctl(&remote).args(["ls-add", "sw0"]).status();
    assert!(added.unwrap().success());

    // The rows are still there after a restart.
    bed.run(script, &["restart_ovsdb"], &variables);
    let shown = String::from_utf8(nbctl(&remote).arg("show").output().unwrap().stdout).unwrap();
    assert!(shown.contains("(sw0)"), "{shown}");
    bed.run(script, &["stop_ovsdb"], &variables);
    assert!(!bed.path("run/ovnnb_db.pid").exists());
}

#[test]
fn ovn_ctl_starts_and_stops_it_as_clusters_of_one_server() {
    let bed = Bed::new();
    let script = Path::new("/usr/share/ovn/scripts/ovn-ctl");
    let variables = [
        ("OVN_RUNDIR", "run"),
        ("OVS_RUNDIR", "run"),
        ("OVN_DBDIR", "db"),
        ("OVN_LOGDIR", "log"),
        ("OVN_SYSCONFDIR", "etc"),
    ];
    let options = ["--db-nb-cluster-local-addr=127.0.0.1", "--db-sb-cluster-local-addr=127.0.0.1"];
    let start = |command| bed.run(script, &[&options[..], &[command]].concat(), &variables);
    start("start_ovsdb");
    let ctl = bed.path("run/ovnnb_db.ctl").display().to_string();
    let question = ["-t", &ctl, "cluster/status", "OVN_Northbound"];
    let status = bed.run(Path::new("ovs-appctl"), &question, &[]);
    assert!(
        status.contains("Role: leader\nTerm: 1\n")
            && status.contains("Address: tcp:127.0.0.1:6643"),
        "{status}"
    );
    let remote = format!("unix:{}", bed.path("run/ovnnb_db.sock").display());
    // The client wants the leader of a cluster.
    let added = nbctl(&remote).args(["--leader-only", "ls-add", "sw0"]).status();
    assert!(added.unwrap().success());

    // The rows are still there after a restart, which elects the server again.
    start("restart_ovsdb");
    let shown = String::from_utf8(nbctl(&remote).arg("show").output().unwrap().stdout).unwrap();
    assert!(shown.contains("(sw0)"), "{shown}");
    let status = bed.run(Path::new("ovs-appctl"), &question, &[]);
    assert!(status.contains("Term: 2\n"), "{status}");
    bed.run(script, &["stop_ovsdb"], &variables);
    assert!(!bed.path("run/ovnnb_db.pid").exists());
}

#[test]
fn ovs_ctl_starts_and_stops_it() {
    let Some(release) = Release::newest() else {
        return;
    };
    let bed = Bed::new();
    // It asks ovs-vswitchd for its version.
    for name in ["ovsdb-tool", "ovs-appctl", "ovs-vsctl", "ovs-vswitchd"] {
        bed.add_program(&release, name);
    }
    let schema = release.schema("vswitch");
    let data = schema.parent().unwrap();
    let script = data.join("scripts/ovs-ctl");
    let variables = [
        ("OVS_RUNDIR", "run"),
        ("OVS_DBDIR", "db"),
        ("OVS_LOGDIR", "log"),
        ("OVS_SYSCONFDIR", "etc"),
        ("OVS_PKGDATADIR", data.to_str().unwrap()),
    ];
    let options = ["--no-ovs-vswitchd", "--no-record-hostname"];
    let options = |command| [&options[..], &["--system-id=machine", command]].concat();
    bed.run(&script, &options("start"), &variables);
    assert!(is_simulator(&bed.path("run/ovsdb-server.pid")));
    let status = bed.run(&script, &["version"], &variables);
    assert!(!status.is_empty());
    let remote = format!("--db=unix:{}", bed.path("run/db.sock").display());
    let get = [&*remote, "get", "Open_vSwitch", ".", "external_ids:system-id"];
    let id = bed.run(&bed.path("bin/ovs-vsctl"), &get, &variables);
    assert_eq!(id.trim(), "machine");
    bed.run(&script, &options("stop"), &variables);
    assert!(!bed.path("run/ovsdb-server.pid").exists());
}
