//! Rows that are spoiled one at a time: packets show each of them.

use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_lab::{CheckReport, Lab, Promises};
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitchPort};

use crate::support::{cluster, connect, manifests, release};

/// A change of node n1's Northbound database.
type Spoil = fn(&mut TxnBuilder) -> Result<(), BuildError>;

/// Removes the policies to connected networks.
fn remove_policies(txn: &mut TxnBuilder) -> Result<(), BuildError> {
    let snapshot = txn.snapshot().clone();
    for (router, row) in snapshot.typed::<LogicalRouter>().iter().flatten() {
        txn.remove(router, LogicalRouter::POLICIES, row.policies)?;
    }
    Ok(())
}

/// Removes the routes of the connect router.
fn remove_routes(txn: &mut TxnBuilder) -> Result<(), BuildError> {
    let snapshot = txn.snapshot().clone();
    let routers = snapshot.typed::<LogicalRouter>();
    for (router, row) in routers.iter().flatten() {
        if row.name == "connect_router_c" {
            txn.remove(router, LogicalRouter::STATIC_ROUTES, row.static_routes)?;
        }
    }
    Ok(())
}

/// Gives the connect router's ports to remote nodes a chassis that does not exist.
fn lose_chassis(txn: &mut TxnBuilder) -> Result<(), BuildError> {
    let snapshot = txn.snapshot().clone();
    for (port, row) in snapshot.typed::<LogicalRouterPort>().iter().flatten() {
        if row.options.contains_key("requested-chassis") {
            txn.put(
                port,
                LogicalRouterPort::OPTIONS,
                [("requested-chassis", "nobody")],
            )?;
        }
    }
    Ok(())
}

/// Disables a pod's port.
fn disable_port(txn: &mut TxnBuilder) -> Result<(), BuildError> {
    let snapshot = txn.snapshot().clone();
    for (port, row) in snapshot.typed::<LogicalSwitchPort>().iter().flatten() {
        if row.name.ends_with("blue-1") {
            txn.set(port, LogicalSwitchPort::ENABLED, Some(false))?;
        }
    }
    Ok(())
}

/// Number of answers of the lab that differ from the manifests.
async fn differences(lab: &Lab, promises: &Promises) -> usize {
    let checked = lab.check(lab.all_questions(promises)).await.unwrap();
    assert_eq!(checked.len(), 9 * 8);
    CheckReport::new(&checked).differences()
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_agree_with_the_manifests_until_a_row_is_spoiled() {
    let Some(release) = release() else { return };
    let text = manifests(&[
        ("blue", "Layer3", "10.1.0.0/16"),
        ("green", "Layer3", "10.2.0.0/16"),
        ("grey", "Layer2", "10.3.0.0/16"),
    ]) + &connect("c", &["blue", "green"], "192.168.0.0/16", "PodNetwork");
    let cluster = cluster(&text);
    let promises = Promises::of(&cluster);
    let spoils: [(&str, Spoil); 4] = [
        ("policies", remove_policies),
        ("routes", remove_routes),
        ("chassis", lose_chassis),
        ("port", disable_port),
    ];
    for (name, spoil) in spoils {
        let mut lab = Lab::start(release.clone(), &cluster).await.unwrap();
        assert_eq!(differences(&lab, &promises).await, 0, "{name}: before");
        lab.change_northbound("n1", spoil).unwrap();
        lab.sync().await.unwrap();
        assert_ne!(differences(&lab, &promises).await, 0, "{name}: after");
    }
}
