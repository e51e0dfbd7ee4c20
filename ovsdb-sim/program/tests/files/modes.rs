//! Modes of files and sockets, beside those of the real server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{ScratchDir, program};

use super::steps::schema_file;

/// Program that is killed at the end of the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(dir: &Path, command: &str, arguments: &[&Path]) -> Program {
    let child = Command::new("sh")
        .args(["-c", command])
        .args(arguments)
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Program(child.unwrap())
}

/// The mode of a file, once it exists.
fn mode(path: &Path) -> u32 {
    let start = Instant::now();
    loop {
        if let Ok(metadata) = std::fs::metadata(path) {
            return metadata.permissions().mode() & 0o777;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "{}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn sockets_have_the_modes_of_ovsdb_server_and_journals_are_not_public() {
    for (umask, journal) in [("000", 0o640), ("022", 0o640), ("027", 0o640), ("077", 0o600)] {
        let dir = ScratchDir::new();
        let schema = schema_file(dir.path());
        let start_real = format!(
            "umask {umask}; \"$1\" create real.db \"$2\"; exec \"$0\" --remote=punix:$PWD/real.sock --unixctl=$PWD/real.ctl real.db"
        );
        let (server, tool) = (program("ovsdb-server"), program("ovsdb-tool"));
        let _real = shell(dir.path(), &start_real, &[&server, &tool, &schema]);
        let start_sim = format!(
            "umask {umask}; exec \"$0\" --listen punix:sim.sock --unixctl sim.ctl --schema \"$1\" --journal D=sim.db"
        );
        let sim = Path::new(env!("CARGO_BIN_EXE_ovsdb-sim"));
        let _sim = shell(dir.path(), &start_sim, &[sim, &schema]);
        for kind in ["sock", "ctl"] {
            let [real, sim] =
                ["real", "sim"].map(|server| mode(&dir.path().join(format!("{server}.{kind}"))));
            assert_eq!(format!("{sim:o}"), format!("{real:o}"), "{kind}, {umask}");
        }
        let found = mode(&dir.path().join("sim.db"));
        assert_eq!(format!("{found:o}"), format!("{journal:o}"), "{umask}");
    }
}
