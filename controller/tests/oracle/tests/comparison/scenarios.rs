//! Scenarios of the folder `tests/scenarios`: manifests, questions and their answers. Each answer
//! is that of `reach` and that of ovn-northd with ovn-trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;

use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily, Role};
use patchbay_oracle::{
    Asked, Frame, Ovn, Tally, Wiring, compare, read_cluster, start_server, write_zone,
};
use patchbay_ovn_programs::testing::{RealServer, Release};
use patchbay_reach::{Answer, Destination, Northbound, Question, Sender};
use patchbay_reconcile::Cluster;
use serde::Deserialize;
use tokio::runtime::Runtime;

/// Scenarios that are played at a time: each waits for its programs.
const WORKERS: usize = 4;

/// File of the folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Subject of the scenario, in a sentence.
    about: String,
    #[serde(default)]
    settings: Settings,
    /// Folders of the repository with manifests.
    #[serde(default)]
    folders: Vec<PathBuf>,
    /// Manifests.
    #[serde(default)]
    manifests: String,
    questions: Vec<Expected>,
}

/// Settings of the cluster; the others are the default ones.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    /// Ranges of cluster IPs. Their families are those of the cluster.
    #[serde(default)]
    service_cidr: Vec<ipnet::IpNet>,
    #[serde(default)]
    gateway_mode: Mode,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Shared,
    Local,
}

/// Question with its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// Pod that sends, as `NAMESPACE/NAME`.
    from: String,
    /// Pod, service (`service/NAMESPACE/NAME`) or IP address.
    to: String,
    /// `icmp`, `tcp PORT` or `udp PORT`.
    #[serde(default = "icmp")]
    protocol: String,
    /// Verdict, such as `reaches`.
    expect: String,
    /// Port by which the packet goes out.
    #[serde(default)]
    out: Option<String>,
    /// Source after translation. `None`: it is not translated.
    #[serde(default)]
    source: Option<IpAddr>,
    /// Destination after translation. `None`: it is not translated.
    #[serde(default)]
    dest: Option<IpAddr>,
    /// Beginning of the place where the packet ends.
    #[serde(default)]
    at: String,
}

fn icmp() -> String {
    "icmp".to_owned()
}

/// Zone whose rows are on a server.
struct Zone {
    northbound: Northbound,
    wiring: Wiring,
    ovn: Ovn,
    _server: RealServer,
}

impl Zone {
    /// Writes the rows of a zone. `addresses`: all that questions ask for.
    fn new(
        release: &Release,
        runtime: &Runtime,
        (cluster, zone): (&Cluster, &str),
        addresses: &[IpAddr],
    ) -> Self {
        let server = start_server(release);
        let snapshot = runtime.block_on(write_zone(cluster, zone, &server.remote()));
        let wiring = Wiring::new(&snapshot);
        Self {
            northbound: Northbound::new(&snapshot, None),
            ovn: Ovn::start(release, &server, &wiring.learned(addresses)),
            wiring,
            _server: server,
        }
    }
}

/// Node of a pod, and its addresses in its primary network, or else in the first one.
fn pod(cluster: &Cluster, name: &str) -> (String, Vec<IpAddr>) {
    let pods = cluster.zone_pods("").unwrap();
    let pod = pods.pods().find(|pod| pod.key.to_string() == name);
    let pod = pod.unwrap_or_else(|| panic!("no pod {name}"));
    let places: Vec<_> = pods.places(pod).collect();
    let primary = places.iter().find(|place| place.network.role == Role::Primary);
    let place = primary.or(places.first()).unwrap();
    let addresses = place.addresses.addresses.iter().map(ipnet::IpNet::addr);
    (pod.node.as_deref().unwrap().to_owned(), addresses.collect())
}

