//! The guide `docs/story.md`, run from top to bottom: a real control plane, real OVN, and the
//! controllers as processes.
//!
//! Blocks of `sh` are run in one folder. A line with `& echo $! > FILE` starts a job, and one with `kill`
//! ends those of such files. A block of `text` has parts of what the block before it prints. A block of `packets` has questions: the
//! sender, the receiver, and whether the packet arrives.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use patchbay_lab::{DatabaseServer, Lab, Protocol, Release};
use patchbay_model::ClusterSettings;
use patchbay_ovn_programs::testing;
use patchbay_reconcile::Cluster;
use patchbay_resources::object::Time;
use tempfile::TempDir;

use crate::control_plane::ControlPlane;
use crate::real_installation::kubectl;

/// Kinds of objects whose pods and nodes the lab follows.
const KINDS: &str =
    "nodes,namespaces,network-attachment-definitions,clusteruserdefinednetworks,pods";
/// Time for a packet to get through, or not any more, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends the job of a failed test, too.
struct Job(Child);

impl Drop for Job {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Story {
    plane: ControlPlane,
    release: Release,
    folder: TempDir,
    lab: Option<Lab>,
    /// Jobs by the files with their process ids.
    jobs: BTreeMap<String, Job>,
    admin: String,
    output: String,
}

impl Story {
    /// Runs the lines of a block. Lines up to the next job are one script.
    async fn run(&mut self, block: &str) {
        let mut script = String::new();
        self.output.clear();
        for line in block.lines() {
            let job = line.split_once(" & echo $! > ");
            let ended = line.strip_prefix("kill $(cat ").and_then(|rest| rest.strip_suffix(')'));
            if job.is_none() && ended.is_none() {
                script += line;
                script.push('\n');
                continue;
            }
            self.shell(&std::mem::take(&mut script));
            if let Some((job, file)) = job {
                if self.lab.is_none() {
                    self.follow().await;
                }
                let child = self.command(&format!("exec {job}")).stdout(Stdio::null()).spawn();
                self.jobs.insert(file.to_owned(), Job(child.unwrap()));
            }
            for file in ended.into_iter().flat_map(str::split_whitespace) {
                let mut job = self.jobs.remove(file).expect("the job runs");
                testing::signal(&job.0, "TERM");
                let status = job.0.wait().unwrap();
                assert!(status.success(), "{file}: {status}");
            }
        }
        self.shell(&script);
    }

    fn command(&self, script: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_patchbay")).parent().unwrap();
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(self.folder.path());
        let path = std::env::var("PATH").unwrap();
        let (bin, programs) = (self.folder.path().join("bin"), program.display());
        command.env("PATH", format!("{}:{programs}:{path}", bin.display()));
        command.env("HOME", self.folder.path());
        command.env("KUBECONFIG", self.plane.kubeconfig()).env("ADMIN", &self.admin);
        if let Some(lab) = &self.lab {
            for (node, variable) in [("node-1", "NB_1"), ("node-2", "NB_2")] {
                for (name, value) in lab.environment(node).unwrap_or_default() {
                    if name == "OVN_NB_DB" {
                        command.env(variable, value);
                    }
                }
            }
        }
        command
    }

    fn shell(&mut self, script: &str) {
        let output = self.command(script).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        // The exit status of a check is its result.
        let is_check = script.trim() == "patchbay check --pre --networks";
        let expected = if is_check { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{script}\n{printed}{errors}");
        self.output += &printed;
    }

    /// Makes nodes and pods of the lab those of the cluster. The controllers write the rows.
    async fn follow(&mut self) {
        let objects = kubectl(&self.plane, &["get", KINDS, "-A", "-o", "json"], "");
        let mut input = objects.as_bytes();
        let (settings, now) = (ClusterSettings::default(), Time(Timestamp::UNIX_EPOCH));
        let cluster = Cluster::from_manifests(&["-".into()], &mut input, None, settings, now);
        let cluster = cluster.unwrap();
        if let Some(lab) = &mut self.lab {
            lab.apply(&cluster).await.unwrap();
        } else {
            let (server, release) = (DatabaseServer::OvsdbServer, self.release.clone());
            let started = Lab::start_without_rows(server, release, &cluster).await;
            self.lab = Some(started.unwrap());
        }
    }

    /// Asks until the answers are the promised ones.
    async fn ask(&mut self, questions: &str) {
        for question in questions.lines() {
            let words: Vec<&str> = question.split(' ').collect();
            let [from, to, promised] = words[..] else { panic!("{question}") };
            let attempts = async {
                loop {
                    self.follow().await;
                    let lab = self.lab.as_ref().unwrap();
                    let ends = (lab.find_pod(from), lab.find_pod(to));
                    if let (Ok(from), Ok(to)) = ends {
                        let answer = lab.ask(&from, &to, Protocol::Icmp, None).await.unwrap();
                        if answer.verdict.is_reached() == (promised == "reached") {
                            return;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            };
            let answered = tokio::time::timeout(PATIENCE, attempts).await;
            answered.unwrap_or_else(|_| panic!("timed out waiting: {question}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it starts a control plane and OVN"]
async fn the_story_is_true() {
    let Some(release) = testing::Release::newest() else { return };
    let release = Release::find(release.folder()).unwrap();
    let Some(plane) = ControlPlane::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\nexec {} kubectl \"$@\"\n", plane.program.display());
    fs::write(bin.join("kubectl"), script).unwrap();
    fs::set_permissions(bin.join("kubectl"), Permissions::from_mode(0o755)).unwrap();
    let admin = format!("127.0.0.1:{}", testing::free_port());
    let (lab, jobs, output) = (None, BTreeMap::new(), String::new());
    let mut story = Story { plane, release, folder, lab, jobs, admin, output };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/story.md");
    let page = fs::read_to_string(page).unwrap();
    let mut count = 0;
    for block in page.split("\n```").skip(1).step_by(2) {
        let (language, lines) = block.split_once('\n').unwrap();
        match language {
            "sh" => story.run(lines).await,
            "packets" => story.ask(lines).await,
            "text" => {
                for line in lines.lines() {
                    assert!(story.output.contains(line), "{line}\n{}", story.output);
                }
            }
            other => panic!("{other}"),
        }
        count += 1;
    }
    assert!(count > 15);
}
