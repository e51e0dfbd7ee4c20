//! State of connections that ACLs ask for, behind a router.

use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_lab::{Lab, Protocol};
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, LogicalSwitch, PortGroup};

use crate::support::{ask_promised, cluster, connect, manifests, release};

/// Network of a switch in its external ids.
const NETWORK: &str = "k8s.ovn.org/network";

/// Leaves three ACLs at most: the blue switches track all packets, the green ones track them if
/// `green_tracks`, and the green ones drop what `dropped` matches on its way to a machine.
fn replace_acls(
    txn: &mut TxnBuilder,
    green_tracks: bool,
    dropped: &'static str,
) -> Result<(), BuildError> {
    let snapshot = txn.snapshot().clone();
    for (group, row) in snapshot.typed::<PortGroup>().iter().flatten() {
        txn.remove(group, PortGroup::ACLS, row.acls)?;
    }
    for (switch, row) in snapshot.typed::<LogicalSwitch>().iter().flatten() {
        txn.remove(switch, LogicalSwitch::ACLS, row.acls)?;
        txn.remove(switch, LogicalSwitch::LOAD_BALANCER, row.load_balancer)?;
        let groups = row.load_balancer_group;
        txn.remove(switch, LogicalSwitch::LOAD_BALANCER_GROUP, groups)?;
        let is_green = match row.external_ids.get(NETWORK).map(String::as_str) {
            Some("cluster_udn_blue") => false,
            Some("cluster_udn_green") => true,
            _ => continue,
        };
        if !is_green || green_tracks {
            let tracking = txn.insert(&Acl {
                action: AclAction::AllowRelated,
                direction: AclDirection::FromLport,
                r#match: "ip".to_owned(),
                priority: 1,
                ..Acl::default()
            })?;
            txn.add(switch, LogicalSwitch::ACLS, [tracking])?;
        }
        if is_green {
            let dropping = txn.insert(&Acl {
                action: AclAction::Drop,
                direction: AclDirection::ToLport,
                r#match: format!("ip4.dst == 10.2.0.0/16 && icmp4.type == 8 && {dropped}"),
                priority: 2,
                ..Acl::default()
            })?;
            txn.add(switch, LogicalSwitch::ACLS, [dropping])?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_does_not_track_sees_no_state_of_the_switch_before_the_router() {
    let Some(release) = release() else { return };
    let networks =
        manifests(&[("blue", "Layer3", "10.1.0.0/16"), ("green", "Layer3", "10.2.0.0/16")]);
    let connected = connect("c", &["blue", "green"], "192.168.0.0/16", "PodNetwork");
    let mut lab = Lab::start(release, &cluster(&(networks + &connected))).await.unwrap();
    for (green_tracks, dropped, passes) in [
        (false, "ct.new", true),
        (false, "!ct.trk", false),
        (true, "ct.new", false),
        (true, "!ct.trk", true),
    ] {
        let changed = lab.change_northbound("n1", |txn| replace_acls(txn, green_tracks, dropped));
        changed.await.unwrap();
        lab.sync().await.unwrap();
        let verdict = ask_promised(&lab, ("blue-1", "green-1"), Protocol::Icmp, passes).await;
        let is_reached = verdict.starts_with("reached");
        assert_eq!(is_reached, passes, "{green_tracks} {dropped}: {verdict}");
    }
}
