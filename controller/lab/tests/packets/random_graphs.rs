//! Random networks, connects, policies and services: rows, ovn-trace and packets agree with the
//! manifests, each on its own.
//!
//! `PATCHBAY_LAB_GRAPHS` sets the number of graphs, and `PATCHBAY_LAB_SEED` the seed of the first
//! one; the next graph has the next seed. A difference is reported with its seed.

use std::collections::BTreeSet;
use std::env;

use patchbay_lab::{AddressEnd, Lab, Promises, Protocol, Question};
use patchbay_model::ClusterSettings;
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};

use crate::support::{
    ask_patiently, cluster_with, packet_differences, questions, release, row_differences, title,
};

/// Number of graphs without the environment variable.
const GRAPHS: u64 = 3;
/// Seed of the first graph without the environment variable.
const SEED: u64 = 20;
/// Maximum number of questions of a graph that ovn-trace answers, because each is three processes.
const TRACED: usize = 12;

/// Labels of pods, which policies and services select.
const APPS: [&str; 3] = ["web", "db", "none"];
/// Range of cluster IPs.
const SERVICES: &str = "10.96.0.0/16";

/// Random cluster.
struct Graph {
    manifests: String,
    services: Vec<Service>,
    has_policies: bool,
}

struct Service {
    namespace: String,
    has_endpoints: bool,
}

fn pick<'a>(random: &mut StdRng, from: &[&'a str]) -> &'a str {
    from.choose(random).unwrap()
}

impl Graph {
    fn random(seed: u64) -> Self {
        let random = &mut StdRng::seed_from_u64(seed);
        let nodes = random.random_range(1..=3);
        let mut manifests: Vec<String> = (1..=nodes)
            .map(|node| format!("{{apiVersion: v1, kind: Node, metadata: {{name: n{node}}}}}"))
            .collect();
        let mut graph =
            Self { manifests: String::new(), services: Vec::new(), has_policies: false };
        let networks = random.random_range(2..=5);
        let families = pick(random, &["4", "6", "46"]);
        let names: Vec<String> = (1..=networks).map(|number| format!("net{number}")).collect();
        let mut candidates = Vec::new();
        for (number, name) in (1..).zip(&names) {
            // Some networks have the addresses of the one before, and are not connected.
            let is_stranger = number > 1 && random.random_bool(0.15);
            let range = if is_stranger { number - 1 } else { number };
            if !is_stranger {
                candidates.push(name.clone());
            }
            manifests.push(namespace(name));
            manifests.push(network(name, range, families, random.random_bool(0.5)));
            let mut apps = BTreeSet::new();
            for node in 1..=nodes {
                if node == 1 || random.random_bool(0.8) {
                    let app = pick(random, &APPS);
                    apps.insert(app);
                    manifests.push(pod(name, node, app));
                }
            }
            if random.random_bool(0.4) {
                let app = pick(random, &APPS[..2]);
                manifests.push(service(name, number, app, families));
                let has_endpoints = apps.contains(app);
                graph.services.push(Service { namespace: name.clone(), has_endpoints });
            }
        }
        for number in 1..=random.random_range(0..=3) {
            let mut chosen = candidates.clone();
            chosen.shuffle(random);
            chosen.truncate(random.random_range(1..=candidates.len()));
            let connectivity =
                pick(random, &["PodNetwork", "PodNetwork, ServiceNetwork", "ServiceNetwork"]);
            // A connect may have subnets of one of the networks' families only.
            let ranges = if random.random_bool(0.3) { &families[..1] } else { families };
            manifests.push(connect(number, &chosen, connectivity, ranges));
        }
        for number in 0..random.random_range(0..=2) {
            graph.has_policies = true;
            let name = names.choose(random).unwrap();
            manifests.push(policy(random, number, name, networks, families));
        }
        graph.manifests = manifests.join("\n---\n");
        graph
    }
}

fn namespace(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{network: {name}, \
         k8s.ovn.org/primary-user-defined-network: ''}}}}}}"
    )
}

/// Range of a network in a family.
fn range(number: usize, family: char) -> String {
    match family {
        '4' => format!("10.{number}.0.0/16"),
        _ => format!("fd00:10:{number}::/48"),
    }
}

