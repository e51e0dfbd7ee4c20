//! Times and memory of labs with the newest release of OVN.
//!
//! `cargo bench -p patchbay-lab --bench lab` prints the figures; after `--` some of `start`,
//! `apply`, `scenario`, `pairs` and `nodes` select them.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, fs};

use jiff::Timestamp;
use mimalloc::MiMalloc;
use patchbay_lab::{CheckReport, Lab, Promises, Release, with_default_pods};
use patchbay_model::ClusterSettings;
use patchbay_ovn_programs::testing;
use patchbay_reconcile::Cluster;
use patchbay_resources::object::Time;
use tokio::runtime::Builder;

/// The allocator of the program `patchbay`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Idle time after which a thread ends, as in the program `patchbay`.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Time after which programs have returned free memory to the system.
const SETTLING: Duration = Duration::from_secs(3);
/// Runs, of which the best counts.
const RUNS: usize = 5;
/// Time for the answers of the last probes.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Time within which packets show what an apply has changed.
const CHANGE_LIMIT: Duration = Duration::from_secs(5);
/// Networks of the lab in which all pairs are asked.
const PAIRS_NETWORKS: usize = 16;
/// Nodes of the large lab without the environment variable `PATCHBAY_LAB_NODES`.
const MANY_NODES: usize = 40;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Nodes and networks, of which every other one is of layer 2, and a connect of all of them.
fn cluster(nodes: usize, networks: usize, is_connected: bool) -> Outcome<Cluster> {
    let mut manifests: Vec<String> = (1..=nodes)
        .map(|node| format!("{{apiVersion: v1, kind: Node, metadata: {{name: n{node}}}}}"))
        .collect();
    for number in 1..=networks {
        let network = if number % 2 == 1 {
            format!(
                "topology: Layer3, layer3: {{role: Primary, subnets: [{{cidr: 10.{number}.0.0/16}}]}}"
            )
        } else {
            format!("topology: Layer2, layer2: {{role: Primary, subnets: [10.{number}.0.0/16]}}")
        };
        manifests.push(format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: net{number}, labels: {{network: \
             net{number}, k8s.ovn.org/primary-user-defined-network: ''}}}}}}"
        ));
        manifests.push(format!(
            "{{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {{name: \
             net{number}, labels: {{tenant: all}}}}, spec: {{namespaceSelector: {{matchLabels: \
             {{network: net{number}}}}}, network: {{{network}}}}}}}"
        ));
    }
    if is_connected {
        manifests.push(
            "{apiVersion: k8s.ovn.org/v1, kind: ClusterNetworkConnect, metadata: {name: c}, spec: \
             {networkSelectors: [{networkSelectionType: ClusterUserDefinedNetworks, \
             clusterUserDefinedNetworkSelector: {networkSelector: {matchLabels: {tenant: all}}}}], \
             connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}], connectivity: \
             [PodNetwork]}}"
                .to_owned(),
        );
    }
    let text = manifests.join("\n---\n");
    let cluster = Cluster::from_manifests(
        &["-".into()],
        &mut text.as_bytes(),
        None,
        ClusterSettings::default(),
        Time(Timestamp::UNIX_EPOCH),
    )?;
    Ok(with_default_pods(cluster)?)
}

/// Asks all pairs, and returns the number of questions.
async fn check(lab: &Lab, cluster: &Cluster) -> Outcome<usize> {
    let checked = lab.check(lab.all_questions(&Promises::of(cluster))).await?;
    let report = CheckReport::new(&checked);
    if report.differences() > 0 {
        return Err(report.to_text().into());
    }
    Ok(checked.len())
}

async fn measure_start(release: &Release) -> Outcome<()> {
    for nodes in [1, 3] {
        let cluster = cluster(nodes, 2, false)?;
        let mut best = Duration::MAX;
        for _ in 0..RUNS {
            let start = Instant::now();
            let lab = Lab::start(release.clone(), &cluster).await?;
            best = best.min(start.elapsed());
            drop(lab);
        }
        println!("start until flows are installed, {nodes} nodes, 2 networks: {}", ms(best));
    }
    Ok(())
}

