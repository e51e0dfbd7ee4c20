//! Thousands of random faults: in the end the database holds the acknowledged rows, each once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use patchbay_engine::client::{Client, CommitOutcome, Guard, Pipelining};
use patchbay_engine::txn::TxnBuilder;
use patchbay_ovn_programs::testing::{RealCluster, ScratchDir};
use patchbay_schemas::nb::LogicalSwitch;
use tokio::task::JoinHandle;

use crate::proxy::{Direction, Proxy};
use crate::{config, connect, names, schema_file, soon, try_add};

/// Duration of the faults in seconds, unless `PATCHBAY_FAULT_SECONDS` is set.
const FAULT_SECONDS: u64 = 20;

/// Number of concurrent writers per client.
const WRITERS: usize = 4;

/// Time between two kills of members: enough for an election.
const KILL_INTERVAL: Duration = Duration::from_secs(4);

/// Outcomes that writers received.
#[derive(Default)]
struct Answers {
    committed: AtomicUsize,
    not_made: AtomicUsize,
    rejected: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_holds_each_acknowledged_row_once() {
    let dir = ScratchDir::new();
    let mut cluster = RealCluster::start(&schema_file(&dir), 3);
    let proxies: Vec<_> =
        (0..cluster.size()).map(|member| Proxy::start(&cluster.socket(member))).collect();
    let remotes: Vec<_> = proxies.iter().map(Proxy::remote).collect();
    let mut clients = Vec::new();
    for (name, pipelining) in
        [("each", Pipelining::default()), ("coalesced", Pipelining::coalesced())]
    {
        let mut config = config(&remotes.join(","));
        config.guard = Some(Guard::new("Guard", "ids", name));
        config.pipelining = pipelining;
        clients.push((name, connect(config).await));
    }

    let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(Answers::default()));
    let mut writers = Vec::new();
    for (name, client) in &clients {
        for writer in 0..WRITERS {
            let name = format!("{name}-{writer}");
            writers.push(write(client.clone(), name, stop.clone(), answers.clone()));
        }
        writers.push(fail(client.clone(), stop.clone(), answers.clone()));
    }
    let members_died = make_faults(&mut cluster, &proxies).await;
    stop.store(true, Ordering::SeqCst);
    proxies.iter().for_each(Proxy::remove_limits);
    let mut added = BTreeMap::new();
    for writer in writers {
        added.extend(soon(writer).await.unwrap());
    }

    let cuts: usize = proxies.iter().map(Proxy::cuts).sum();
    let committed = answers.committed.load(Ordering::SeqCst);
    let not_made = answers.not_made.load(Ordering::SeqCst);
    let rejected = answers.rejected.load(Ordering::SeqCst);
    println!(
        "{cuts} connections cut, {members_died} members killed: \
         {committed} transactions committed, {not_made} not, {rejected} rejected"
    );
    assert!(rejected > 0);
    assert_eq!(added.len(), committed);
    assert!(cuts > 20 && members_died > 0 && not_made > 0);
    let fresh = connect(config(&cluster.remotes())).await;
    assert_eq!(names(&fresh), added);
}

/// Adds rows until `stop` is set, each until it is committed. Returns the committed rows.
fn write(
    client: Client,
    writer: String,
    stop: Arc<AtomicBool>,
    answers: Arc<Answers>,
) -> JoinHandle<BTreeMap<String, usize>> {
    tokio::spawn(async move {
        let mut added = BTreeMap::new();
        while !stop.load(Ordering::SeqCst) {
            let name = format!("{writer}-{}", added.len());
            loop {
                match try_add(&client, &name).await {
                    CommitOutcome::Committed(_) => break,
                    CommitOutcome::NotSent(_) => {
                        answers.not_made.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    other => panic!("{name}: {other:?}"),
                }
            }
            answers.committed.fetch_add(1, Ordering::SeqCst);
            added.insert(name, 1);
        }
        added
    })
}

/// Sends transactions that the server rejects, until `stop` is set.
fn fail(
    client: Client,
    stop: Arc<AtomicBool>,
    answers: Arc<Answers>,
) -> JoinHandle<BTreeMap<String, usize>> {
    tokio::spawn(async move {
        while !stop.load(Ordering::SeqCst) {
            let mut txn = TxnBuilder::new(&client.snapshot());
            let name = "refused".to_owned();
            let switch = LogicalSwitch { name, ..Default::default() };
            txn.insert(&switch).unwrap();
            txn.assert_lock("not_requested");
            match soon(client.transact(txn.finish())).await {
                CommitOutcome::Rejected(error) if error.is_not_owner() => {
                    answers.rejected.fetch_add(1, Ordering::SeqCst);
                }
                CommitOutcome::NotSent(_) => {}
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        BTreeMap::new()
    })
}

/// Cuts connections after random bytes, and kills and restarts members. Returns the number of
/// kills.
async fn make_faults(cluster: &mut RealCluster, proxies: &[Proxy]) -> usize {
    let seconds = std::env::var("PATCHBAY_FAULT_SECONDS")
        .ok()
        .map_or(FAULT_SECONDS, |text| text.parse().expect("a number"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut next_death, mut died) = (Instant::now() + KILL_INTERVAL / 2, 0);
    while Instant::now() < end {
        let proxy = &proxies[rand::random_range(0..proxies.len())];
        let direction = [Direction::ToServer, Direction::ToClient][rand::random_range(0..2)];
        proxy.cut_after(direction, rand::random_range(0..6000));
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..10))).await;
        if next_death <= Instant::now() {
            let member = if rand::random() {
                tokio::task::block_in_place(|| cluster.leader())
            } else {
                rand::random_range(0..cluster.size())
            };
            tokio::task::block_in_place(|| {
                cluster.kill(member);
                if rand::random() {
                    // Long enough for the others to elect a leader.
                    std::thread::sleep(Duration::from_secs(1));
                }
                cluster.start_member(member);
            });
            died += 1;
            next_death = Instant::now() + KILL_INTERVAL;
        }
    }
    died
}
