//! The program under the name `ovsdb-server`, beside the real one: processes, files and exit codes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{self, ScratchDir};

/// Timeout of actions of other processes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// A server's program, and the folder of its database, sockets, pidfile and log.
pub(crate) struct Bed {
    program: PathBuf,
    folder: ScratchDir,
}

impl Bed {
    /// Makes the beds of the real server and of the simulator, each with an empty database `db`.
    pub(crate) fn both() -> [Self; 2] {
        [None, Some(env!("CARGO_BIN_EXE_ovsdb-sim"))].map(|simulator| {
            let folder = ScratchDir::new();
            let program = match simulator {
                Some(target) => {
                    let link = folder.path().join("ovsdb-server");
                    symlink(target, &link).unwrap();
                    link
                }
                None => testing::program("ovsdb-server"),
            };
            let bed = Self { program, folder };
            let created = bed
                .command(&testing::program("ovsdb-tool"))
                .args(["create", "db"])
                .arg(testing::installed_nb_schema())
                .status();
            assert!(created.unwrap().success());
            bed
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_remove("RUST_LOG").stdin(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    pub(crate) fn server(&self, arguments: &[&str]) -> Output {
        self.command(&self.program).args(arguments).output().unwrap()
    }

    pub(crate) fn appctl(&self, command: &str) -> (String, bool) {
        self.run(&[command])
    }

    /// Runs a command of ovs-appctl with its arguments.
    fn run(&self, command: &[&str]) -> (String, bool) {
        let output = self
            .command(&testing::program("ovs-appctl"))
            .args(["--timeout=20", "-t", "ovsdb-server"])
            .args(command)
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (text, output.status.success())
    }

    /// Waits until the server answers ovs-appctl.
    fn wait_for_server(&self) {
        let start = Instant::now();
        while !self.appctl("version").1 {
            assert!(start.elapsed() < TIMEOUT);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the pidfile names a process for which `is_wanted` holds.
    pub(crate) fn wait_for_process(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let process = fs::read_to_string(self.path("ovsdb-server.pid")).unwrap_or_default();
            if is_wanted(&process) {
                return process;
            }
            assert!(start.elapsed() < TIMEOUT, "{process:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A line of the log without its time and number.
fn log_tail(line: &str) -> String {
    line.splitn(3, '|').last().unwrap_or_default().to_owned()
}

#[test]
fn a_detached_server_is_found_by_its_pidfile() {
    let [real, sim] = Bed::both().map(|bed| {
        let options = ["--detach", "--no-chdir", "--pidfile", "--log-file"];
        let started = bed.server(&[&options[..], &["--remote=punix:db.sock", "db"]].concat());
        assert!(started.status.success(), "{started:?}");
        assert_eq!(text(&started.stdout), "");
        // The server is ready when the command returns.
        assert!(bed.path("db.sock").exists());
        let process = fs::read_to_string(bed.path("ovsdb-server.pid")).unwrap();
        assert!(process.ends_with('\n'), "{process:?}");
        let process = process.trim();

        let listed = bed.appctl("ovsdb-server/list-dbs");
        let second = bed.server(&["--pidfile", "--remote=punix:second", "db"]);
        // The folder's name may contain the digits of the process id.
        let refused = text(&second.stderr)
            .replace(&bed.path("").display().to_string(), "<folder>")
            .replace(&format!("pid {process},"), "pid <process>,")
            .lines()
            .next_back()
            .unwrap()
            .to_owned();
        let reopened = bed.appctl("vlog/reopen");
        let exit = bed.appctl("exit");
        bed.wait_for_process(str::is_empty);
        let log = fs::read_to_string(bed.path("ovsdb-server.log"))
            .unwrap()
            .replace(&bed.path("").display().to_string(), "");
        let first = log_tail(log.lines().next().unwrap());
        let version = log_tail(log.lines().nth(1).unwrap()).rsplit_once(' ').unwrap().0.to_owned();
        (listed, (refused, second.status.code()), reopened, exit, (first, version))
    });
    assert_eq!(real, sim);
    assert!(sim.1.0.contains("already running as pid <process>"), "{sim:?}");
}

#[test]
fn a_monitor_restarts_a_server_that_a_signal_of_an_error_has_ended() {
    for bed in Bed::both() {
        let options = ["--monitor", "--detach", "--no-chdir", "--pidfile"];
        let more = ["--log-file=log", "--remote=punix:db.sock", "db"];
        let started = bed.server(&[&options[..], &more].concat());
        assert!(started.status.success(), "{started:?}");
        let first = bed.wait_for_process(|process| !process.is_empty());
        kill("SEGV", &first);
        let second = bed.wait_for_process(|process| !process.is_empty() && process != first);
        kill("TERM", &second);
        bed.wait_for_process(str::is_empty);
        let log = fs::read_to_string(bed.path("log")).unwrap();
        let first = first.trim_end();
        let message = format!("1 crashes: pid {first} died, killed (Segmentation fault");
        assert!(log.contains(&message), "{log}");
    }
}

#[test]
fn the_signal_that_ends_a_server_is_logged() {
    for bed in Bed::both() {
        let options = ["--detach", "--no-chdir", "--pidfile", "--log-file=log"];
        let started = bed.server(&[&options[..], &["--remote=punix:db.sock", "db"]].concat());
        assert!(started.status.success(), "{started:?}");
        kill("TERM", &bed.wait_for_process(|process| !process.is_empty()));
        bed.wait_for_process(str::is_empty);
        let log = fs::read_to_string(bed.path("log")).unwrap();
        let message = "|fatal_signal|WARN|terminating with signal 15 (Terminated)";
        assert!(log.contains(message), "{log}");
    }
}

/// Starts both servers with the databases OVN_Northbound and A, executes commands, kills the
/// servers and returns the databases and remotes after their restart, which must be the same.
fn restart_after(commands: &[&[&str]]) -> [String; 2] {
    let [real, sim] = Bed::both().map(|bed| {
        for (name, file) in [("A", "a.db"), ("B", "b.db")] {
            let text = format!(r#"{{"name":"{name}","tables":{{}}}}"#);
            fs::write(bed.path("schema"), text).unwrap();
            let tool = testing::program("ovsdb-tool");
            let created = bed.command(&tool).args(["create", file, "schema"]).status();
            assert!(created.unwrap().success());
        }
        let options = ["--monitor", "--detach", "--no-chdir", "--pidfile"];
        let served = ["--remote=punix:db.sock", "db", "a.db"];
        let started = bed.server(&[&options[..], &served].concat());
        assert!(started.status.success(), "{started:?}");
        for command in commands {
            assert_eq!(bed.run(command), (String::new(), true), "{command:?}");
        }
        let first = bed.wait_for_process(|process| !process.is_empty());
        kill("ABRT", &first);
        let second = bed.wait_for_process(|process| !process.is_empty() && process != first);
        bed.wait_for_server();
        let listed = ["ovsdb-server/list-dbs", "ovsdb-server/list-remotes"]
            .map(|command| bed.appctl(command).0);
        kill("TERM", &second);
        bed.wait_for_process(str::is_empty);
        listed
    });
    assert_eq!(real, sim, "{commands:?}");
    sim
}

#[test]
fn a_monitor_keeps_what_commands_have_added_and_removed() {
    // One restart each, because the second one would come ten seconds later.
    assert_eq!(
        restart_after(&[
            &["ovsdb-server/add-db", "b.db"],
            &["ovsdb-server/add-remote", "punix:more.sock"],
            &["ovsdb-server/remove-db", "OVN_Northbound"],
            &["ovsdb-server/remove-remote", "punix:db.sock"],
        ]),
        ["A\nB\n_Server\n", "punix:more.sock\n"]
    );
    assert_eq!(
        restart_after(&[
            &["ovsdb-server/remove-db", "A"],
            &["ovsdb-server/remove-db", "OVN_Northbound"],
            &["ovsdb-server/remove-remote", "punix:db.sock"],
        ]),
        ["_Server\n", ""]
    );
}

pub(crate) fn kill(signal: &str, process: &str) {
    let command = format!("kill -{signal} {process}");
    let sent = Command::new("sh").args(["-c", &command]).status();
    assert!(sent.unwrap().success(), "{command}");
}

#[test]
fn messages_have_the_pattern_of_the_options() {
    let pattern = "-vPATTERN:console:%-6p|%8c|%03N|%D{%%}|%A|%m%q";
    let [real, sim] = Bed::both().map(|bed| {
        let arguments = [
            pattern,
            "-vconsole:info",
            "--log-file=log",
            "--unixctl=none",
            "--remote=punix:db.sock",
            "--run=true",
            "db",
        ];
        let output = bed.server(&arguments);
        assert!(output.status.success(), "{output:?}");
        let text = text(&output.stderr);
        let first = text.lines().next().unwrap_or_default();
        let (fields, file) = first.split_once("opened log file ").expect(first);
        (fields.to_owned(), file.ends_with("logq"))
    });
    assert_eq!(real, sim);
    assert_eq!(sim, ("INFO  |    vlog|001|%|ovsdb-server|".to_owned(), true));
    for wrong in ["-vPATTERN:nope:x", "-vPATTERN"] {
        let [real, sim] = Bed::both().map(|bed| {
            let output = bed.server(&[wrong, "--unixctl=none", "--run=true", "db"]);
            (text(&output.stderr), output.status.code())
        });
        assert_eq!(real, sim, "{wrong}");
    }
}

#[test]
fn levels_and_the_log_file_are_set_in_the_order_of_the_options() {
    for options in [
        &["--log-file=log", "-vconsole:off"][..],
        &["-vconsole:off", "--log-file=log"],
        &["--log-file", "-vfile:off", "-vconsole:off"],
        &["-vfile:off", "--log-file", "-vconsole:off"],
        &["-vconsole:off", "--log-file=log", "-vconsole:info", "-vfile:off"],
    ] {
        let [real, sim] = Bed::both().map(|bed| {
            let served = ["--unixctl=none", "--remote=punix:db.sock", "--run=true", "db"];
            let output = bed.server(&[options, &served].concat());
            assert!(output.status.success(), "{output:?}");
            let file = ["log", "ovsdb-server.log"]
                .map(|name| fs::read_to_string(bed.path(name)))
                .into_iter()
                .find_map(Result::ok)
                .unwrap();
            [text(&output.stderr), file].map(|log| {
                let opened = log.lines().filter(|line| line.contains("opened log file"));
                opened.count()
            })
        });
        assert_eq!(real, sim, "{options:?}");
    }
}

#[test]
fn signals_that_are_ignored_at_the_start_stay_ignored() {
    for bed in Bed::both() {
        let options = ["--detach", "--no-chdir", "--pidfile", "--remote=punix:db.sock"];
        let started = bed
            .command(Path::new("/bin/sh"))
            .args(["-c", r#"trap "" INT HUP; exec "$@""#, "sh"])
            .arg(&bed.program)
            .args(options)
            .arg("db")
            .output()
            .unwrap();
        assert!(started.status.success(), "{started:?}");
        let process = bed.wait_for_process(|process| !process.is_empty());
        for signal in ["INT", "HUP"] {
            kill(signal, &process);
        }
        assert!(bed.appctl("ovsdb-server/list-dbs").1);
        kill("TERM", &process);
        bed.wait_for_process(str::is_empty);
    }
}

#[test]
fn the_server_ends_with_the_command_of_run() {
    let [real, sim] = Bed::both().map(|bed| {
        let list = "ovsdb-client list-dbs unix:db.sock";
        let commands = [list, &format!("{list}; exit 3"), "kill -KILL $$"];
        commands.map(|command| {
            let run = format!("--run={command}");
            let output = bed.server(&["-vconsole:off", "--remote=punix:db.sock", &run, "db"]);
            let code = output.status.code();
            (text(&output.stdout), text(&output.stderr), code)
        })
    });
    assert_eq!(real, sim);
    assert_eq!(sim.map(|(_, _, code)| code), [0, 1, 1].map(Some));
}

#[test]
fn a_remote_that_cannot_be_opened_does_not_end_the_start() {
    for bed in Bed::both() {
        let missing = "punix:missing/folder";
        let output = bed.server(&[
            &format!("--remote={missing}"),
            "--remote=punix:db.sock",
            "--log-file=log",
            "--run=ovsdb-client list-dbs unix:db.sock",
            "db",
        ]);
        assert!(output.status.success(), "{output:?}");
        let log = fs::read_to_string(bed.path("log")).unwrap();
        let text = format!(
            "|ovsdb_jsonrpc_server|ERR|{missing}: listen failed: No such file or directory"
        );
        assert!(log.contains(&text), "{log}");
    }
}

#[test]
fn a_database_that_is_named_twice_is_served_once() {
    let [real, sim] = Bed::both().map(|bed| {
        let run = "--run=ovsdb-client list-dbs unix:db.sock";
        let output = bed.server(&["--unixctl=none", "--remote=punix:db.sock", run, "db", "db"]);
        (output.status.code(), text(&output.stdout))
    });
    assert_eq!(real, sim);
    assert_eq!(sim.0, Some(0), "{sim:?}");
}

#[test]
fn wrong_arguments_and_missing_files_have_the_same_exit_code() {
    for arguments in [
        &["--unknown"][..],
        &["missing"],
        &["--detach", "--no-chdir", "missing"],
        &["-vnonsense", "db"],
        &["--pidfile=missing/pid", "db"],
    ] {
        let [real, sim] = Bed::both().map(|bed| bed.server(arguments));
        assert_eq!(real.status.code(), sim.status.code(), "{arguments:?}: {sim:?}");
        assert!(!sim.stderr.is_empty(), "{arguments:?}");
        let error = text(&sim.stderr).to_lowercase();
        assert!(!error.contains("backtrace"), "{error}");
    }
}

#[test]
fn a_source_that_is_no_remote_makes_a_backup_and_is_logged() {
    for source in ["", "foo", "tcp:"] {
        let [real, sim] = Bed::both().map(|bed| {
            let sync_from = format!("--sync-from={source}");
            let remote = "--remote=punix:db.sock";
            let daemon = ["--detach", "--no-chdir", "--pidfile", "--log-file"];
            let started = bed.server(&[&daemon[..], &[remote, &sync_from, "db"]].concat());
            assert!(started.status.success(), "{started:?}");
            let inserted = bed
                .command(&testing::program("ovsdb-client"))
                .args(["--timeout=20", "transact", "unix:db.sock"])
                .arg(r#"["OVN_Northbound",{"op":"insert","table":"DNS","row":{}}]"#)
                .output()
                .unwrap();
            let failure = format!("|reconnect|{source}: connection attempt failed (");
            let start = Instant::now();
            // The levels differ: the simulator does not try again.
            while !fs::read_to_string(bed.path("ovsdb-server.log"))
                .unwrap()
                .replace("|INFO|", "|")
                .replace("|WARN|", "|")
                .contains(&failure)
            {
                assert!(start.elapsed() < TIMEOUT, "{source:?} is not logged");
                thread::sleep(Duration::from_millis(5));
            }
            let connected = bed.appctl("ovsdb-server/connect-active-ovsdb-server");
            bed.appctl("exit");
            (text(&inserted.stdout), connected)
        });
        assert_eq!(real, sim, "{source:?}");
        assert!(sim.0.contains("read only mode"), "{sim:?}");
    }
}