/// Time of an apply until packets flow across nodes, and of one until they stop.
async fn measure_apply(release: &Release) -> Outcome<()> {
    let (apart, connected) = (cluster(3, 2, false)?, cluster(3, 2, true)?);
    let mut lab = Lab::start(release.clone(), &apart).await?;
    let (from, to) = (lab.find_pod("net1-1")?, lab.find_pod("net2-3")?);
    let (mut opened, mut closed) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        let probes = lab.start_probes(&from, &to).await?;
        lab.apply(&connected).await?;
        let report =
            probes.stop_when(true, CHANGE_LIMIT, LAST_ANSWERS).await.ok_or("the probes ended")?;
        opened = opened.min(*report.answered.first().ok_or("not opened")?);
        let probes = lab.start_probes(&from, &to).await?;
        lab.apply(&apart).await?;
        let report =
            probes.stop_when(false, CHANGE_LIMIT, LAST_ANSWERS).await.ok_or("the probes ended")?;
        closed = closed.min(report.answered.last().copied().unwrap_or_default());
    }
    println!("apply until packets flow across nodes (a probe each 20 ms): {}", ms(opened));
    println!("apply until they stop: {}", ms(closed));
    Ok(())
}

/// A lab from nothing, with three phases of which all pairs are asked.
async fn measure_scenario(release: &Release) -> Outcome<()> {
    let (apart, connected) = (cluster(3, 2, false)?, cluster(3, 2, true)?);
    let start = Instant::now();
    let mut lab = Lab::start(release.clone(), &apart).await?;
    let mut questions = check(&lab, &apart).await?;
    lab.apply(&connected).await?;
    questions += check(&lab, &connected).await?;
    lab.apply(&apart).await?;
    questions += check(&lab, &apart).await?;
    println!(
        "scenario of 3 nodes, 2 networks, 3 phases, {questions} questions: {}",
        ms(start.elapsed())
    );
    Ok(())
}

async fn measure_pairs(release: &Release) -> Outcome<()> {
    let cluster = cluster(3, PAIRS_NETWORKS, true)?;
    let lab = Lab::start(release.clone(), &cluster).await?;
    let start = Instant::now();
    let pairs = check(&lab, &cluster).await?;
    println!("{PAIRS_NETWORKS} networks on 3 nodes, all {pairs} pairs: {}", ms(start.elapsed()));
    Ok(())
}

async fn measure_nodes(release: &Release) -> Outcome<()> {
    let nodes = env::var("PATCHBAY_LAB_NODES").map_or(Ok(MANY_NODES), |text| text.parse())?;
    let before = memory(std::process::id())?;
    let cluster = cluster(nodes, 2, true)?;
    let start = Instant::now();
    let lab = Lab::start(release.clone(), &cluster).await?;
    println!("start of {nodes} nodes, 2 networks: {}", ms(start.elapsed()));
    tokio::time::sleep(SETTLING).await;
    let mut theirs = BTreeMap::<&str, u64>::new();
    for node in lab.nodes() {
        for (program, process) in lab.programs(node)? {
            *theirs.entry(program).or_default() += memory(process)?;
        }
    }
    let own = memory(std::process::id())?.saturating_sub(before);
    let per_node = |kibibytes: u64| kibibytes as f64 / 1024.0 / nodes as f64;
    println!(
        "memory of each node: {:.1} MiB of OVN's programs, {:.1} MiB of the lab",
        per_node(theirs.values().sum()),
        per_node(own)
    );
    for (program, kibibytes) in theirs {
        println!("  {program}: {:.1} MiB", per_node(kibibytes));
    }
    Ok(())
}

/// Proportional set size of a process in KiB: shared pages count in parts.
fn memory(process: u32) -> Outcome<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = text.lines().find(|line| line.starts_with("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number.ok_or("no Pss")?.parse()?)
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1000.0)
}

fn main() -> Outcome<()> {
    let runtime =
        Builder::new_multi_thread().enable_all().thread_keep_alive(THREAD_KEEP_ALIVE).build()?;
    runtime.block_on(measure())
}

async fn measure() -> Outcome<()> {
    let Some(unpacked) = testing::Release::newest() else {
        return Ok(());
    };
    let release = Release::find(unpacked.folder())?;
    println!("OVN {}, Open vSwitch {}", release.ovn_version(), release.ovs_version());
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    if is_wanted("start") {
        measure_start(&release).await?;
    }
    if is_wanted("apply") {
        measure_apply(&release).await?;
    }
    if is_wanted("scenario") {
        measure_scenario(&release).await?;
    }
    if is_wanted("pairs") {
        measure_pairs(&release).await?;
    }
    if is_wanted("nodes") {
        measure_nodes(&release).await?;
    }
    Ok(())
}
