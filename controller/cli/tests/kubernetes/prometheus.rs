//! Metrics of the admin port, judged by Prometheus' own programs, and their reference.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use patchbay_kubernetes::{MetricKind, all_metrics};
use patchbay_ovn_programs::testing::free_port;
use serde_json::{Value, json};

use crate::admin_port::Controller;
use crate::chart::{queries, selectors};
use crate::testbed::{CONNECT, NAMESPACE, Testbed, ZONE, eventually};

/// Debian's package with the programs.
const PACKAGE: &str = "prometheus";
/// Marks of the reference in the document.
const MARKS: [&str; 2] = ["<!-- metrics -->\n", "<!-- end of metrics -->\n"];

/// A Prometheus that scrapes a controller each second. Dropping it ends the process.
pub(crate) struct Prometheus {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts Prometheus. `None`: it is not installed, which standard error names.
    pub(crate) fn start(target: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("prometheus.yaml");
        let scrape = json!({"job_name": "patchbay", "scrape_interval": "1s", "scrape_timeout": "1s",
            "static_configs": [{"targets": [target]}]});
        std::fs::write(&config, json!({"scrape_configs": [scrape]}).to_string()).unwrap();
        let port = free_port();
        let process = installed("prometheus")?
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { process, port, _folder: folder })
    }

    /// The answer to a query: the series with their values. `None`: there is no answer yet.
    pub(crate) fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let encoded: Vec<_> = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let encoded = encoded.concat();
        write!(stream, "GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let answer: Value = serde_json::from_str(body).ok()?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        Some(answer["data"]["result"].as_array()?.clone())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The command of an installed program of Prometheus. `None`: it is missing, which standard error
/// names.
fn installed(program: &str) -> Option<Command> {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("{program} is missing (Debian: {PACKAGE}); it judges no metrics");
    }
    is_there.then(|| Command::new(program))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_scrapes_the_port_and_finds_nothing_wrong() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let arguments = ["--zone", ZONE, "--nb", zone.remote(), "--namespace", NAMESPACE];
    let controller = Controller::start(&bed, &arguments);
    bed.connect().await;
    bed.until_allocated(2).await;
    zone.until("networks are connected", |zone| (zone.connect_policies().len() == 2).then_some(()))
        .await;
    controller.until_scraped(r#"patchbay_allocations_used{resource="router_tunnel_keys"} 1"#).await;
    // What has not happened has no series yet, and not every system limits virtual memory.
    let unseen = [
        "patchbay_watch_errors_total",
        "patchbay_events_dropped_total",
        "process_virtual_memory_max_bytes",
    ];
    let scrape = controller
        .until_page("/metrics", |text| {
            let named = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            let named: BTreeSet<_> = named.filter_map(|line| line.split(' ').next()).collect();
            let mut expected = all_metrics().filter(|metric| !unseen.contains(&metric.name));
            expected.all(|metric| named.contains(metric.name))
        })
        .await;

    if let Some(mut promtool) = installed("promtool") {
        let alerts =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/patchbay/files/alerts.yaml");
        let judged = promtool.args(["check", "rules"]).arg(alerts).output().unwrap();
        assert!(judged.status.success(), "{judged:?}");
    }
    if let Some(mut promtool) = installed("promtool") {
        let judge = promtool.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut judge = judge.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        judge.stdin.take().unwrap().write_all(scrape.as_bytes()).unwrap();
        let judged = judge.wait_with_output().unwrap();
        let text = [judged.stdout, judged.stderr].map(|out| String::from_utf8(out).unwrap());
        assert!(judged.status.success(), "{}", text.concat());
    }
    if let Some(prometheus) = Prometheus::start(controller.address()) {
        let query = format!("sum(patchbay_connect_state{{connect=\"{CONNECT}\"}})");
        let found = eventually("Prometheus has scraped the port", async || {
            prometheus.query(&query).filter(|series| !series.is_empty())
        })
        .await;
        assert_eq!(found[0]["value"][1], "1", "a connect has one state: {found:?}");
        for (name, query) in queries() {
            prometheus.query(&query).unwrap_or_else(|| panic!("{name}: {query}"));
            for selector in selectors(&query) {
                let series = prometheus.query(&format!("last_over_time({selector}[1m])"));
                assert!(!series.unwrap().is_empty(), "{name}: {selector} has no series");
            }
        }
    }

    // Each series has a line in the reference, and its labels are those of the reference.
    for line in scrape.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        let metric = all_metrics().find(|metric| [name, base].contains(&metric.name));
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the reference"));
        let labels = labels.trim_end_matches('}').split("\",").filter_map(|label| {
            let (name, _) = label.split_once('=')?;
            Some(name.to_owned())
        });
        let labels: BTreeSet<String> = labels.filter(|label| label != "le").collect();
        let named = metric.labels.split(", ").filter(|label| !label.is_empty());
        assert_eq!(labels, named.map(str::to_owned).collect(), "{series}");
    }
}

#[test]
fn the_reference_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let lines = all_metrics().map(|metric| {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let (name, labels, help) = (metric.name, metric.labels, metric.help.replace('<', "\\<"));
        format!("| `{name}` | {kind} | {labels} | {help} |\n")
    });
    let table: String = lines.collect();
    let [begin, end] = MARKS;
    let expected = format!(
        "{before}{begin}| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n{table}{end}{after}"
    );
    if text != expected {
        let new = path.with_extension("md.new");
        std::fs::write(&new, expected).unwrap();
        panic!("docs/operate.md has other metrics; see {}", new.display());
    }
}
