//! 32,000 ports from nothing through a unix socket: beside a goal on ovsdb-sim, and beside what the server takes for
//! that transaction alone on ovsdb-server, and while somebody follows.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, anyhow, ensure};
use patchbay_benches::client::Client;
use patchbay_benches::connect::Size;
use patchbay_benches::northbound;
use patchbay_benches::process::{Kind, Server, cpu};
use patchbay_controller::northbound::{Northbound as _, Remote};
use patchbay_controller::zone::{Inputs, ZoneController};
use patchbay_engine::txn::Transaction;
use patchbay_schemas::nb::LogicalRouterPort;
use tokio::runtime::Runtime;

use crate::changes::CONNECT_GOAL;
use crate::table::{against, time};

/// Each is done so often, and the best is shown.
const ROUNDS: usize = 4;
/// The goal on ovsdb-server, in times of what it takes for the transaction alone.
const RATIO_GOAL: f64 = 1.5;
/// The goal on ovsdb-sim, as on the machine that it is from: in times of what ovsdb-server took there for the 32K transaction
/// of `--bench server`, 2.23 s.
const CONNECT_GOAL_RATIO: f64 = 1.0 / 2.23;

/// What it took.
#[derive(Clone, Copy, Debug)]
struct Figure {
    wall: Duration,
    own_cpu: Duration,
    server_cpu: Duration,
}

pub(crate) fn report() -> Result<()> {
    let size = Size::GOAL;
    let inputs = size.connected_inputs()?;
    let runtime = Runtime::new()?;
    println!(
        "\n{:<56} {:>10} {:>10} {:>10}  goal",
        "32,000 ports from nothing, through a unix socket", "time", "own CPU", "its CPU"
    );
    for kind in [Kind::Simulator, Kind::Real] {
        let name = kind.name();
        let [whole, live, alone, followed, unit] = best(kind, size, &inputs, &runtime)?;
        let times = |unit: Figure| whole.wall.as_secs_f64() / unit.wall.as_secs_f64();
        let goal = match kind {
            Kind::Simulator => {
                let goal = CONNECT_GOAL.as_secs_f64();
                let goal = against(whole.wall.as_secs_f64(), goal, &time(CONNECT_GOAL));
                let ratio = times(unit);
                format!("{goal} ({ratio:.2} times the last line, goal {CONNECT_GOAL_RATIO:.2})")
            }
            Kind::Real => {
                let (ratio, followed) = (times(alone), times(followed));
                let goal = against(ratio, RATIO_GOAL, &format!("{RATIO_GOAL} times"));
                format!(
                    "{goal} ({ratio:.2} times; {followed:.2} times what it takes while a client follows)"
                )
            }
        };
        line(
            &format!("{name}: plan, commit, seen in the replica"),
            whole,
            &goal,
        );
        line(&format!("{name}: from then on, read anew"), live, "");
        line(&format!("{name}: that transaction alone"), alone, "");
        line(
            &format!("{name}: that, while a client follows"),
            followed,
            "",
        );
        if matches!(kind, Kind::Simulator) {
            line(
                "ovsdb-server: the 32K transaction of --bench server",
                unit,
                "",
            );
        }
    }
    Ok(())
}

fn line(name: &str, figure: Figure, goal: &str) {
    println!(
        "{name:<56} {:>10} {:>10} {:>10}  {goal}",
        time(figure.wall),
        time(figure.own_cpu),
        time(figure.server_cpu)
    );
}