fn network(name: &str, number: usize, families: &str, is_layer2: bool) -> String {
    let ranges = families.chars().map(|family| range(number, family));
    let (topology, field, subnets) = if is_layer2 {
        // A layer2 network has a /64 at least.
        let ranges = ranges.map(|range| format!("'{}'", range.replace("::/48", "::/64")));
        ("Layer2", "layer2", ranges.collect::<Vec<_>>())
    } else {
        let ranges = ranges.map(|range| format!("{{cidr: '{range}'}}"));
        ("Layer3", "layer3", ranges.collect())
    };
    format!(
        "{{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {{name: {name}, \
         labels: {{tenant: {name}}}}}, spec: {{namespaceSelector: {{matchLabels: {{network: \
         {name}}}}}, network: {{topology: {topology}, {field}: {{role: Primary, subnets: [{}]}}}}}}}}",
        subnets.join(", ")
    )
}

fn pod(namespace: &str, node: usize, app: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {namespace}-{node}, namespace: {namespace}, \
         labels: {{app: {app}}}}}, spec: {{nodeName: n{node}, containers: [{{name: main, ports: \
         [{{name: http, containerPort: 8080}}]}}]}}}}"
    )
}

fn service(namespace: &str, number: usize, app: &str, families: &str) -> String {
    let ip = match families {
        "6" => format!("fd96::{number}"),
        _ => format!("10.96.0.{number}"),
    };
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: {namespace}}}, spec: \
         {{clusterIP: '{ip}', selector: {{app: {app}}}, ports: [{{port: 80, targetPort: http}}]}}}}"
    )
}

fn connect(number: usize, names: &[String], connectivity: &str, families: &str) -> String {
    let ranges = families.chars().map(|family| match family {
        '4' => format!("{{cidr: 172.{}.0.0/16, networkPrefix: 24}}", 20 + number),
        _ => format!("{{cidr: 'fd01:{number}::/112', networkPrefix: 120}}"),
    });
    format!(
        "{{apiVersion: k8s.ovn.org/v1, kind: ClusterNetworkConnect, metadata: {{name: c{number}}}, \
         spec: {{networkSelectors: [{{networkSelectionType: ClusterUserDefinedNetworks, \
         clusterUserDefinedNetworkSelector: {{networkSelector: {{matchExpressions: [{{key: tenant, \
         operator: In, values: [{}]}}]}}}}}}], connectSubnets: [{}], connectivity: \
         [{connectivity}]}}}}",
        names.join(", "),
        ranges.collect::<Vec<_>>().join(", ")
    )
}

/// A policy for pods of a namespace: peers by label or address, with or without ports.
fn policy(
    random: &mut StdRng,
    number: usize,
    namespace: &str,
    networks: usize,
    families: &str,
) -> String {
    let subject = match pick(random, &APPS) {
        "none" => String::new(),
        app => format!("matchLabels: {{app: {app}}}"),
    };
    let (direction, peers) =
        if random.random_bool(0.5) { ("ingress", "from") } else { ("egress", "to") };
    let mut rules = Vec::new();
    for _ in 0..random.random_range(0..=2) {
        let peer = if random.random_bool(0.5) {
            let app = pick(random, &APPS);
            format!("{{podSelector: {{matchLabels: {{app: {app}}}}}}}")
        } else {
            let family = families.chars().next().unwrap();
            let range = range(random.random_range(1..=networks), family);
            format!("{{ipBlock: {{cidr: '{range}'}}}}")
        };
        let ports = pick(random, &["", ", ports: [{port: 80}]", ", ports: [{port: http}]"]);
        rules.push(format!("{{{peers}: [{peer}]{ports}}}"));
    }
    let (kind, rules) = (capitalized(direction), rules.join(", "));
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p{number}, \
         namespace: {namespace}}}, spec: {{podSelector: {{{subject}}}, policyTypes: [{kind}], \
         {direction}: [{rules}]}}}}"
    )
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// Questions about all pairs in three protocols, with the promised answers.
fn all_questions(lab: &Lab, promises: &Promises) -> Vec<Question> {
    let protocols = [Protocol::Icmp, Protocol::Tcp(80), Protocol::Tcp(8080)];
    let of_pairs = lab.pairs().flat_map(|(from, to)| {
        protocols.into_iter().flat_map(move |protocol| {
            questions(from, to, protocol, false).map(move |question| Question {
                is_promised: promises.reaches(from, to, protocol, question.family),
                ..question
            })
        })
    });
    of_pairs.collect()
}

