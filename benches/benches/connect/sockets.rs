//! 32,000 links through a unix socket, from an empty database. On ovsdb-sim the time is compared
//! with a goal, on ovsdb-server with the time of the same transaction alone, with and without a
//! client that monitors.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use patchbay_benches::client::RawClient;
use patchbay_benches::connect::ClusterSize;
use patchbay_benches::northbound;
use patchbay_benches::process::{Server, ServerKind, cpu_time};
use patchbay_benches::text::{format_duration, format_goal};
use patchbay_connects::ZoneController;
use patchbay_engine::txn::Transaction;
use patchbay_reconcile::northbound::{Northbound as _, Remote};
use patchbay_schemas::nb::LogicalRouterPort;
use patchbay_zone::ZoneObjects;
use tokio::runtime::Runtime;

use crate::changes::CONNECT_GOAL;

/// Runs of each measurement; the best is printed.
const ROUNDS: usize = 4;
/// Goal on ovsdb-server: ratio to the transaction alone.
const RATIO_GOAL: f64 = 1.5;
/// Maximum time for a reply of a server, far more than the slowest one needs.
const REPLY_LIMIT: Duration = Duration::from_secs(120);

/// Goal on ovsdb-sim: ratio of 1 s to the time of ovsdb-server for the 32K transaction of `--bench
/// server`, 2.23 s, both on the machine on which the goal was set.
const CONNECT_GOAL_RATIO: f64 = 1.0 / 2.23;

/// Costs of one measurement.
#[derive(Clone, Copy, Debug)]
struct Figure {
    wall: Duration,
    own_cpu: Duration,
    server_cpu: Duration,
}

pub(crate) fn report() -> Result<()> {
    let size = ClusterSize::GOAL;
    let objects = size.connected_objects()?;
    let runtime = Runtime::new()?;
    println!(
        "\n{:<56} {:>10} {:>10} {:>10}  goal",
        "32,000 links through a unix socket, empty database", "time", "own CPU", "server CPU"
    );
    for kind in [ServerKind::Simulator, ServerKind::Real] {
        let name = kind.name();
        let [whole, live, alone, followed, unit] = best(kind, size, &objects, &runtime)?;
        let times = |unit: Figure| whole.wall.as_secs_f64() / unit.wall.as_secs_f64();
        let goal = match kind {
            ServerKind::Simulator => {
                let goal = format_goal(
                    whole.wall.as_secs_f64(),
                    CONNECT_GOAL.as_secs_f64(),
                    &format_duration(CONNECT_GOAL),
                );
                let ratio = times(unit);
                format!("{goal} ({ratio:.2} times the last line, goal {CONNECT_GOAL_RATIO:.2})")
            }
            ServerKind::Real | ServerKind::Newest => {
                let (ratio, followed) = (times(alone), times(followed));
                let goal = format_goal(ratio, RATIO_GOAL, &format!("{RATIO_GOAL} times"));
                format!(
                    "{goal} ({ratio:.2} times; {followed:.2} times the transaction with a monitor)"
                )
            }
        };
        line(&format!("{name}: plan, commit, visible in the replica"), whole, &goal);
        line(&format!("{name}: then, until the replica has been read again"), live, "");
        line(&format!("{name}: the same transaction alone"), alone, "");
        line(&format!("{name}: the same transaction, with a client that monitors"), followed, "");
        if matches!(kind, ServerKind::Simulator) {
            line("ovsdb-server: the 32K transaction of --bench server", unit, "");
        }
    }
    Ok(())
}

fn line(name: &str, figure: Figure, goal: &str) {
    println!(
        "{name:<56} {:>10} {:>10} {:>10}  {goal}",
        format_duration(figure.wall),
        format_duration(figure.own_cpu),
        format_duration(figure.server_cpu)
    );
}

/// Returns the best figures of: the whole pass, reading the replica again, the transaction alone,
/// the transaction with a monitoring client, and the reference transaction of the goal. They take
/// turns, so that a slow phase of the machine affects all of them.
fn best(
    kind: ServerKind,
    size: ClusterSize,
    objects: &ZoneObjects,
    runtime: &Runtime,
) -> Result<[Figure; 5]> {
    let unit = northbound::router_transaction(1, size.links());
    let round = || {
        let (whole, live) = measure_pass(kind, size, objects, runtime)?;
        let transaction = |readers| measure_transaction(kind, size, objects, runtime, readers);
        let (alone, followed) = (transaction(Readers::None)?, transaction(Readers::One)?);
        let unit = match kind {
            ServerKind::Simulator => {
                send(&Server::start(ServerKind::Real)?, &unit, Readers::None, runtime)?
            }
            ServerKind::Real | ServerKind::Newest => alone,
        };
        anyhow::Ok([whole, live, alone, followed, unit])
    };
    let mut best = round()?;
    for _ in 1..ROUNDS {
        for (best, figure) in best.iter_mut().zip(round()?) {
            if figure.wall < best.wall {
                *best = figure;
            }
        }
    }
    Ok(best)
}

