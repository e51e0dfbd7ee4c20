//! Databases behind TLS.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::{ScratchDir, free_port, nbctl, program};

use crate::command::{Run, example, nb_schema, run, section};
use crate::demo::{ROUTER, is_as_documented};

/// Keys that the tests of the client have, too.
fn key(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/tests/connection/keys").join(name)
}

/// The flags of three keys.
fn keys(ca: &str) -> String {
    let [key, certificate, ca] = ["client-key.pem", "client.pem", ca].map(key);
    format!("-p {} -c {} -C {}", key.display(), certificate.display(), ca.display())
}

/// A real server that listens on TLS only.
struct Server {
    child: Child,
    port: u16,
    _folder: ScratchDir,
}

impl Server {
    fn start() -> Self {
        let folder = ScratchDir::new();
        let database = folder.path().join("db");
        let created = Command::new(program("ovsdb-tool"))
            .arg("create")
            .args([&database, &nb_schema()])
            .status();
        assert!(created.unwrap().success());
        let port = free_port();
        let child = Command::new(program("ovsdb-server"))
            .arg(format!("--remote=pssl:{port}:127.0.0.1"))
            .arg(format!("--unixctl={}", folder.path().join("ctl").display()))
            .arg("-p")
            .arg(key("server-key.pem"))
            .arg("-c")
            .arg(key("server.pem"))
            .arg("-C")
            .arg(key("ca.pem"))
            .arg(&database)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "ovsdb-server does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, port, _folder: folder }
    }

    fn remote(&self) -> String {
        format!("ssl:127.0.0.1:{}", self.port)
    }

    fn run(&self, command: &str, flags: &str) -> Run {
        let arguments = format!("{command} --zone ovn-worker2 --nb {} {flags}", self.remote());
        run(&arguments, &[&example()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_behind_tls_is_reached_with_keys() {
    let server = Server::start();
    let stdout = server.run("apply", &keys("ca.pem")).succeeded();
    is_as_documented(&stdout);
    let printed = nbctl(&server.remote())
        .args(keys("ca.pem").split_whitespace())
        .args(["show", ROUTER])
        .output()
        .unwrap();
    assert_eq!(
        section(&stdout, &format!("show {ROUTER}")),
        String::from_utf8(printed.stdout).unwrap()
    );
    for (flags, expected) in [
        (String::new(), "an ssl: remote needs a private key"),
        (keys("other-ca.pem"), "invalid peer certificate"),
        ("--private-key key.pem".to_owned(), "--ca-cert <FILE>"),
    ] {
        let failed = server.run("plan", &flags);
        assert_eq!((failed.code, &*failed.stdout), (Some(1), ""), "{flags}");
        assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    }
}
