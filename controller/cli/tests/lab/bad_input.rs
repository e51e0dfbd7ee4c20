//! Bad input, programs that die, and signals: one clear error, and nothing is left behind.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use patchbay_engine::client::{Client, Config};
use patchbay_ovn_programs::testing::create_script;
use patchbay_schemas::nb::LogicalRouter;

use super::{EXAMPLE, children, ovn, wait_for_line};

/// Interval between two looks at processes and rows.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

fn lab(ovn: &Path, manifests: &Path, temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    command
        .args(["lab", "-f"])
        .arg(manifests)
        .arg("--ovn")
        .arg(ovn)
        .args(arguments)
        .env("TMPDIR", temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a lab that fails. Returns its errors without the versions in the first line.
fn errors(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(output.stdout.is_empty());
    let lines = errors.lines().filter(|line| !line.starts_with("OVN "));
    lines.map(str::to_owned).collect()
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Creates a program of the shell that prints its version, and otherwise runs `script`.
fn create_program(folder: &Path, name: &str, version: &str, script: &str) {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || {{ echo {name} {version}; exit; }}\n{script}\n"
    );
    create_script(&bin.join(name), &text);
}

#[test]
fn a_release_that_cannot_run_a_lab_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |versions: [&str; 3]| {
        let ovn = tempfile::tempdir().unwrap();
        let names = ["ovn-northd", "ovs-vswitchd", "ovn-controller"];
        for (name, version) in names.into_iter().zip(versions) {
            create_program(ovn.path(), name, version, "exit 1");
        }
        errors(&mut lab(ovn.path(), EXAMPLE.as_ref(), folder.path(), &[]))
    };
    assert_eq!(
        run(["23.03.1", "3.1.0", "23.03.1"]),
        [
            "error: OVN 23.03.1 is too old: a lab needs OVN 23.09.0, and 25.03 for layer3 across nodes"
        ]
    );
    assert_eq!(
        run(["25.03.1", "3.5.0", "26.03.1"]),
        [
            "error: ovn-northd is of OVN 25.03.1 and ovn-controller of OVN 26.03.1; both have to be of \
          one release"
        ]
    );
    let nothing = folder.path().join("nothing");
    let place = nothing.display();
    assert_eq!(
        errors(&mut lab(&nothing, EXAMPLE.as_ref(), folder.path(), &[])),
        [format!(
            "error: ovn-northd not found in {place}; OVN and Open vSwitch have to be installed, or \
             fetched into a folder for `--ovn` with: patchbay lab fetch"
        )]
    );
    assert_empty(folder.path());
}

#[test]
fn mistakes_in_manifests_are_those_of_apply() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let text = "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n\
                {apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: a}, \
                spec: {network: {topology: Layer9}}}\n---\nnonsense: [\n";
    fs::write(&file, text).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let found = errors(&mut lab(&ovn, &file, temporary.path(), &[]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line.starts_with("error: /")), "{found:?}");
    let mut apply = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    apply.args(["apply", "--nb", "unix:/nowhere", "-f"]).arg(&file);
    assert_eq!(errors(&mut apply), found);

    fs::write(&file, "{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n").unwrap();
    assert_eq!(
        errors(&mut lab(&ovn, &file, temporary.path(), &[])),
        ["error: the manifests contain no Node, so there is nothing to run"]
    );
    assert_empty(temporary.path());
}

#[test]
fn a_temporary_folder_that_cannot_have_sockets_is_an_error() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(80));
    fs::create_dir(&long).unwrap();
    let found = errors(&mut lab(&ovn, EXAMPLE.as_ref(), &long, &[]));
    assert_eq!(found.len(), 1, "{found:?}");
    let end = "sockets inside need one of at most 67 bytes, so set TMPDIR to a shorter path";
    assert!(found[0].starts_with("error: /") && found[0].ends_with(end), "{found:?}");
    assert_empty(&long);
    let missing = folder.path().join("missing");
    let found = errors(&mut lab(&ovn, EXAMPLE.as_ref(), &missing, &[]));
    assert_eq!(found.len(), 1, "{found:?}");
    let begin = "error: cannot create the folder of the lab: No such file or directory";
    assert!(found[0].starts_with(begin), "{found:?}");
}