/// Differences of a graph, one line each.
async fn compare(lab: &Lab, cluster: &Cluster, graph: &Graph, seed: u64) -> Vec<String> {
    let questions = all_questions(lab, &Promises::of(cluster));
    let mut differences = row_differences(lab, &questions);
    let mut traced: Vec<&Question> = questions.iter().collect();
    traced.shuffle(&mut StdRng::seed_from_u64(seed));
    for question in traced.into_iter().take(TRACED) {
        let (from, to) = (&question.from, &question.to);
        let family = Some(question.family);
        let diagnosis = lab.diagnose(from, to, question.protocol, family).await.unwrap();
        let target = lab.pods().find(|pod| pod.name == *to).unwrap();
        if diagnosis.is_delivered_by_flows(&target.port) != question.is_promised {
            differences.push(format!("{}: ovn-trace: {diagnosis}", title(question)));
        }
    }
    differences.extend(packet_differences(lab, questions).await);
    if !graph.has_policies {
        differences.extend(compare_services(lab, cluster, graph).await);
    }
    differences
}

async fn compare_services(lab: &Lab, cluster: &Cluster, graph: &Graph) -> Vec<String> {
    let mut differences = Vec::new();
    let shared = shared_services(cluster);
    let rows = lab.rows();
    for Service { namespace, has_endpoints } in &graph.services {
        let service = lab.find_service(cluster, &format!("{namespace}/web")).unwrap();
        for pod in lab.pods() {
            let own = pod.name.namespace.clone();
            let is_shared = shared.contains(&(own.clone(), namespace.clone()));
            let is_promised = *has_endpoints && (own == *namespace || is_shared);
            let ask = async || lab.ask_service(&pod.name, &service, Protocol::Tcp(80), None).await;
            let course = rows
                .diagnose_address(&pod.name, service.cluster_ips[0], Protocol::Tcp(80))
                .unwrap();
            if matches!(course.end, AddressEnd::Pod(_)) != is_promised {
                let from = &pod.name;
                differences
                    .push(format!("{from} svc/{namespace}/web {is_promised}: rows: {course}"));
            }
            let answer = ask_patiently(is_promised, async || ask().await.unwrap()).await;
            let verdict = answer.verdict;
            if verdict.is_reached() != is_promised {
                let from = &pod.name;
                differences.push(format!("{from} svc/{namespace}/web {is_promised}: {verdict}"));
            }
        }
    }
    differences
}

/// Pairs of namespaces whose pods reach the services of each other.
fn shared_services(cluster: &Cluster) -> BTreeSet<(String, String)> {
    let networks = cluster.networks();
    let connects = cluster.connects().filter_map(|object| conversion::connect(object).ok());
    let shared = connects.filter(|connect| connect.connectivity.service_network);
    let pairs = shared.flat_map(|connect| {
        let owners = connect.subnets.owners();
        let connected = owners.filter_map(|owner| networks.by_id(owner.network_id));
        let names: Vec<String> = connected
            .flat_map(|network| network.namespaces.iter())
            .map(ToString::to_string)
            .collect();
        let pairs = names
            .iter()
            .flat_map(|one| names.iter().map(move |other| (one.clone(), other.clone())));
        pairs.collect::<Vec<_>>()
    });
    pairs.collect()
}

fn variable(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_flows_and_packets_of_random_graphs_agree_with_the_manifests() {
    let Some(release) = release() else { return };
    let first = variable("PATCHBAY_LAB_SEED", SEED);
    let graphs = variable("PATCHBAY_LAB_GRAPHS", GRAPHS);
    let settings = ClusterSettings {
        service_cidrs: vec![SERVICES.parse().unwrap(), "fd96::/112".parse().unwrap()],
        ..ClusterSettings::default()
    };
    let mut failures = Vec::new();
    for seed in first..first + graphs {
        let graph = Graph::random(seed);
        let cluster = cluster_with(&graph.manifests, settings.clone());
        let lab = Lab::start(release.clone(), &cluster).await.unwrap();
        let differences = compare(&lab, &cluster, &graph, seed).await;
        if !differences.is_empty() {
            let (lines, manifests) = (differences.join("\n"), &graph.manifests);
            failures.push(format!("seed {seed}:\n{lines}\n{manifests}\n{:?}", lab.warnings()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
