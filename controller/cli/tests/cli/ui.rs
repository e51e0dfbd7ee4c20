//! `patchbay ui`: who may read the page, and that it follows a server and files.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};

use crate::command::{Run, example, nb_schema, patchbay};
use crate::report::browser::Page;

/// Limit for each answer.
const LIMIT: Duration = Duration::from_secs(120);

/// A running `patchbay ui`, which ends with the test.
struct Ui {
    child: Child,
    address: SocketAddr,
}

impl Ui {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("http://").unwrap_or_else(|| panic!("{line}"));
        let address = rest.split('/').next().unwrap().parse().unwrap();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends a request, and returns the stream with the answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "{method} {path} HTTP/1.1\r\n").unwrap();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            write!(stream, "Host: {}\r\n", self.address).unwrap();
        }
        for (name, value) in headers {
            write!(stream, "{name}: {value}\r\n").unwrap();
        }
        stream.write_all(b"\r\n").unwrap();
        stream
    }

    /// Status and whole text of an answer.
    fn answer(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut text = String::new();
        self.ask(method, path, headers).read_to_string(&mut text).unwrap();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn on_server(server: &RealServer) -> Ui {
    let mut command = patchbay();
    command.args(["ui", "--listen", "127.0.0.1:0", "--nb", &server.remote()]);
    Ui::start(command)
}

/// The next event that names a version.
fn event(events: &mut impl BufReadLines) -> String {
    events.find(|line| line.contains("\"version\"")).unwrap()
}

/// Lines of an answer.
trait BufReadLines: Iterator<Item = String> {}
impl<T: Iterator<Item = String>> BufReadLines for T {}

fn lines(stream: TcpStream) -> impl Iterator<Item = String> {
    BufReader::new(stream).lines().map(Result::unwrap)
}

#[test]
fn the_page_follows_a_server() {
    let server = RealServer::start([nb_schema()]);
    let ui = on_server(&server);
    let (status, page) = ui.answer("GET", "/", &[]);
    assert_eq!(status, 200);
    assert!(page.contains("const version = 0;") && !page.contains("sw0"), "{page}");
    let mut events = lines(ui.ask("GET", "/events", &[]));
    assert!(event(&mut events).contains("\"version\":0"));
    assert!(nbctl(&server.remote()).args(["ls-add", "sw0"]).status().unwrap().success());
    let next = event(&mut events);
    assert!(next.contains("\"failure\":null"), "{next}");
    assert!(ui.answer("GET", "/", &[]).1.contains("sw0"));
    drop(server);
    let lost = events.find(|line| line.contains("the connection is lost")).unwrap();
    assert!(lost.contains("unix:"), "{lost}");
}

#[test]
fn the_page_follows_manifests_and_names_what_is_wrong_with_them() {
    let folder = ScratchDir::new();
    for entry in fs::read_dir(example()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let mut command = patchbay();
    command.args(["ui", "--listen", "127.0.0.1:0", "-f"]).arg(folder.path());
    let ui = Ui::start(command);
    let mut events = lines(ui.ask("GET", "/events", &[]));
    assert!(event(&mut events).contains("\"failure\":null"));
    fs::write(folder.path().join("wrong.yaml"), "kind: [").unwrap();
    let wrong = event(&mut events);
    assert!(wrong.contains("wrong.yaml"), "{wrong}");
    let (status, page) = ui.answer("GET", "/", &[]);
    assert_eq!(status, 200);
    assert!(page.contains("blue-network"));
    fs::remove_file(folder.path().join("wrong.yaml")).unwrap();
    assert!(event(&mut events).contains("\"failure\":null"));
}

#[test]
#[ignore = "takes long, and needs chromium: scripts/test --all"]
fn choices_outlive_a_change_in_a_browser() {
    let server = RealServer::start([nb_schema()]);
    let ask = |arguments: &[&str]| {
        assert!(nbctl(&server.remote()).args(arguments).status().unwrap().success());
    };
    let add = |switch: &str| {
        ask(&["ls-add", switch]);
        for number in ["1", "2"] {
            let port = format!("{switch}-{number}");
            ask(&["lsp-add", switch, &port]);
            let address = format!("0a:00:00:00:00:0{number} 10.0.0.{number}");
            ask(&["lsp-set-addresses", &port, &address]);
        }
    };
    add("b");
    let ui = on_server(&server);
    let folder = ScratchDir::new();
    let mut page = Page::open_url(&format!("http://{}/", ui.address), folder.path());
    page.evaluate("answer(0, 0); document.getElementById('theme').click()");
    let chosen = "document.querySelector('[aria-pressed=true]').getAttribute('aria-label')";
    assert_eq!(page.evaluate(chosen), "b to b: connected");
    add("a");
    // Several transactions add the switch, and the page may load itself after each of them.
    let is_live = "document.getElementById('state').textContent === 'live'";
    let is_chosen = format!("{chosen} === 'b to b: connected'");
    let is_light = "document.documentElement.dataset.theme === 'light'";
    page.wait_for(&format!(
        "pairs.names.join() === 'a,b' && {is_live} && {is_chosen} && {is_light}"
    ));
    assert_eq!(page.complaints, [""; 0]);
}

#[test]
fn pages_of_other_sites_read_nothing() {
    let server = RealServer::start([nb_schema()]);
    let ui = on_server(&server);
    let own = ui.address.to_string();
    let port = ui.address.port();
    let local = format!("localhost:{port}");
    let rebound = format!("evil.example:{port}");
    let (same, foreign) = (format!("http://{own}"), "http://evil.example");
    for (headers, expected) in [
        (&[("Host", &*own)][..], 200),
        (&[("Host", &*local)], 200),
        (&[("Origin", &*same)], 200),
        (&[("Host", &*rebound)], 403),
        (&[("Host", "")], 403),
        (&[("Origin", foreign)], 403),
        (&[("Origin", "null")], 403),
    ] {
        let (status, answer) = ui.answer("GET", "/", headers);
        assert_eq!(status, expected, "{headers:?}: {answer}");
        assert!(status == 200 || !answer.contains("<html"), "{answer}");
    }
    assert_eq!(ui.answer("POST", "/", &[]).0, 405);
    assert_eq!(ui.answer("GET", "/etc/passwd", &[]).0, 404);
    let (_, page) = ui.answer("GET", "/", &[]);
    for header in
        ["cache-control: no-store", "x-content-type-options: nosniff", "x-frame-options: DENY"]
    {
        assert!(page.contains(header), "{header}");
    }
    // Connections that send nothing keep no reader out.
    let idle: Vec<TcpStream> = (0..100).map(|_| ui.connect()).collect();
    assert_eq!(ui.answer("GET", "/", &[]).0, 200);
    drop(idle);
}

#[test]
fn another_address_needs_a_token() {
    let server = RealServer::start([nb_schema()]);
    let remote = server.remote();
    let without =
        patchbay().args(["ui", "--nb", &remote, "--listen", "0.0.0.0:0"]).output().unwrap();
    let without = Run::from(without);
    assert_eq!(without.code, Some(1));
    assert!(without.stderr.contains("--token-file"), "{}", without.stderr);
    let folder = ScratchDir::new();
    let file = folder.path().join("token");
    fs::write(&file, "short").unwrap();
    let on = |file: &std::path::Path| {
        let mut command = patchbay();
        command.args(["ui", "--nb", &remote, "--listen", "0.0.0.0:0", "--token-file"]).arg(file);
        command
    };
    let short = Run::from(on(&file).output().unwrap());
    assert!(short.stderr.contains("at least 16 letters and digits"), "{}", short.stderr);
    fs::write(&file, "0123456789abcdefgh\n").unwrap();
    let mut ui = Ui::start(on(&file));
    ui.address.set_ip([127, 0, 0, 1].into());
    for (path, header, expected) in [
        ("/", "", 403),
        ("/?token=0123456789abcdefgX", "", 403),
        ("/?token=", "", 403),
        ("/?token=0123456789abcdefgh", "", 200),
        ("/", "Bearer 0123456789abcdefgh", 200),
        ("/events", "Bearer 0123456789abcdef", 403),
    ] {
        let (status, answer) = ui.answer("GET", path, &[("Authorization", header)]);
        assert_eq!(status, expected, "{path} {header}: {answer}");
    }
}
