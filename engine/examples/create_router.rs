//! Makes a router with ports and routes in one transaction, and makes it so again: nothing is sent the second time.
//!
//! ```text
//! cargo run -p patchbay-engine --example create_router -- unix:/run/ovn/ovnnb_db.sock
//! ```
//!
//! Without a remote it shows itself on a simulator of its own.

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
        println!("the {attempt} time: {operations} operations");
    }
    let snapshot = client.snapshot();
    let index = snapshot.typed_index(&by_name)?;
    let (router, row) = index.one(ROUTER)?.ok_or("it was just made")?;
    println!("router {} ({router})", row.name);
    for port in &row.ports {
        let port = snapshot.get(*port)?.ok_or("a router holds its ports")?;
        println!("    port {} {} {:?}", port.name, port.mac, port.networks);
    }
    Ok(())
}

/// What is lacking of the router, its ports and its route.
fn router(
    client: &Client,
    by_name: &Index<LogicalRouter>,
    port_by_name: &Index<LogicalRouterPort>,
) -> Result<Transaction, BuildError> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    // What others have changed since the snapshot is not overwritten: the transaction is refused then.
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
    // Whatever else the router has, it keeps.
    let keep = ["static_routes", "nat", "policies", "external_ids"];
    let (router, _) = txn.upsert(by_name, &wanted, &keep)?;
    let snapshot = client.snapshot();
    let has_routes = snapshot
        .get(router)?
        .is_some_and(|router| !router.static_routes.is_empty());
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
