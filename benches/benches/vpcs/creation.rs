//! Tenants from nothing.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::process::{Server, ServerKind};
use patchbay_benches::stopwatch::Stopwatch;
use patchbay_benches::text::{format_duration, growth_exponent};
use patchbay_benches::vpcs::{
    Committed, MACHINES, SERVER_LIMIT, complete, one_transaction, read_objects, render_tenants,
};
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _, Remote};
use tokio::runtime::Runtime;

use crate::{ALLOCATOR, print_line, reconciler, sizes};

/// Figures of a number of tenants.
struct Creation {
    read: Duration,
    complete: Duration,
    first: Duration,
    unchanged: Duration,
    committed: Committed,
    /// Live bytes of the objects, and of the reconciler with its database.
    objects: usize,
    rows: usize,
    server: ServerFigures,
}

/// CPU time with ovsdb-server.
struct ServerFigures {
    client: Duration,
    server: Duration,
    /// The same rows in one transaction.
    at_once: Duration,
}

pub(crate) fn report() -> Result<()> {
    let sizes = sizes();
    let all = sizes.iter().map(|count| measure(*count)).collect::<Result<Vec<_>>>()?;
    let texts = |cell: &dyn Fn(&Creation) -> String| all.iter().map(cell).collect::<Vec<_>>();
    let head: Vec<_> = sizes.iter().map(usize::to_string).collect();
    print_line("\ntenants from nothing; database in this process", &head);
    let times = |name: &str, time: &dyn Fn(&Creation) -> Duration| {
        let points =
            sizes.iter().zip(&all).map(|(count, own)| (*count as f64, time(own).as_secs_f64()));
        let exponent = growth_exponent(&points.collect::<Vec<_>>());
        let mut cells = texts(&|own| format_duration(time(own)));
        cells.push(exponent.map_or_else(String::new, |exponent| format!("{exponent:.2}")));
        print_line(name, &cells);
    };
    times("manifests to objects", &|own| own.read);
    times("objects with addresses and status", &|own| own.complete);
    times("rows, first pass", &|own| own.first);
    times("rows, pass without changes", &|own| own.unchanged);
    let of_tenant = |count: &usize, own: &Creation| {
        let each = own.committed.transactions as f64 / *count as f64;
        format!("{:.2}", each - MACHINES as f64)
    };
    let each: Vec<_> = sizes.iter().zip(&all).map(|(count, own)| of_tenant(count, own)).collect();
    print_line("transactions of a tenant, beside those of machines", &each);
    let per_tenant = |bytes: &dyn Fn(&Creation) -> usize| {
        let each = sizes.iter().zip(&all).map(|(count, own)| bytes(own) / count);
        each.map(|bytes| format!("{:.1} KB", bytes as f64 / 1e3)).collect::<Vec<_>>()
    };
    print_line("requests of a tenant", &per_tenant(&|own| own.committed.bytes));
    print_line("memory of a tenant: objects", &per_tenant(&|own| own.objects));
    print_line("memory of a tenant: reconciler and database", &per_tenant(&|own| own.rows));
    times("with ovsdb-server: first pass", &|own| own.server.client);
    times("with ovsdb-server: the server meanwhile", &|own| own.server.server);
    times("with ovsdb-server: the server, one transaction", &|own| own.server.at_once);
    let ratio = |own: &Creation| {
        let ratio = own.server.client.as_secs_f64() / own.server.at_once.as_secs_f64();
        format!("{ratio:.2}")
    };
    print_line("first pass, in times of the server's one transaction", &texts(&ratio));
    Ok(())
}

fn measure(count: usize) -> Result<Creation> {
    let runtime = Runtime::new()?;
    let yaml = render_tenants(count);
    let empty = ALLOCATOR.allocated();
    let watch = Stopwatch::start()?;
    let objects = read_objects(&yaml)?;
    let read = watch.stop()?;
    let watch = Stopwatch::start()?;
    let cluster = complete(objects)?;
    let complete = watch.stop()?;
    ensure!(cluster.errors.is_empty(), "{:?}", cluster.errors.first());
    ensure!(cluster.warnings.is_empty(), "{:?}", cluster.warnings.first());
    let with_objects = ALLOCATOR.allocated();
    let mut zone = reconciler(Embedded::new(1)?);
    let watch = Stopwatch::start()?;
    runtime.block_on(zone.reconcile(&cluster))?;
    let first = watch.stop()?;
    let committed = zone.northbound().committed;
    let with_rows = ALLOCATOR.allocated();
    let watch = Stopwatch::start()?;
    runtime.block_on(zone.reconcile(&cluster))?;
    let unchanged = watch.stop()?;
    let after = zone.northbound().committed.transactions;
    ensure!(after == committed.transactions, "a second pass commits");
    let rows = zone.northbound().snapshot();
    let server = with_server(&runtime, &cluster, &rows)?;
    Ok(Creation {
        read,
        complete,
        first,
        unchanged,
        committed,
        objects: with_objects.saturating_sub(empty),
        rows: with_rows.saturating_sub(with_objects),
        server,
    })
}

/// Writes the rows to ovsdb-server: in a pass, and to another server in one transaction.
fn with_server(runtime: &Runtime, cluster: &Cluster, rows: &Snapshot) -> Result<ServerFigures> {
    let server = Server::start(ServerKind::Real)?;
    let remote = runtime.block_on(Remote::open(&server.remote(), None, SERVER_LIMIT))?;
    let mut zone = reconciler(remote);
    let before = server.cpu_time()?;
    let watch = Stopwatch::start()?;
    runtime.block_on(zone.reconcile(cluster))?;
    let client = watch.stop()?;
    let during = server.cpu_time()?.saturating_sub(before);
    let other = Server::start(ServerKind::Real)?;
    let mut remote = runtime.block_on(Remote::open(&other.remote(), None, SERVER_LIMIT))?;
    let transaction = one_transaction(rows, &remote.snapshot()).context("one transaction")?;
    let before = other.cpu_time()?;
    runtime.block_on(remote.commit(transaction))?;
    let at_once = other.cpu_time()?.saturating_sub(before);
    Ok(ServerFigures { client, server: during, at_once })
}
