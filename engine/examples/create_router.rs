//! Inserts a router with ports and a route in one transaction. A second run changes nothing and
//! sends nothing.
//!
//! ```text
//! cargo run -p patchbay-engine --example create_router -- unix:/run/ovn/ovnnb_db.sock
//! ```
//!
//! Without a remote it starts a simulator.

use std::error::Error;

use ovsdb_sim::Sim;
use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Index;
use patchbay_engine::txn::{BuildError, Transaction, TxnBuilder};
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};

const ROUTER: &str = "example";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(remotes) = std::env::args().nth(1) {
        return create(&remotes).await;
    }
    let folder = tempfile::tempdir()?;
    let sim = Sim::builder().build()?;
    let socket = folder.path().join("nb.sock");
    let listener = sim.listen(&format!("punix:{}", socket.display())).await?;
    create(&listener.remote()).await
}

async fn create(remotes: &str) -> Result<(), Box<dyn Error>> {
    let by_name = Index::by(LogicalRouter::NAME);
    let port_by_name = Index::by(LogicalRouterPort::NAME).unique();
    let config = Config::new(remotes.parse()?, "OVN_Northbound")
        .with_table::<LogicalRouter>()
        .with_table::<LogicalRouterPort>()
        .with_table::<LogicalRouterStaticRoute>()
        .with_index(&by_name)
        .with_index(&port_by_name);
    let client = Client::connect(config).await?;
    for attempt in ["first", "second"] {
        let transaction = router(&client, &by_name, &port_by_name)?;
        let operations = transaction.operations().len();
        client.transact(transaction).await.into_result()?;
        println!("{attempt} transaction: {operations} operations");
    }
    let snapshot = client.snapshot();
    let index = snapshot.typed_index(&by_name)?;
    let (router, row) = index.one(ROUTER)?.ok_or("the router was just committed")?;
    println!("router {} ({router})", row.name);
    for port in &row.ports {
        let port = snapshot.get(*port)?.ok_or("a router holds its ports")?;
        println!("    port {} {} {:?}", port.name, port.mac, port.networks);
    }
    Ok(())
}

/// The transaction that inserts or updates the router, its ports and its route.
fn router(
    client: &Client,
    by_name: &Index<LogicalRouter>,
    port_by_name: &Index<LogicalRouterPort>,
) -> Result<Transaction, BuildError> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    // The server rejects the transaction if others have changed these rows since the snapshot.
    txn.guard_changes();
    let mut wanted = LogicalRouter {
        name: ROUTER.into(),
        options: [("always_learn_from_arp_request".into(), "false".into())].into(),
        ..Default::default()
    };
    for i in 1..=3 {
        let port = LogicalRouterPort {
            name: format!("{ROUTER}-port{i}"),
            mac: format!("0a:58:0a:00:00:0{i}"),
            networks: [format!("10.0.{i}.1/24")].into(),
            ..Default::default()
        };
        let (port, _) = txn.upsert(port_by_name, &port, &[])?;
        wanted.ports.insert(port);
    }
    // These columns of an existing router stay as they are.
    let keep = ["static_routes", "nat", "policies", "external_ids"];
    let (router, _) = txn.upsert(by_name, &wanted, &keep)?;
    let snapshot = client.snapshot();
    let has_routes = snapshot.get(router)?.is_some_and(|router| !router.static_routes.is_empty());
    if !has_routes {
        let route = txn.insert(&LogicalRouterStaticRoute {
            ip_prefix: "0.0.0.0/0".into(),
            nexthop: "10.0.1.254".into(),
            ..Default::default()
        })?;
        txn.add(router, LogicalRouter::STATIC_ROUTES, [route])?;
    }
    Ok(txn.finish())
}