#[test]
fn a_program_that_dies_at_the_start_is_reported_with_the_end_of_its_log() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("ovn");
    create_program(&fake, "ovn-northd", "26.03.1", "exec sleep 1000");
    create_program(&fake, "ovn-controller", "26.03.1", "exec sleep 1000");
    let script = "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 3";
    create_program(&fake, "ovs-vswitchd", "4.0.0", script);
    symlink(ovn.join("usr/share"), fake.join("share")).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let node = folder.path().join("node.yaml");
    fs::write(&node, "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n").unwrap();
    let found = errors(&mut lab(&fake, &node, temporary.path(), &["--check"]));
    let mut expected = vec!["error: n1: ovs-vswitchd ended: exit status: 3".to_owned()];
    expected.extend((3..=7).map(|line| format!("  line {line}")));
    assert_eq!(found, expected);
    assert_empty(temporary.path());
}

/// Lab that is ended while it runs, with the processes that it has started.
struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
    programs: Vec<u32>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, errors, programs: Vec::new() }
    }

    /// Waits until the lab has this number of children.
    fn wait_for_programs(&mut self, count: usize) {
        while self.programs.len() < count {
            assert_eq!(self.child.try_wait().unwrap(), None);
            sleep(LOOK_INTERVAL);
            self.programs = children(self.child.id());
        }
    }

    /// Process id of a program on the first node.
    fn program(&self, name: &str) -> String {
        let mut programs = self.programs.iter();
        let found = programs.find(|id| {
            let text = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap();
            text.contains(name) && text.contains("/n1/")
        });
        found.unwrap().to_string()
    }

    /// Waits for the end. Returns the exit status and the rest of standard error.
    fn wait_for_end(mut self, temporary: &Path) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).unwrap();
        let status = patchbay_ovn_programs::testing::wait(&mut self.child);
        let is_program = |id: &u32| {
            let text = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            text.contains("patchbay-lab-")
        };
        while self.programs.iter().any(is_program) {
            sleep(LOOK_INTERVAL);
        }
        assert_empty(temporary);
        (status.code(), rest)
    }
}

/// `true` if programs that the test starts ignore SIGHUP.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 1 != 0
}

#[test]
fn a_signal_at_any_moment_of_the_start_leaves_nothing() {
    let Some(ovn) = ovn() else { return };
    let temporary = tempfile::tempdir().unwrap();
    // Between and after the starts of 9 programs.
    let signals = [(1, "INT"), (4, "TERM"), (5, "HUP"), (7, "INT"), (9, "TERM")];
    // A lab under nohup ignores the end of the terminal.
    let signals = signals.into_iter().filter(|(_, signal)| *signal != "HUP" || !ignores_hang_up());
    for (count, signal) in signals {
        let mut command = lab(&ovn, EXAMPLE.as_ref(), temporary.path(), &[]);
        let mut running = Running::start(command.stdout(Stdio::null()));
        let mut versions = String::new();
        running.errors.read_line(&mut versions).unwrap();
        running.wait_for_programs(count);
        patchbay_ovn_programs::testing::signal(&running.child, signal);
        let (code, errors) = running.wait_for_end(temporary.path());
        // A busy machine may have completed the start before it delivers the signal.
        let is_running = errors == "6 pods on 3 nodes; `help` lists the commands\n";
        let expected =
            if is_running { (Some(0), errors.as_str()) } else { (Some(1), "error: stopped\n") };
        assert_eq!((code, errors.as_str()), expected, "{count} {signal}");
    }
}

