//! The admin port of `patchbay run`: probes, metrics, the filter of the log.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::apiserver::{Fault, Reply};
use crate::command::{kubeconfig, patchbay};
use crate::testbed::{CONNECT, NAMESPACE, Testbed, ZONE, eventually};

/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// A controller process with an admin port. Dropping it ends the process.
pub(crate) struct Controller {
    process: Child,
    address: String,
    _folder: Option<tempfile::TempDir>,
}

/// A status code, and the body.
type Page = (u16, String);

impl Controller {
    /// Starts `patchbay run` on the API server of a testbed, with more arguments.
    pub(crate) fn start(bed: &Testbed, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = patchbay(&["run", "--admin-bind-address", "127.0.0.1:0"]);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig(folder.path(), &bed.api().url()))
            .args(arguments)
            .env_remove("RUST_LOG");
        Self::of(command.spawn().unwrap(), Some(folder))
    }

    /// A process that prints the address of its admin port, with the folder that it needs.
    pub(crate) fn of(mut process: Child, folder: Option<tempfile::TempDir>) -> Self {
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("admin port at ");
        let address = address.unwrap_or_else(|| panic!("{line}")).1.to_owned();
        // A full pipe would stop the process.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, address, _folder: folder }
    }

    /// The address of the port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A request without a body.
    pub(crate) fn get(&self, path: &str) -> Page {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
    }

    /// Sends bytes. Returns the answer.
    fn send(&self, request: &str) -> Page {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        page(stream).unwrap_or_else(|| panic!("no answer to {request}"))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    pub(crate) async fn until(&self, path: &str, expected: impl Fn(&Page) -> bool) -> Page {
        let begun = Instant::now();
        loop {
            let page = self.get(path);
            if expected(&page) {
                return page;
            }
            assert!(begun.elapsed() < LIMIT, "{path} is still {page:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a page has the expected text. Returns it.
    pub(crate) async fn until_page(&self, path: &str, expected: impl Fn(&str) -> bool) -> String {
        self.until(path, |(code, text)| *code == 200 && expected(text)).await.1
    }

    /// Waits until a scrape has a line. Returns the scrape.
    pub(crate) async fn until_scraped(&self, line: &str) -> String {
        self.until_page("/metrics", |text| text.lines().any(|one| one == line)).await
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Reads an answer to its end. `None`: the connection was closed without one.
fn page(mut stream: TcpStream) -> Option<Page> {
    let mut answer = Vec::new();
    // A connection that is reset has an end, too.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

/// The value of a series in a scrape.
fn value<'a>(scrape: &'a str, series: &str) -> &'a str {
    let mut lines = scrape.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    lines.next().unwrap_or_else(|| panic!("{series} is missing in {scrape}"))
}

fn is_positive(scrape: &str, series: &str) -> bool {
    value(scrape, series).parse::<f64>().unwrap() > 0.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_shows_what_its_controllers_do() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    bed.connect().await;
    let arguments = ["--zone", ZONE, "--nb", zone.remote(), "--namespace", NAMESPACE];
    let controller = Controller::start(&bed, &arguments);
    let mut others = Vec::new();
    for (key, _) in bed.inventory.nodes.iter().filter(|(key, _)| key.name != ZONE) {
        let zone = bed.zone(&key.name).await;
        others.push((bed.run_zone(&zone), zone));
    }
    bed.until_allocated(2).await;
    zone.until("networks are connected", |zone| (zone.connect_policies().len() == 2).then_some(()))
        .await;
    let (_, ready) = controller.until("/readyz?verbose", |(code, _)| *code == 200).await;
    for check in ["shutdown", "leader-election", "northbound", "watch/Node", "watch/Lease"] {
        assert!(ready.contains(&format!("[+]{check} ok\n")), "{ready}");
    }
    assert!(ready.ends_with("readyz check passed\n"), "{ready}");
    assert_eq!(controller.get("/readyz"), (200, "ok".to_owned()));
    let (code, live) = controller.get("/livez?verbose");
    assert_eq!(code, 200);
    for task in ["cluster-manager", "zone-controller", "leader-election", "watch-Node"] {
        assert!(live.contains(&format!("[+]task/{task} ok\n")), "{live}");
    }

    let scrape = controller
        .until_scraped(
            r#"patchbay_connect_state{connect="blue-green-connect",state="connected"} 1"#,
        )
        .await;
    let nodes = bed.inventory.nodes.iter().count().to_string();
    assert_eq!(value(&scrape, r#"patchbay_watch_objects{kind="Node"}"#), nodes);
    assert_eq!(value(&scrape, r#"leader_election_master_status{name="patchbay-cluster"}"#), "1");
    assert_eq!(value(&scrape, "patchbay_northbound_connected"), "1");
    assert_eq!(value(&scrape, r#"patchbay_allocations_used{resource="network_ids"}"#), "2");
    assert_eq!(value(&scrape, r#"patchbay_allocations_used{resource="router_tunnel_keys"}"#), "1");
    assert_eq!(value(&scrape, "patchbay_zones_behind"), "0");
    assert_eq!(value(&scrape, r#"patchbay_zones{state="running"}"#), nodes);
    for series in [
        r#"patchbay_watch_lists_total{kind="Service"}"#,
        r#"patchbay_northbound_rows_total{operation="insert"}"#,
        r#"ovsdb_client_transactions_total{database="OVN_Northbound",outcome="committed"}"#,
        r#"ovsdb_client_rows{database="OVN_Northbound"}"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="zone-controller"}"#,
        r#"workqueue_adds_total{name="cluster-manager"}"#,
        r#"workqueue_work_duration_seconds_count{name="cluster-manager"}"#,
    ] {
        assert!(is_positive(&scrape, series), "{series}");
    }
    let requests = scrape.lines().filter(|line| line.starts_with("rest_client_requests_total{"));
    let host = bed.api().url().replace("http://", "");
    let counted: Vec<_> = requests.collect();
    assert!(
        counted.iter().any(|line| line.contains(r#"code="200""#)
            && line.contains(&host)
            && line.contains(r#"method="PATCH""#)),
        "{counted:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_waits_for_the_lease_is_ready() {
    let bed = Testbed::simulated().await;
    let mode = ["--mode", "cluster"];
    let is_leader =
        |number| format!("leader_election_master_status{{name=\"patchbay-cluster\"}} {number}");
    let leader = Controller::start(&bed, &mode);
    leader.until_scraped(&is_leader(1)).await;
    let standby = Controller::start(&bed, &mode);
    standby.until("/readyz", |(code, _)| *code == 200).await;
    let scrape = standby.until_scraped(&is_leader(0)).await;
    assert!(!scrape.contains("patchbay_zones{"), "only the leader knows the zones");
    patchbay_ovn_programs::testing::signal(&leader.process, "TERM");
    standby.until_scraped(&is_leader(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_ready_when_it_has_listed_all_objects_and_the_database_answers() {
    let bed = Testbed::simulated().await;
    let refused =
        |path| Fault { method: "GET", path, reply: Reply::Status(500, None), times: usize::MAX };
    bed.api().fail(refused("/api/v1/nodes"));
    let mut zone = bed.zone(ZONE).await;
    let mut relay = zone.hide();
    relay.mend();
    let arguments = ["--mode", "zone", "--zone", ZONE, "--nb", zone.remote()];
    let controller = Controller::start(&bed, &arguments);
    let failed = "[-]watch/Node failed: the objects are not listed yet\n";
    let is_waiting = |(code, text): &Page| {
        *code == 500 && text.contains(failed) && text.contains("[+]northbound ok\n")
    };
    let (_, text) = controller.until("/readyz", is_waiting).await;
    assert!(text.ends_with("readyz check failed\n"), "{text}");
    assert_eq!(controller.get("/livez"), (200, "ok".to_owned()), "a restart is of no use");
    let excluded = controller.until("/readyz?exclude=watch/Node", |(code, _)| *code == 200).await;
    assert_eq!(excluded.1, "ok");
    assert_eq!(controller.get("/readyz/watch/Node").0, 500);
    assert_eq!(controller.get("/readyz/northbound").0, 200);
    assert_eq!(controller.get("/readyz/etcd").0, 404);
    bed.api().end_faults();
    controller.until("/readyz", |(code, _)| *code == 200).await;
    relay.cut().await;
    let (_, text) = controller.until("/readyz", |(code, _)| *code == 500).await;
    assert!(text.contains("[-]northbound failed: "), "{text}");
    let (_, scrape) = controller.get("/metrics");
    assert_eq!(value(&scrape, "patchbay_northbound_connected"), "0");
    assert!(is_positive(&scrape, "patchbay_northbound_lag_seconds"));
    assert_eq!(controller.get("/livez").0, 200);
    relay.mend();
    controller.until("/readyz", |(code, _)| *code == 200).await;
    let (_, scrape) = controller.get("/metrics");
    assert_eq!(value(&scrape, r#"ovsdb_client_reconnects_total{database="OVN_Northbound"}"#), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_slow_or_send_too_much_do_not_stop_others() {
    let bed = Testbed::simulated().await;
    let controller = Controller::start(&bed, &["--mode", "cluster"]);
    // More connections than the port serves at a time, each with a request that has no end.
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = controller.connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
            stream
        })
        .collect();
    assert_eq!(controller.get("/livez").0, 200);
    // Each of them is closed by the server.
    for stream in slow {
        let code = page(stream).map(|(code, _)| code);
        assert!(matches!(code, None | Some(408)), "{code:?}");
    }

    let header = format!("GET /livez HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let headers = format!("GET /livez HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10_000));
    let body = format!(
        "PUT /debug/level HTTP/1.1\r\nHost: x\r\nContent-Length: {0}\r\n\r\n{1}",
        1 << 20,
        "a".repeat(1 << 20)
    );
    for request in [header, headers, body] {
        let mut stream = controller.connect();
        // The server closes the connection before everything is sent.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let code = page(stream).map(|(code, _)| code);
        assert!(matches!(code, None | Some(400 | 413 | 431)), "{code:?}");
    }
    for (request, code) in [
        ("POST /metrics", 405),
        ("DELETE /debug/level", 405),
        ("GET /metrics/more", 404),
        ("GET /readyzz", 404),
        ("GET /../etc/passwd", 404),
        ("HEAD /livez", 200),
    ] {
        let text = format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(controller.send(&text).0, code, "{request}");
    }
    assert_eq!(controller.get("/livez").0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_the_log_is_changed_while_the_process_runs() {
    let bed = Testbed::simulated().await;
    let controller = Controller::start(&bed, &["--mode", "cluster"]);
    assert_eq!(controller.get("/debug/level"), (200, "kube_client=off,warn\n".to_owned()));
    let put = |directives: &str| {
        let length = directives.len();
        controller.send(&format!(
            "PUT /debug/level HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{directives}"
        ))
    };
    assert_eq!(put("info,patchbay_kubernetes=debug").0, 200);
    let changed = (200, "patchbay_kubernetes=debug,info\n".to_owned());
    assert_eq!(controller.get("/debug/level"), changed);
    for wrong in ["", "loud", "info,degub", "a=loud"] {
        assert_eq!(put(wrong).0, 400, "{wrong}");
    }
    assert_eq!(controller.get("/debug/level"), changed, "wrong directives change nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_as_json_has_one_object_for_each_line() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = patchbay(&["run", "--log-format", "json", "--zone", ZONE]);
    command.arg("--kubeconfig").arg(kubeconfig(folder.path(), &bed.api().url()));
    command.args(["--nb", zone.remote()]).env("RUST_LOG", "info,kube_client=off");
    let file = folder.path().join("log");
    let mut process = command.stderr(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    bed.connect().await;
    // The line comes after the rows.
    eventually("the connect is connected", async || {
        let log = std::fs::read_to_string(&file).unwrap();
        log.contains(r#""message":"connected""#).then_some(())
    })
    .await;
    patchbay_ovn_programs::testing::signal(&process, "TERM");
    assert!(process.wait().unwrap().success());
    let log = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        assert!(
            ["timestamp", "level", "message", "target"].iter().all(|key| line[key].is_string())
        );
    }
    let said = |text: &str| {
        let mut found = lines.iter().filter(|line| line["message"] == text);
        found.next().unwrap_or_else(|| panic!("{text} is missing in {log}"))
    };
    assert_eq!(said("connected")["connect"], CONNECT);
    assert_eq!(said("connected")["zone"], ZONE);
    assert_eq!(said("committed")["zone"], ZONE);
    assert!(said("committed")["inserted"].as_u64().unwrap() > 0);
}

#[test]
fn an_address_that_cannot_be_used_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), "http://127.0.0.1:1");
    let error_of = |address: &str| {
        let mut command: Command = patchbay(&["run", "--mode", "cluster"]);
        command.arg("--kubeconfig").arg(&config).args(["--admin-bind-address", address]);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for address in ["9491", "host:9491", "127.0.0.1", ":99999", "::1:9491:"] {
        let error = error_of(address);
        assert!(error.contains("expected ADDRESS:PORT"), "{address}: {error}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = error_of(&address);
    let expected = format!("error: --admin-bind-address: cannot listen at {address}: ");
    assert!(error.starts_with(&expected), "{error}");
}
