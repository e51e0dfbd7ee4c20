//! `ssl:` remotes.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use patchbay_engine::client::{Client, Tls};
use patchbay_ovn_programs::testing::{self, ScratchDir};

use crate::{TEST_TIMEOUT, add, config, connect, names, once, schema_file, soon};

/// A file beside this one.
fn key(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connection/keys").join(name)
}

/// A real server with a TLS and a TCP listener.
struct TlsServer {
    child: Child,
    tls: u16,
    tcp: u16,
    _dir: ScratchDir,
}

impl TlsServer {
    fn start() -> Self {
        let dir = ScratchDir::new();
        let database = dir.path().join("db");
        let created = Command::new(testing::program("ovsdb-tool"))
            .arg("create")
            .args([&database, &schema_file(&dir)])
            .status();
        assert!(created.unwrap().success());
        let [tls, tcp] = [testing::free_port(), testing::free_port()];
        let child = Command::new(testing::program("ovsdb-server"))
            .arg(format!("--remote=pssl:{tls}:127.0.0.1"))
            .arg(format!("--remote=ptcp:{tcp}:127.0.0.1"))
            .arg(format!("--unixctl={}", dir.path().join("ctl").display()))
            .args(["-p", key("server-key.pem").to_str().unwrap()])
            .args(["-c", key("server.pem").to_str().unwrap()])
            .args(["-C", key("ca.pem").to_str().unwrap()])
            .arg(&database)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + TEST_TIMEOUT;
        while [tls, tcp].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            assert!(Instant::now() < deadline, "ovsdb-server does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, tls, tcp, _dir: dir }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        // Both calls fail only if the server has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keys() -> Tls {
    Tls::new(key("client-key.pem"), key("client.pem"), key("ca.pem"))
}

async fn refused(remotes: &str, tls: Option<Tls>) -> String {
    let mut config = config(remotes);
    config.tls = tls;
    soon(Client::connect(config)).await.unwrap_err().to_string()
}

#[tokio::test]
async fn both_sides_verify_the_authority() {
    let server = TlsServer::start();
    let remote = format!("ssl:127.0.0.1:{}", server.tls);
    let mut config = config(&format!("unix:/nonexistent/socket,{remote}"));
    config.tls = Some(keys());
    let client = connect(config).await;
    add(&client, "a").await;
    assert_eq!(names(&client), once(["a"]));

    // A server certificate of another authority.
    let other = Tls::new(key("client-key.pem"), key("client.pem"), key("other-ca.pem"));
    assert_eq!(
        refused(&remote, Some(other)).await,
        format!(
            "cannot use database D: {remote}: TLS handshake: invalid peer certificate: UnknownIssuer"
        )
    );
    // A client certificate that the server's authority did not sign.
    let stranger = Tls::new(key("server-key.pem"), key("client.pem"), key("ca.pem"));
    let text = refused(&remote, Some(stranger)).await;
    assert!(text.contains("client.pem with private key"), "{text}");
}

#[tokio::test]
async fn errors_name_the_faulty_file_or_server() {
    let server = TlsServer::start();
    let remote = format!("ssl:127.0.0.1:{}", server.tls);
    let text = refused(&remote, None).await;
    assert!(text.contains("an ssl: remote needs a private key"), "{text}");

    let missing = Tls::new("/nonexistent/key", key("client.pem"), key("ca.pem"));
    let text = refused(&remote, Some(missing)).await;
    assert!(text.contains("/nonexistent/key: No such file"), "{text}");

    let swapped = Tls::new(key("client.pem"), key("client-key.pem"), key("ca.pem"));
    let text = refused(&remote, Some(swapped)).await;
    assert!(text.contains("client-key.pem: it contains no certificate in PEM format"), "{text}");

    let plain = format!("ssl:127.0.0.1:{}", server.tcp);
    let mut config = config(&plain);
    config.tls = Some(keys());
    config.connect_timeout = Duration::from_secs(2);
    let text = soon(Client::connect(config)).await.unwrap_err().to_string();
    assert!(text.contains(&plain), "{text}");
}