/// Addresses of a destination.
fn addresses(cluster: &Cluster, to: &str) -> Vec<IpAddr> {
    if let Ok(address) = to.parse() {
        return vec![address];
    }
    let Some(service) = to.strip_prefix("service/") else {
        return pod(cluster, to).1;
    };
    let services = cluster.inventory.services.in_order();
    let (_, found) = services
        .into_iter()
        .find(|(key, _)| key.to_string() == service)
        .unwrap_or_else(|| panic!("no service {service}"));
    let spec = found.object.spec.as_ref().unwrap();
    let all = spec.cluster_ips.iter().flatten();
    let texts: BTreeSet<_> = all.chain(&spec.cluster_ip).collect();
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn is_as_expected(answer: &Answer, expected: &Expected) -> bool {
    let is_out = expected.out.is_none() || expected.out == answer.out;
    answer.verdict.as_str() == expected.expect
        && is_out
        && (answer.source, answer.dest) == (expected.source, expected.dest)
        && answer.at.starts_with(&expected.at)
}

/// Asks the questions of a scenario. Returns what is not as expected.
fn play(release: &Release, runtime: &Runtime, scenario: &Scenario) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folders: Vec<_> = scenario.folders.iter().map(|folder| root.join(folder)).collect();
    let cluster = read_cluster(&folders, &scenario.manifests, scenario.settings.cluster());
    let targets: Vec<_> =
        scenario.questions.iter().map(|question| addresses(&cluster, &question.to)).collect();
    let all: Vec<_> = targets.iter().flatten().copied().collect();
    let mut zones = BTreeMap::new();
    let mut wrong = Vec::new();
    for (expected, targets) in scenario.questions.iter().zip(&targets) {
        let (node, _) = pod(&cluster, &expected.from);
        let zone = zones
            .entry(node.clone())
            .or_insert_with(|| Zone::new(release, runtime, (&cluster, &node), &all));
        // A question about a dual-stack destination is one about each of its addresses.
        for address in targets {
            wrong.extend(ask(zone, expected, *address));
        }
    }
    wrong
}

/// Asks `reach` and ovn-trace. Returns what is not as expected.
fn ask(zone: &mut Zone, expected: &Expected, address: IpAddr) -> Option<String> {
    let mut question = Question {
        sender: Sender::pod(&expected.from),
        destination: Destination::Address(address),
        protocol: expected.protocol.parse().unwrap(),
    };
    let answer = zone.northbound.answer(&question).unwrap();
    if !is_as_expected(&answer, expected) {
        return Some(format!("{expected:?}, {address}\n{answer:#?}"));
    }
    let suffix = format!("_{}", expected.from.replace('/', "_"));
    let port = zone.wiring.local_ports().find(|port| port.ends_with(&suffix));
    question.sender = Sender::port(port.unwrap());
    let packet = match zone.wiring.frame(&question.sender, address, question.protocol) {
        Frame::Packet(packet) => Some(packet),
        Frame::Nothing => None,
        Frame::Unclear => return Some(format!("{expected:?}: no frame")),
    };
    let mut tally = Tally::default();
    let asked = Asked { question, packet };
    compare(&zone.northbound, &mut zone.ovn.trace, &asked, &mut tally);
    (tally.asked != 1 || tally.open + tally.wrong.len() > 0)
        .then(|| format!("{expected:?}: ovn-trace: {}", tally.differences()))
}

impl Settings {
    fn cluster(&self) -> ClusterSettings {
        let has = |family: &IpFamily| {
            let mut families = self.service_cidr.iter().map(|range| IpFamily::of_net(*range));
            self.service_cidr.is_empty() || families.any(|one| one == *family)
        };
        ClusterSettings {
            families: IpFamily::BOTH.into_iter().filter(has).collect(),
            service_cidrs: self.service_cidr.clone(),
            gateway_mode: match self.gateway_mode {
                Mode::Shared => GatewayMode::Shared,
                Mode::Local => GatewayMode::Local,
            },
            features: Feature::ALL.into(),
            ..ClusterSettings::default()
        }
    }
}

#[test]
fn scenarios_have_the_written_answers() {
    let Some(release) = Release::newest() else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let play_files = |worker: usize| {
        let files = files.iter().skip(worker).step_by(WORKERS);
        let wrong = files.flat_map(|file| play_file(&release, &runtime, file));
        wrong.collect::<Vec<String>>()
    };
    let wrong = thread::scope(|scope| {
        let workers: [_; WORKERS] =
            std::array::from_fn(|worker| scope.spawn(move || play_files(worker)));
        let wrong = workers.map(|worker| worker.join().unwrap());
        wrong.concat()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Plays the scenario of a file. Returns what is not as expected.
fn play_file(release: &Release, runtime: &Runtime, file: &Path) -> Vec<String> {
    let scenario: Scenario = serde_saphyr::from_str(&fs::read_to_string(file).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let name = file.file_stem().unwrap().display();
    let found = play(release, runtime, &scenario);
    let wrong = found.iter().map(|one| format!("{name}: {}\n{one}", scenario.about));
    wrong.collect()
}
