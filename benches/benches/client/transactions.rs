//! Transactions of Patchbay's client: building and encoding a large one, and committing small ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::northbound;
use patchbay_benches::process::{self, Server, ServerKind};
use patchbay_engine::client::{Client, Config, Pipelining};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{
    self, AddressSet, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute,
};

use super::{PORTS, ROUNDS};

/// Number of small transactions on one connection.
const SMALL_TRANSACTIONS: usize = 40_000;
/// Small transactions in flight at once.
const IN_FLIGHT: usize = 256;

/// Measures and prints both kinds.
pub(crate) fn report() -> Result<()> {
    measure_large()?;
    println!(
        "{SMALL_TRANSACTIONS} small typed transactions on one connection, {IN_FLIGHT} in flight"
    );
    let ways = [("separate", Pipelining::default()), ("coalesced", Pipelining::coalesced())];
    for kind in [ServerKind::Real, ServerKind::Simulator] {
        for (way, pipelining) in ways {
            let mut best = [0.0, f64::INFINITY, f64::INFINITY];
            for _ in 0..ROUNDS {
                let [rate, own, servers] = measure_small(kind, pipelining)?;
                best = [best[0].max(rate), best[1].min(own), best[2].min(servers)];
            }
            let [rate, own, servers] = best;
            println!(
                "  {:<14} {way:<12} {rate:>8.0} /s; CPU for each: client {own:.1} us, server {servers:.1} us",
                kind.name()
            );
        }
    }
    Ok(())
}

/// Measures the 32K transaction from typed rows.
fn measure_large() -> Result<()> {
    let snapshot = Snapshot::empty(nb::schema());
    let ports: Vec<LogicalRouterPort> = (0..PORTS).map(port).collect();
    let routes: Vec<LogicalRouterStaticRoute> = (0..PORTS).map(route).collect();
    let mut best = [f64::INFINITY; 2];
    let mut len = 0;
    for _ in 0..2 * ROUNDS {
        let begin = Instant::now();
        let mut txn = TxnBuilder::new(&snapshot);
        let router = LogicalRouter {
            name: "connect_router_connect".into(),
            ports: ports.iter().map(|port| txn.insert(port)).collect::<Result<_, _>>()?,
            static_routes: routes
                .iter()
                .map(|route| txn.insert(route))
                .collect::<Result<_, _>>()?,
            ..Default::default()
        };
        txn.insert(&router)?;
        let txn = txn.finish();
        let built = begin.elapsed().as_secs_f64();
        let mut out = Vec::new();
        txn.write_params(&mut out);
        let encoded = begin.elapsed().as_secs_f64() - built;
        best = [best[0].min(built), best[1].min(encoded)];
        len = out.len();
    }
    println!(
        "The 32K transaction from typed rows: built in {:.3} s, encoded in {:.3} s ({:.1} MB)",
        best[0],
        best[1],
        len as f64 / 1e6
    );
    Ok(())
}

/// Returns the transactions per second, and the microseconds of client and server CPU of each.
fn measure_small(kind: ServerKind, pipelining: Pipelining) -> Result<[f64; 3]> {
    let server = Server::start(kind)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let figures = runtime.block_on(async {
        let mut config =
            Config::new(server.remote().parse()?, "OVN_Northbound").with_table::<AddressSet>();
        config.pipelining = pipelining;
        let client = Client::connect(config).await?;
        let cpu = || process::cpu_time(std::process::id());
        let (own, servers, begin) = (cpu()?, server.cpu_time()?, Instant::now());
        let tasks: Vec<_> = (0..IN_FLIGHT)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    for number in (task..SMALL_TRANSACTIONS).step_by(IN_FLIGHT) {
                        let mut txn = TxnBuilder::new(&client.snapshot());
                        txn.insert(&address_set(number))?;
                        client.transact(txn.finish()).await.into_result()?;
                    }
                    Ok::<_, anyhow::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        let wall = begin.elapsed().as_secs_f64();
        let for_each = |seconds: f64| seconds * 1e6 / SMALL_TRANSACTIONS as f64;
        let own = cpu()?.saturating_sub(own).as_secs_f64();
        let servers = server.cpu_time()?.saturating_sub(servers).as_secs_f64();
        let rows = client.snapshot().typed::<AddressSet>().len();
        ensure!(rows == SMALL_TRANSACTIONS, "the replica shows {rows} rows");
        Ok::<_, anyhow::Error>([SMALL_TRANSACTIONS as f64 / wall, for_each(own), for_each(servers)])
    })?;
    let mut plain = patchbay_benches::client::RawClient::connect(server.socket())?;
    northbound::ensure_rows(&mut plain, "Address_Set", SMALL_TRANSACTIONS)
        .context("after typed transactions")?;
    Ok(figures)
}

fn address_set(number: usize) -> AddressSet {
    AddressSet {
        name: format!("as{number}"),
        addresses: BTreeSet::from(["10.0.0.1", "10.0.0.2"].map(String::from)),
        external_ids: map([("owner", "bench"), ("number", &number.to_string())]),
        ..Default::default()
    }
}

fn port(i: usize) -> LogicalRouterPort {
    let (network, node) = (i / 2000 + 1, i % 2000 + 2);
    LogicalRouterPort {
        name: format!("crtor-connect_cluster_udn_net{network}_node{node}"),
        mac: northbound::port_mac(i),
        networks: [format!("192.168.{}.{}/31", i / 128 % 256, i % 128 * 2)].into(),
        options: map([
            ("requested-chassis", &format!("11f6f9b9-82ef-5507-b6b6-{node:012x}")),
            ("requested-tnl-key", &(i % 32767 + 1).to_string()),
        ]),
        external_ids: external_ids(network, node),
        ..Default::default()
    }
}

fn route(i: usize) -> LogicalRouterStaticRoute {
    let (network, node) = (i / 2000 + 1, i % 2000 + 2);
    LogicalRouterStaticRoute {
        ip_prefix: format!("10.{network}.{}.0/24", node % 256),
        nexthop: format!("192.168.{network}.{}", node % 128 * 2 + 1),
        ..Default::default()
    }
}

fn external_ids(network: usize, node: usize) -> BTreeMap<String, String> {
    let controller = "ovnkube-network-connect-controller";
    let router = "connect_router_connect";
    let id = format!("{controller}:ClusterNetworkConnect:connect:{network}:{node}:{router}");
    map([
        ("k8s.ovn.org/id", &id),
        ("k8s.ovn.org/name", "connect"),
        ("k8s.ovn.org/owner-controller", controller),
        ("k8s.ovn.org/owner-type", "ClusterNetworkConnect"),
        ("network-id", &network.to_string()),
        ("node-id", &node.to_string()),
        ("router-name", router),
    ])
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