/// Many nodes, whose rows take longer to plan than a signal takes to arrive.
#[test]
fn a_signal_while_the_rows_of_many_nodes_are_planned_starts_no_program() {
    const NODES: usize = 60;
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("touch {}; exec sleep 1000", started.display());
    let fake = folder.path().join("ovn");
    for (name, version) in
        [("ovn-northd", "26.03.1"), ("ovs-vswitchd", "4.0.0"), ("ovn-controller", "26.03.1")]
    {
        create_program(&fake, name, version, &script);
    }
    symlink(ovn.join("usr/share"), fake.join("share")).unwrap();
    let networks = fs::read_to_string(Path::new(EXAMPLE).join("2-networks.yaml")).unwrap();
    let nodes = (1..=NODES).map(|number| {
        format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{number}}}}}\n")
    });
    let manifests = folder.path().join("manifests.yaml");
    fs::write(&manifests, networks + "\n" + &nodes.collect::<String>()).unwrap();
    let mut command = lab(&fake, &manifests, temporary.path(), &[]);
    let mut running = Running::start(&mut command);
    wait_for_line(&mut running.errors, "OVN ");
    let has_folder_of_last_node = || {
        let labs = fs::read_dir(temporary.path()).unwrap().flatten();
        let mut folders = labs.map(|lab| lab.path().join(format!("n{NODES}")));
        folders.any(|folder| folder.exists())
    };
    while !has_folder_of_last_node() {
        sleep(LOOK_INTERVAL);
    }
    patchbay_ovn_programs::testing::signal(&running.child, "TERM");
    let (code, errors) = running.wait_for_end(temporary.path());
    assert_eq!((code, &*errors), (Some(1), "error: stopped\n"));
    assert!(!started.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_in_the_middle_of_an_apply_ends_the_lab() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    for file in fs::read_dir(EXAMPLE).unwrap().flatten() {
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let mut command = lab(&ovn, folder.path(), temporary.path(), &[]);
    let mut running = Running::start(&mut command);
    wait_for_line(&mut running.errors, "6 pods on 3 nodes");
    running.wait_for_programs(9);
    let lab_folder = fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap();
    let socket = lab_folder.path().join("n1/db.sock");
    let remote = format!("unix:{}", socket.display()).parse().unwrap();
    let client = Client::connect(Config::new(remote, "OVN_Northbound")).await.unwrap();
    // Without it an apply has no end.
    let northd = running.program("ovn-northd");
    let stop = Command::new("kill").args(["-STOP", &northd]).status();
    assert!(stop.unwrap().success());
    fs::remove_file(folder.path().join("3-connect.yaml")).unwrap();
    let mut changes = client.changes();
    let is_connected = |client: &Client| {
        let snapshot = client.snapshot();
        let routers = snapshot.typed::<LogicalRouter>();
        routers.iter().flatten().any(|(_, row)| row.name.starts_with("connect_router_"))
    };
    while is_connected(&client) {
        changes.next().await.unwrap();
    }
    drop((changes, client));
    patchbay_ovn_programs::testing::signal(&running.child, "INT");
    assert_eq!(running.wait_for_end(temporary.path()), (Some(0), String::new()));
}

#[test]
fn the_end_of_a_program_ends_a_running_lab() {
    let Some(ovn) = ovn() else { return };
    let temporary = tempfile::tempdir().unwrap();
    let mut running = Running::start(&mut lab(&ovn, EXAMPLE.as_ref(), temporary.path(), &[]));
    wait_for_line(&mut running.errors, "6 pods on 3 nodes");
    running.wait_for_programs(9);
    let killed = Command::new("kill").args(["-KILL", &running.program("ovn-controller")]).status();
    assert!(killed.unwrap().success());
    let (code, errors) = running.wait_for_end(temporary.path());
    assert_eq!(code, Some(1), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines[0], "error: ovn-control-plane: ovn-controller ended: signal: 9 (SIGKILL)");
    assert_eq!(lines.len(), 6, "{errors}");
    assert!(lines[1..].iter().all(|line| line.starts_with("  ")), "{errors}");
}
