//! Scenario folders: clusters in phases, and who reaches whom in each.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use patchbay_lab::{
    Answer, Connection, Lab, Pod, PodName, Promises, Protocol, Question, with_default_pods,
};
use patchbay_model::{ClusterSettings, Feature};
use patchbay_reconcile::Cluster;
use patchbay_resources::manifests::read_manifests;
use patchbay_resources::state::restore;
use serde::Deserialize;

use crate::support::{
    ask_patiently, now, packet_differences, questions, release, row_differences, title,
};

/// Folder of all scenarios.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
/// Beginning of services among the targets of questions.
const SERVICE: &str = "svc/";

/// File `scenario.yaml` of a folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    #[serde(default)]
    settings: Settings,
    /// Protocols of the questions about all pairs.
    #[serde(default = "default_protocols")]
    protocols: Vec<String>,
    phases: Vec<Phase>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Settings {
    service_cidr: Vec<IpNet>,
    enable: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phase {
    name: String,
    manifests: Vec<PathBuf>,
    pods: usize,
    #[serde(default)]
    reach: Vec<Vec<String>>,
    /// `false`: nothing is asked but `answers` and `connections`.
    #[serde(default = "default_pairs")]
    pairs: bool,
    #[serde(default)]
    answers: Vec<ExpectedAnswer>,
    #[serde(default)]
    connections: Vec<ExpectedConnection>,
}

/// TCP connection, which is opened by the first phase that names it, and stays open.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedConnection {
    name: String,
    from: String,
    to: String,
    port: u16,
    /// Pod that answers on the connection. `None`: no pod does.
    #[serde(rename = "answered-by")]
    answered_by: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedAnswer {
    from: String,
    to: String,
    /// `None`: an echo request, in place of `reach`'s answer about the pair.
    protocol: Option<String>,
    reached: bool,
    /// Address of the sender as a host outside sees it. `None`: any one.
    source: Option<IpAddr>,
}

fn default_pairs() -> bool {
    true
}

fn default_protocols() -> Vec<String> {
    vec!["icmp".to_owned()]
}

impl Settings {
    fn read(&self) -> ClusterSettings {
        let features = self.enable.iter().map(|name| {
            let mut all = Feature::ALL.into_iter();
            all.find(|feature| feature.as_str() == name).unwrap()
        });
        ClusterSettings {
            service_cidrs: self.service_cidr.clone(),
            features: features.collect(),
            ..ClusterSettings::default()
        }
    }
}

impl Phase {
    /// The cluster of the phase, with the ids of the one before.
    fn cluster(&self, folder: &Path, settings: &Settings, earlier: Option<&Cluster>) -> Cluster {
        let paths: Vec<PathBuf> = self.manifests.iter().map(|file| folder.join(file)).collect();
        let mut inventory = read_manifests(&paths, &mut std::io::empty()).unwrap();
        if let Some(earlier) = earlier {
            restore(&mut inventory, &earlier.inventory).unwrap();
        }
        let cluster = Cluster::from_inventory(inventory, settings.read(), now()).unwrap();
        with_default_pods(cluster).unwrap()
    }

    /// `true` if pods of these namespaces have to reach each other.
    fn is_joined(&self, from: &Pod, to: &Pod) -> bool {
        let has = |group: &[String], pod: &Pod| group.contains(&pod.name.namespace);
        from.name.namespace == to.name.namespace
            || self.reach.iter().any(|group| has(group, from) && has(group, to))
    }
}

/// Plays the phases of a scenario one after the other on one lab, and lists all differences.
async fn play(name: &str) {
    let Some(release) = release() else { return };
    let folder = Path::new(FOLDER).join(name);
    let text = fs::read_to_string(folder.join("scenario.yaml")).unwrap();
    let scenario: Scenario = serde_saphyr::from_str(&text).unwrap();
    let mut running: Option<(Lab, Cluster)> = None;
    let mut connections = BTreeMap::new();
    let mut differences = Vec::new();
    for phase in &scenario.phases {
        let earlier = running.as_ref().map(|(_, cluster)| cluster);
        let cluster = phase.cluster(&folder, &scenario.settings, earlier);
        let lab = match running.take() {
            None => Lab::start(release.clone(), &cluster).await.unwrap(),
            Some((mut lab, _)) => {
                lab.apply(&cluster).await.unwrap();
                lab
            }
        };
        let mut found = compare(&scenario, phase, &lab, &cluster).await;
        found.extend(exchange(phase, &lab, &mut connections).await);
        let lines = found.into_iter().map(|line| format!("{}: {line}", phase.name));
        differences.extend(lines);
        running = Some((lab, cluster));
    }
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
}

/// Differences between the file and packets, promises and rows in one phase, one line each.
async fn compare(scenario: &Scenario, phase: &Phase, lab: &Lab, cluster: &Cluster) -> Vec<String> {
    let pods = lab.pods().count();
    assert_eq!(pods, phase.pods, "{}: {:?}", phase.name, lab.warnings());
    let promises = Promises::of(cluster);
    let mut differences = Vec::new();
    let questions = pair_questions(scenario, phase, lab);
    for question in &questions {
        let pod = |name: &PodName| lab.pods().find(|pod| pod.name == *name).unwrap();
        let (from, to) = (pod(&question.from), pod(&question.to));
        let promised = promises.reaches(from, to, question.protocol, question.family);
        if promised != question.is_promised {
            let title = title(question);
            differences.push(format!("{title}: the manifests promise {promised}"));
        }
    }
    differences.extend(row_differences(lab, &questions));
    differences.extend(packet_differences(lab, questions).await);
    for answer in &phase.answers {
        let from = lab.find_pod(&answer.from).unwrap();
        let protocol: Protocol = answer.protocol.as_deref().unwrap_or("icmp").parse().unwrap();
        let asked = if let Some(service) = answer.to.strip_prefix(SERVICE) {
            let service = lab.find_service(cluster, service).unwrap();
            let ask = async || lab.ask_service(&from, &service, protocol, None).await;
            ask_patiently(answer.reached, async || ask().await.unwrap()).await
        } else if let Ok(address) = answer.to.parse() {
            let ask = async || lab.ask_outside(&from, address, protocol).await;
            ask_patiently(answer.reached, async || ask().await.unwrap()).await
        } else {
            continue;
        };
        let Answer { verdict, source, .. } = asked;
        let has_source = answer.source.is_none() || answer.source == source;
        if verdict.is_reached() != answer.reached || !has_source {
            let ExpectedAnswer { from, to, .. } = answer;
            differences.push(format!("{from} {to} {protocol}: packets: {verdict}, {source:?}"));
        }
    }
    differences
}

/// Sends data on the connections of a phase. Returns the differences, one line each.
async fn exchange(
    phase: &Phase,
    lab: &Lab,
    connections: &mut BTreeMap<String, Connection>,
) -> Vec<String> {
    let mut differences = Vec::new();
    for expected in &phase.connections {
        let ExpectedConnection { name, from, to, port, .. } = expected;
        if !connections.contains_key(name) {
            let (from, to) = (lab.find_pod(from).unwrap(), lab.find_pod(to).unwrap());
            let Some(opened) = lab.connect(&from, &to, *port).await.unwrap() else {
                differences.push(format!("connection {name} is not accepted"));
                continue;
            };
            connections.insert(name.clone(), opened);
        }
        let connection = connections.get_mut(name).unwrap();
        let answered_by = lab.exchange(connection).await.map(|pod| pod.name);
        if answered_by != expected.answered_by {
            let to = lab.find_pod(expected.answered_by.as_ref().unwrap_or(to)).unwrap();
            let from = lab.find_pod(from).unwrap();
            let diagnosis = lab.diagnose(&from, &to, Protocol::Tcp(*port), None).await;
            differences.push(format!(
                "connection {name} is answered by {answered_by:?}: {}",
                diagnosis.unwrap()
            ));
        }
    }
    differences
}

/// Questions of all pairs in all protocols and common families, with the expected answers.
fn pair_questions(scenario: &Scenario, phase: &Phase, lab: &Lab) -> Vec<Question> {
    let protocols =
        scenario.protocols.iter().filter(|_| phase.pairs).map(|text| text.parse().unwrap());
    let of_pairs = protocols.flat_map(|protocol| {
        lab.pairs()
            .flat_map(move |(from, to)| questions(from, to, protocol, phase.is_joined(from, to)))
    });
    let mut all: Vec<Question> = of_pairs.collect();
    for answer in &phase.answers {
        if answer.to.starts_with(SERVICE) || answer.to.parse::<IpAddr>().is_ok() {
            continue;
        }
        let protocol = answer.protocol.as_deref().unwrap_or("icmp").parse().unwrap();
        let pod = |name: &str| {
            let name = lab.find_pod(name).unwrap();
            lab.pods().find(|pod| pod.name == name).unwrap()
        };
        let (from, to) = (pod(&answer.from), pod(&answer.to));
        all.retain(|old| (&old.from, &old.to, old.protocol) != (&from.name, &to.name, protocol));
        all.extend(questions(from, to, protocol, answer.reached));
    }
    all
}

macro_rules! scenarios {
    ($($test:ident: $folder:literal;)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            play($folder).await;
        })*

        #[test]
        fn every_scenario_folder_is_played() {
            let entries = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap());
            let folders = entries.filter(|entry| entry.path().is_dir());
            let mut names: Vec<_> =
                folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
            let mut played = vec![$($folder),*];
            names.sort();
            played.sort_unstable();
            assert_eq!(names, played);
        }
    };
}

scenarios! {
    the_example_of_the_documents: "documents";
    a_chain_is_not_transitive: "chain";
    layer2_and_layer3_networks_are_connected: "layers";
    both_ip_families_cross_a_connect: "dual-stack";
    strangers_with_the_same_addresses_stay_apart: "same-addresses";
    connectivity_is_for_pods_or_services: "services";
    nodes_join_leave_and_come_back: "nodes";
    networks_have_several_ranges: "ranges";
    namespaces_have_networks_of_their_own: "namespaced";
    policies_hold_across_connects: "policies";
    pods_reach_hosts_outside_of_the_cluster: "egress";
    egress_ips_are_what_hosts_outside_see: "egress-ip";
    a_machine_migrates_while_its_connections_stay_open: "machine";
}
