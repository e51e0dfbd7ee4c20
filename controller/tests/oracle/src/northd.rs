//! Real `ovn-northd` for a test.

use std::fs;
use std::process::{Child, Stdio};

use patchbay_ovn_programs::testing::{Release, ScratchDir};
use serde_json::json;

use crate::json_rpc::call;

/// Running `ovn-northd` on a server that has both databases. Dropping it kills the program.
#[derive(Debug)]
pub struct Northd {
    child: Child,
    // Dropped after the program has ended.
    folder: ScratchDir,
}

impl Northd {
    /// Starts the program of a release. Returns when it has translated the Northbound database.
    ///
    /// # Panics
    /// The program does not start, or translates nothing within a minute.
    #[must_use]
    pub fn start(release: &Release, remote: &str) -> Self {
        let folder = ScratchDir::new();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let child = release
            .command("ovn-northd")
            .arg(format!("--ovnnb-db={remote}"))
            .arg(format!("--ovnsb-db={remote}"))
            .arg(format!("--log-file={}", file("northd.log")))
            .arg(format!("--unixctl={}", file("northd.ctl")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an installed program starts");
        let northd = Self { child, folder };
        let mut sync = release.command("ovn-nbctl");
        sync.args([&format!("--db={remote}"), "--timeout=300", "--wait=sb", "sync"]);
        let output = sync.output().expect("an installed program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}{}", northd.log());
        northd
    }

    /// Stops translating, so that the Southbound database stays as it is.
    ///
    /// # Panics
    /// The program has ended.
    pub(crate) fn pause(&self) {
        let control = self.folder.path().join("northd.ctl");
        call(&control, "pause", &json!([])).expect("a running program answers");
    }

    /// Warnings and errors of its log, without time and number.
    ///
    /// # Panics
    /// The log cannot be read.
    pub fn warnings(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| {
            let mut fields = line.splitn(3, '|').skip(2);
            let text = fields.next()?;
            (text.contains("|WARN|") || text.contains("|ERR|")).then(|| text.to_owned())
        });
        lines.collect()
    }

    fn log(&self) -> String {
        let file = self.folder.path().join("northd.log");
        fs::read_to_string(file).expect("ovn-northd writes a log")
    }
}

impl Drop for Northd {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
