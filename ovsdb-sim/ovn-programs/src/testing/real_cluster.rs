//! RAFT cluster of real `ovsdb-server`s for a test.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{ScratchDir, program, signal};

/// Time in which a cluster must elect a leader and a member must answer: far more than they need.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two checks of a member.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Election timer of the members in milliseconds, short so that fail-over in tests is fast.
const ELECTION_TIMER_MS: u32 = 500;

/// Cluster whose members are `ovsdb-server` processes. Clients and members connect to unix sockets.
/// Dropping it kills the members and removes their files.
///
/// ```no_run
/// use patchbay_ovn_programs::testing::{self, RealCluster};
///
/// let mut cluster = RealCluster::start(&testing::installed_nb_schema(), 3);
/// let leader = cluster.leader();
/// cluster.kill(leader);
/// assert_ne!(cluster.leader(), leader);
/// cluster.start_member(leader);
/// ```
#[derive(Debug)]
pub struct RealCluster {
    database: String,
    members: Vec<Option<Child>>,
    // Dropped after the servers have ended.
    dir: ScratchDir,
}

impl RealCluster {
    /// Starts a cluster of `members` members with an empty database. Returns when all of them are
    /// connected.
    ///
    /// # Panics
    ///
    /// If `ovsdb-server` or `ovsdb-tool` is not installed, rejects the schema or does not answer in
    /// time.
    #[must_use]
    pub fn start(schema: &Path, members: usize) -> Self {
        let dir = ScratchDir::new();
        let name = run_tool(Command::new(program("ovsdb-tool")).arg("schema-name").arg(schema));
        let mut cluster = Self {
            database: name.trim().to_owned(),
            members: (0..members).map(|_| None).collect(),
            dir,
        };
        run_tool(
            Command::new(program("ovsdb-tool"))
                .arg(format!("--election-timer={ELECTION_TIMER_MS}"))
                .arg("create-cluster")
                .args([&cluster.file(0, "db"), schema])
                .arg(cluster.raft_address(0)),
        );
        for member in 1..members {
            run_tool(
                Command::new(program("ovsdb-tool"))
                    .arg("join-cluster")
                    .arg(cluster.file(member, "db"))
                    .arg(&cluster.database)
                    .args([cluster.raft_address(member), cluster.raft_address(0)]),
            );
        }
        for member in 0..members {
            cluster.start_member(member);
        }
        for member in 0..members {
            cluster.wait_until(member, "it is a connected member", |status| {
                status.contains("Status: cluster member") && !status.contains("Leader: unknown")
            });
        }
        cluster
    }

    /// The number of members, running or not.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The address of a member for OVSDB clients.
    pub fn remote(&self, member: usize) -> String {
        format!("unix:{}", self.socket(member).display())
    }

    /// The addresses of all members, separated by commas.
    pub fn remotes(&self) -> String {
        let remotes: Vec<_> = (0..self.size()).map(|member| self.remote(member)).collect();
        remotes.join(",")
    }

    /// The socket on which a member serves its clients.
    pub fn socket(&self, member: usize) -> PathBuf {
        self.file(member, "sock")
    }

    /// The running member that leads the others.
    ///
    /// # Panics
    ///
    /// If there is none in time, because fewer than half of the members run.
    pub fn leader(&self) -> usize {
        let deadline = Instant::now() + CLUSTER_TIMEOUT;
        loop {
            let leads = |member: &usize| {
                self.status(*member).is_some_and(|status| status.contains("Role: leader"))
            };
            // A former leader that was suspended may not know the new one yet.
            let leaders: Vec<_> = (0..self.size()).filter(leads).collect();
            if let [leader] = leaders[..] {
                return leader;
            }
            assert!(Instant::now() < deadline, "the cluster has no leader");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// `true` if a member runs.
    pub fn is_running(&self, member: usize) -> bool {
        self.members[member].is_some()
    }

    /// Kills a member.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
        }
    }

    /// Starts a member that does not run, with its file. Returns when it answers, possibly before
    /// it has found the others.
    ///
    /// # Panics
    ///
    /// If it runs already or does not answer in time.
    pub fn start_member(&mut self, member: usize) {
        assert!(self.members[member].is_none(), "member {member} runs");
        let log = self.file(member, "log");
        let child = Command::new(program("ovsdb-server"))
            .arg(format!("--remote=punix:{}", self.socket(member).display()))
            .arg(format!("--unixctl={}", self.file(member, "ctl").display()))
            .arg(self.file(member, "db"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file in a fresh folder"))
            .spawn()
            .expect("an installed program starts");
        let child = self.members[member].insert(child);
        let deadline = Instant::now() + CLUSTER_TIMEOUT;
        // The socket of a killed member still exists, but refuses connections.
        while UnixStream::connect(self.dir.path().join(format!("{member}.sock"))).is_err() {
            let ended = child.try_wait().expect("a child can be waited for");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "member {member} does not answer ({ended:?}):\n{}",
                fs::read_to_string(&log).unwrap_or_default()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Suspends a member's process until it is [resumed](Self::resume).
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn suspend(&self, member: usize) {
        signal(self.child(member), "STOP");
    }

    /// Resumes a suspended member.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn resume(&self, member: usize) {
        signal(self.child(member), "CONT");
    }

    /// Makes a member replace its history by a snapshot, as servers do by themselves with a long
    /// one.
    ///
    /// # Panics
    ///
    /// If it does not run or refuses.
    pub fn compact(&self, member: usize) {
        let output = self.appctl(member, &["ovsdb-server/compact", &self.database]);
        assert!(output.is_some(), "member {member} does not compact");
    }

    /// The output of `ovs-appctl cluster/status` for a member. `None`: it does not run or answer.
    pub fn status(&self, member: usize) -> Option<String> {
        self.appctl(member, &["cluster/status", &self.database])
    }

    /// Waits until a member's status satisfies `is_so`.
    ///
    /// # Panics
    ///
    /// If it does not in time.
    pub fn wait_until(&self, member: usize, what: &str, is_so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + CLUSTER_TIMEOUT;
        loop {
            let status = self.status(member);
            if status.as_deref().is_some_and(&is_so) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "waited for member {member} until {what}:\n{}",
                status.unwrap_or_default()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn appctl(&self, member: usize, command: &[&str]) -> Option<String> {
        self.members[member].as_ref()?;
        let output = Command::new(program("ovs-appctl"))
            .args(["--timeout=5", "-t"])
            .arg(self.file(member, "ctl"))
            .args(command)
            .output()
            .expect("an installed program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    fn child(&self, member: usize) -> &Child {
        self.members[member].as_ref().expect("the member runs")
    }

    fn raft_address(&self, member: usize) -> String {
        format!("unix:{}", self.file(member, "raft").display())
    }

    fn file(&self, member: usize, what: &str) -> PathBuf {
        self.dir.path().join(format!("{member}.{what}"))
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().flatten() {
            // Both fail only if the member has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a program to its end and returns its output.
fn run_tool(command: &mut Command) -> String {
    let output = command.output().expect("an installed program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::installed_nb_schema;

    #[test]
    fn another_member_leads_after_the_leader_is_killed() {
        let mut cluster = RealCluster::start(&installed_nb_schema(), 3);
        let first = cluster.leader();
        cluster.kill(first);
        assert!(!cluster.is_running(first));
        let second = cluster.leader();
        assert_ne!(second, first);
        cluster.start_member(first);
        cluster.wait_until(first, "it follows", |status| status.contains("Role: follower"));
        cluster.compact(first);
    }
}