/// Measures a pass from a replica with the prerequisites to a committed plan that the replica
/// shows. The second figure is the time until the replica has been read again, because the client
/// had no monitor meanwhile.
fn measure_pass(
    kind: ServerKind,
    size: ClusterSize,
    objects: &ZoneObjects,
    runtime: &Runtime,
) -> Result<(Figure, Figure)> {
    let server = Server::start(kind)?;
    runtime.block_on(async {
        let mut remote = open_prepared(&server, size).await?;
        let whole = measure_work(&server, async || {
            let transaction = plan(objects, &remote)?;
            remote.commit(transaction).await?;
            let seen = remote.snapshot().typed::<LogicalRouterPort>().len();
            ensure!(seen >= size.links(), "the replica shows {seen} ports");
            Ok(())
        })
        .await?;
        let live = measure_work(&server, async || Ok(remote.wait_until_live().await?)).await?;
        Ok((whole, live))
    })
}

/// Clients besides the writing one.
#[derive(Clone, Copy, Debug)]
enum Readers {
    None,
    /// A client that monitors the tables, as the controller does, and drops the updates.
    One,
}

/// Measures the transaction alone, from the first byte sent until all clients have their messages.
fn measure_transaction(
    kind: ServerKind,
    size: ClusterSize,
    objects: &ZoneObjects,
    runtime: &Runtime,
    readers: Readers,
) -> Result<Figure> {
    let server = Server::start(kind)?;
    let remote = runtime.block_on(open_prepared(&server, size))?;
    let mut request = br#"{"id":1,"method":"transact","params":"#.to_vec();
    plan(objects, &remote)?.write_params(&mut request);
    request.push(b'}');
    let request = String::from_utf8(request)?;
    drop(remote);
    send(&server, &request, readers, runtime)
}

fn send(server: &Server, request: &str, readers: Readers, runtime: &Runtime) -> Result<Figure> {
    let mut client = RawClient::connect(server.socket())?;
    let reader = match readers {
        Readers::None => None,
        Readers::One => {
            let mut reader = RawClient::connect(server.socket())?;
            reader.call(&northbound::monitor_request(1))?;
            Some(thread::spawn(move || reader.skip_message()))
        }
    };
    runtime.block_on(measure_work(server, async || {
        let reply = client.call(request)?;
        ensure!(!reply.contains("\"details\""), "{reply}");
        if let Some(reader) = reader {
            let skipped = reader.join();
            skipped.map_err(|_| anyhow!("the reader panicked"))??;
        }
        Ok(())
    }))
}

async fn measure_work(server: &Server, work: impl AsyncFnOnce() -> Result<()>) -> Result<Figure> {
    let own = std::process::id();
    let (own_before, server_before) = (cpu_time(own)?, server.cpu_time()?);
    let started = Instant::now();
    work().await?;
    Ok(Figure {
        wall: started.elapsed(),
        own_cpu: cpu_time(own)?.saturating_sub(own_before),
        server_cpu: server.cpu_time()?.saturating_sub(server_before),
    })
}

/// Returns a replica of a server with the prerequisites.
async fn open_prepared(server: &Server, size: ClusterSize) -> Result<Remote> {
    let mut remote = Remote::open(&server.remote(), None, REPLY_LIMIT).await?;
    let prerequisites = size.prerequisites(&remote.snapshot())?;
    remote.commit(prerequisites).await?;
    Ok(remote)
}

/// Returns the only transaction of a new controller.
fn plan(objects: &ZoneObjects, remote: &Remote) -> Result<Transaction> {
    let plan = ZoneController::default().plan(objects, &remote.snapshot());
    let connect = plan.connects.into_iter().next().context("a connect")?;
    let report = connect.report.context("a report")?;
    ensure!(report.is_complete(), "{:?}", report.messages());
    let change = connect.change?;
    ensure!(!change.more, "the transaction is cut");
    change.transaction.context("nothing to do")
}