/// The whole, what the client does afterwards, the transaction alone, the transaction while somebody follows, and the unit
/// of the goal. They take turns, so that a machine that is slow for a while is slow for all of them.
fn best(kind: Kind, size: Size, inputs: &Inputs, runtime: &Runtime) -> Result<[Figure; 5]> {
    let unit = northbound::router_transaction(1, size.ports());
    let round = || {
        let (whole, live) = whole(kind, size, inputs, runtime)?;
        let transaction = |readers| transaction(kind, size, inputs, runtime, readers);
        let (alone, followed) = (transaction(Readers::None)?, transaction(Readers::One)?);
        let unit = match kind {
            Kind::Simulator => send(&Server::start(Kind::Real)?, &unit, Readers::None, runtime)?,
            Kind::Real => alone,
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

/// From a replica of what others have written to a committed plan that is seen in it, and from there to a replica that
/// has been read anew, because nothing was followed meanwhile.
fn whole(kind: Kind, size: Size, inputs: &Inputs, runtime: &Runtime) -> Result<(Figure, Figure)> {
    let server = Server::start(kind)?;
    runtime.block_on(async {
        let mut remote = prepared(&server, size).await?;
        let whole = measured(&server, async || {
            let transaction = plan(inputs, &remote)?;
            remote.commit(transaction).await?;
            let seen = remote.snapshot().typed::<LogicalRouterPort>().len();
            ensure!(seen >= size.ports(), "the replica shows {seen} ports");
            Ok(())
        })
        .await?;
        let live = measured(&server, async || remote.live().await.map_err(Error::msg)).await?;
        Ok((whole, live))
    })
}

/// Who listens besides the client that writes.
#[derive(Clone, Copy, Debug)]
enum Readers {
    None,
    /// A client that follows the tables, as the controller does, and does nothing with what it is told.
    One,
}

/// What the server takes for that transaction, from the first byte sent until everybody has been told.
fn transaction(
    kind: Kind,
    size: Size,
    inputs: &Inputs,
    runtime: &Runtime,
    readers: Readers,
) -> Result<Figure> {
    let server = Server::start(kind)?;
    let remote = runtime.block_on(prepared(&server, size))?;
    let mut request = br#"{"id":1,"method":"transact","params":"#.to_vec();
    plan(inputs, &remote)?.write_params(&mut request);
    request.push(b'}');
    let request = String::from_utf8(request)?;
    drop(remote);
    send(&server, &request, readers, runtime)
}

fn send(server: &Server, request: &str, readers: Readers, runtime: &Runtime) -> Result<Figure> {
    let mut client = Client::connect(server.socket())?;
    let reader = match readers {
        Readers::None => None,
        Readers::One => {
            let mut reader = Client::connect(server.socket())?;
            reader.call(&northbound::monitor_request(1))?;
            Some(thread::spawn(move || reader.pass()))
        }
    };
    runtime.block_on(measured(server, async || {
        let reply = client.call(request)?;
        ensure!(!reply.contains("\"details\""), "{reply}");
        if let Some(reader) = reader {
            let told = reader.join();
            told.map_err(|_| anyhow!("the reader panicked"))??;
        }
        Ok(())
    }))
}

async fn measured(server: &Server, work: impl AsyncFnOnce() -> Result<()>) -> Result<Figure> {
    let own = std::process::id();
    let (own_before, server_before) = (cpu(own)?, server.cpu()?);
    let started = Instant::now();
    work().await?;
    Ok(Figure {
        wall: started.elapsed(),
        own_cpu: cpu(own)?.saturating_sub(own_before),
        server_cpu: server.cpu()?.saturating_sub(server_before),
    })
}

/// A replica of a server that has what others have written.
async fn prepared(server: &Server, size: Size) -> Result<Remote> {
    let mut remote = Remote::open(&server.remote(), None).await?;
    let surroundings = size.surroundings(&remote.snapshot())?;
    remote.commit(surroundings).await?;
    Ok(remote)
}

/// The one transaction of a controller that is new.
fn plan(inputs: &Inputs, remote: &Remote) -> Result<Transaction> {
    let plan = ZoneController::default().plan(inputs, &remote.snapshot());
    let connect = plan.connects.into_iter().next().context("a connect")?;
    let report = connect.report.context("a report")?;
    ensure!(report.is_complete(), "{:?}", report.messages());
    let change = connect.change?;
    ensure!(!change.more, "the transaction is cut");
    change.transaction.context("nothing to do")
}
