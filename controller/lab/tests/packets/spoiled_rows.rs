//! Rows that are spoiled one at a time: packets show each of them, and the diagnosis names it.

use std::net::IpAddr;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_lab::{CheckReport, Lab, Promises, Protocol};
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, AddressSet, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPolicyAction, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
    LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::typed::{Ref, TableRow};

use crate::support::{ask, ask_connected, cluster, connect, diagnose, manifests, release};

/// Option of datapaths and ports.
const KEY: &str = "requested-tnl-key";
/// Option of ports.
const CHASSIS: &str = "requested-chassis";
/// A key that no other row has.
const OTHER_KEY: (&str, &str) = (KEY, "4242");

type Built = Result<(), BuildError>;

/// A change of node n1's Northbound database, and a packet that it stops.
struct Spoiled {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    change: fn(&mut TxnBuilder) -> Built,
}

/// Applies a change to all rows of a table that are meant; there has to be one.
fn change_rows<T: TableRow>(
    txn: &mut TxnBuilder,
    is_meant: impl Fn(&T) -> bool,
    change: impl Fn(&mut TxnBuilder, Ref<T>, T) -> Built,
) -> Built {
    let snapshot = txn.snapshot().clone();
    let mut found = 0;
    for (row, value) in snapshot.typed::<T>().iter().flatten() {
        if is_meant(&value) {
            found += 1;
            change(txn, row, value)?;
        }
    }
    assert_ne!(found, 0, "no row of {} is meant", T::TABLE);
    Ok(())
}

/// Ports of the connect router to networks on a node.
fn is_connect_port(port: &LogicalRouterPort, node: &str) -> bool {
    port.name.starts_with("crtor-") && port.name.ends_with(node)
}

/// Ports of the networks' routers to the connect router.
fn is_network_port(port: &LogicalRouterPort) -> bool {
    let peer = port.peer.as_deref();
    peer.is_some_and(|peer| peer.starts_with("crtor-"))
}

/// The policies of connects.
fn is_connect_policy(policy: &LogicalRouterPolicy) -> bool {
    policy.priority > 9000
}

fn is_blue_1(port: &LogicalSwitchPort) -> bool {
    port.name.ends_with("_blue-1")
}

/// Ports of the layer3 networks' transit switches to n2.
fn is_transit_port(port: &LogicalSwitchPort) -> bool {
    port.name.contains("tstor-") && port.name.ends_with("n2")
}

fn is_remote_red(port: &LogicalSwitchPort) -> bool {
    port.name.ends_with("_red-2")
}

/// Drops all IP packets in a direction, on all switches.
fn insert_acl(txn: &mut TxnBuilder, direction: AclDirection) -> Built {
    change_rows(
        txn,
        |_: &LogicalSwitch| true,
        |txn, switch, _| {
            let acl = txn.insert(&Acl {
                action: AclAction::Drop,
                direction,
                r#match: "ip".to_owned(),
                priority: 32_000,
                ..Acl::default()
            })?;
            txn.add(switch, LogicalSwitch::ACLS, [acl])
        },
    )
}

/// Removes the ports of the port groups whose ACLs all allow packets.
fn empty_port_groups(txn: &mut TxnBuilder) -> Built {
    let snapshot = txn.snapshot().clone();
    let allows = |group: &PortGroup| {
        let mut acls = group.acls.iter().filter_map(|acl| snapshot.get(*acl).ok()?);
        !group.ports.is_empty() && acls.all(|acl| acl.action == AclAction::AllowRelated)
    };
    change_rows(txn, allows, |txn, group, value| txn.remove(group, PortGroup::PORTS, value.ports))
}

macro_rules! spoiled {
    ($($name:literal, $from:literal => $to:literal: |$txn:ident| $change:expr;)*) => {
        [$(Spoiled { name: $name, from: $from, to: $to, change: |$txn| $change }),*]
    };
}

#[rustfmt::skip]
const SPOILED: [Spoiled; 35] = spoiled! {
    "connect router without ports", "blue-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouter| r.name == "connect_router_c", |txn, r, v| txn.remove(r, LogicalRouter::PORTS, v.ports));
    "connect router without routes", "blue-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouter| r.name == "connect_router_c", |txn, r, v| txn.remove(r, LogicalRouter::STATIC_ROUTES, v.static_routes));
    "key of the connect router", "blue-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouter| r.name == "connect_router_c", |txn, r, _| txn.put(r, LogicalRouter::OPTIONS, [OTHER_KEY]));
    "connect router disabled", "blue-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouter| r.name == "connect_router_c", |txn, r, _| txn.set(r, LogicalRouter::ENABLED, Some(false)));
    "key of remote connect ports", "blue-1" => "green-2": |txn| change_rows(txn, |p: &LogicalRouterPort| is_connect_port(p, "_n2"), |txn, p, v| { let key = v.options[KEY].parse::<u32>().unwrap() + 1000; txn.put(p, LogicalRouterPort::OPTIONS, [(KEY, key.to_string())]) });
    "chassis of remote connect ports", "blue-1" => "green-2": |txn| change_rows(txn, |p: &LogicalRouterPort| is_connect_port(p, "_n2"), |txn, p, _| txn.put(p, LogicalRouterPort::OPTIONS, [(CHASSIS, "nobody")]));
    "remote connect ports without chassis", "blue-1" => "green-2": |txn| change_rows(txn, |p: &LogicalRouterPort| is_connect_port(p, "_n2"), |txn, p, _| txn.remove_keys(p, LogicalRouterPort::OPTIONS, [CHASSIS]));
    "peer of local connect ports", "blue-1" => "green-2": |txn| change_rows(txn, |p: &LogicalRouterPort| is_connect_port(p, "_n1"), |txn, p, _| txn.set(p, LogicalRouterPort::PEER, Some("nobody".to_owned())));
    "local connect ports disabled", "blue-1" => "green-2": |txn| change_rows(txn, |p: &LogicalRouterPort| is_connect_port(p, "_n1"), |txn, p, _| txn.set(p, LogicalRouterPort::ENABLED, Some(false)));
    "peer of network ports", "red-1" => "blue-2": |txn| change_rows(txn, is_network_port, |txn, p, _| txn.set(p, LogicalRouterPort::PEER, Some("nobody".to_owned())));
    "addresses of network ports", "blue-1" => "green-2": |txn| change_rows(txn, is_network_port, |txn, p, _| txn.set(p, LogicalRouterPort::NETWORKS, ["198.51.100.1/31".to_owned()].into()));
    "network ports disabled", "red-1" => "amber-2": |txn| change_rows(txn, is_network_port, |txn, p, _| txn.set(p, LogicalRouterPort::ENABLED, Some(false)));
    "routers without policies", "blue-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouter| !r.policies.is_empty(), |txn, r, v| txn.remove(r, LogicalRouter::POLICIES, v.policies));
    "action of policies", "blue-1" => "red-2": |txn| change_rows(txn, is_connect_policy, |txn, p, _| txn.set(p, LogicalRouterPolicy::ACTION, LogicalRouterPolicyAction::Drop));
    "match of policies", "blue-1" => "green-2": |txn| change_rows(txn, is_connect_policy, |txn, p, _| txn.set(p, LogicalRouterPolicy::MATCH, "ip4.dst == 198.51.100.0/24".to_owned()));
    "next hop of policies", "blue-1" => "green-2": |txn| change_rows(txn, is_connect_policy, |txn, p, _| txn.set(p, LogicalRouterPolicy::NEXTHOPS, ["198.51.100.9".to_owned()].into()));
    "a policy that drops", "green-1" => "blue-2": |txn| change_rows(txn, |r: &LogicalRouter| !r.policies.is_empty(), |txn, r, _| { let policy = txn.insert(&LogicalRouterPolicy { action: LogicalRouterPolicyAction::Drop, r#match: "ip".to_owned(), priority: 32_000, ..LogicalRouterPolicy::default() })?; txn.add(r, LogicalRouter::POLICIES, [policy]) });
    "next hop of connect routes", "blue-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouterStaticRoute| r.nexthop.starts_with("192.168."), |txn, r, _| txn.set(r, LogicalRouterStaticRoute::NEXTHOP, "198.51.100.9".to_owned()));
    "discarding connect routes", "green-1" => "blue-2": |txn| change_rows(txn, |r: &LogicalRouterStaticRoute| r.nexthop.starts_with("192.168."), |txn, r, _| txn.set(r, LogicalRouterStaticRoute::NEXTHOP, "discard".to_owned()));
    "prefix of connect routes", "red-1" => "green-2": |txn| change_rows(txn, |r: &LogicalRouterStaticRoute| r.nexthop.starts_with("192.168."), |txn, r, _| txn.set(r, LogicalRouterStaticRoute::IP_PREFIX, "198.51.100.0/24".to_owned()));
    "routers without routes", "blue-1" => "blue-2": |txn| change_rows(txn, |r: &LogicalRouter| r.name.ends_with("ovn_cluster_router"), |txn, r, v| txn.remove(r, LogicalRouter::STATIC_ROUTES, v.static_routes));
    "routers disabled", "blue-1" => "blue-2": |txn| change_rows(txn, |r: &LogicalRouter| r.name.ends_with("ovn_cluster_router"), |txn, r, _| txn.set(r, LogicalRouter::ENABLED, Some(false)));
    "gateway of pods disabled", "blue-1" => "blue-2": |txn| change_rows(txn, |p: &LogicalRouterPort| p.name.starts_with("rtos-"), |txn, p, _| txn.set(p, LogicalRouterPort::ENABLED, Some(false)));
    "chassis of transit ports", "blue-1" => "blue-2": |txn| change_rows(txn, is_transit_port, |txn, p, _| txn.put(p, LogicalSwitchPort::OPTIONS, [(CHASSIS, "nobody")]));
    "key of transit ports", "blue-1" => "blue-2": |txn| change_rows(txn, is_transit_port, |txn, p, _| txn.put(p, LogicalSwitchPort::OPTIONS, [OTHER_KEY]));
    "key of transit switches", "blue-1" => "blue-2": |txn| change_rows(txn, |s: &LogicalSwitch| s.name == "cluster_udn_blue_transit_switch", |txn, s, _| txn.put(s, LogicalSwitch::OTHER_CONFIG, [OTHER_KEY]));
    "port of a pod disabled", "blue-1" => "blue-2": |txn| change_rows(txn, is_blue_1, |txn, p, _| txn.set(p, LogicalSwitchPort::ENABLED, Some(false)));
    "port security of a pod", "blue-1" => "blue-2": |txn| change_rows(txn, is_blue_1, |txn, p, _| txn.set(p, LogicalSwitchPort::PORT_SECURITY, ["0a:58:00:00:00:01 198.51.100.7".to_owned()].into()));
    "addresses of a pod", "green-2" => "blue-1": |txn| change_rows(txn, is_blue_1, |txn, p, _| txn.set(p, LogicalSwitchPort::ADDRESSES, ["0a:58:00:00:00:01 198.51.100.7".to_owned()].into()));
    "ACL from ports", "blue-1" => "blue-2": |txn| insert_acl(txn, AclDirection::FromLport);
    "ACL to ports", "red-2" => "red-1": |txn| insert_acl(txn, AclDirection::ToLport);
    "port group of a policy without ports", "grey-2" => "grey-1": |txn| empty_port_groups(txn);
    "address set of a policy without addresses", "grey-2" => "grey-1": |txn| change_rows(txn, |s: &AddressSet| !s.addresses.is_empty(), |txn, s, v| txn.remove(s, AddressSet::ADDRESSES, v.addresses));
    "chassis of a remote pod", "red-1" => "red-2": |txn| change_rows(txn, is_remote_red, |txn, p, _| txn.put(p, LogicalSwitchPort::OPTIONS, [(CHASSIS, "nobody")]));
    "key of a remote pod", "red-1" => "red-2": |txn| change_rows(txn, is_remote_red, |txn, p, _| txn.put(p, LogicalSwitchPort::OPTIONS, [OTHER_KEY]));
};

/// Makes rows that are still there those of `before`, and removes what was added to switches and
/// routers. Rows that are gone come back by the next apply.
fn restore(txn: &mut TxnBuilder, before: &Snapshot) -> Built {
    let now = txn.snapshot().clone();
    for (row, value) in now.typed::<LogicalRouter>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            let added = value.policies.difference(&old.policies).copied();
            txn.remove(row, LogicalRouter::POLICIES, added)?;
            txn.set(row, LogicalRouter::ENABLED, old.enabled)?;
            txn.set(row, LogicalRouter::OPTIONS, old.options)?;
        }
    }
    for (row, value) in now.typed::<LogicalSwitch>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            let added = value.acls.difference(&old.acls).copied();
            txn.remove(row, LogicalSwitch::ACLS, added)?;
            txn.set(row, LogicalSwitch::OTHER_CONFIG, old.other_config)?;
        }
    }
    for (row, _) in now.typed::<LogicalRouterPort>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            txn.set(row, LogicalRouterPort::ENABLED, old.enabled)?;
            txn.set(row, LogicalRouterPort::PEER, old.peer)?;
            txn.set(row, LogicalRouterPort::NETWORKS, old.networks)?;
            txn.set(row, LogicalRouterPort::OPTIONS, old.options)?;
        }
    }
    for (row, _) in now.typed::<LogicalRouterPolicy>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            txn.set(row, LogicalRouterPolicy::ACTION, old.action)?;
            txn.set(row, LogicalRouterPolicy::MATCH, old.r#match)?;
            txn.set(row, LogicalRouterPolicy::NEXTHOPS, old.nexthops)?;
        }
    }
    for (row, _) in now.typed::<LogicalRouterStaticRoute>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            txn.set(row, LogicalRouterStaticRoute::IP_PREFIX, old.ip_prefix)?;
            txn.set(row, LogicalRouterStaticRoute::NEXTHOP, old.nexthop)?;
        }
    }
    for (row, _) in now.typed::<LogicalSwitchPort>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            txn.set(row, LogicalSwitchPort::ENABLED, old.enabled)?;
            txn.set(row, LogicalSwitchPort::ADDRESSES, old.addresses)?;
            txn.set(row, LogicalSwitchPort::PORT_SECURITY, old.port_security)?;
            txn.set(row, LogicalSwitchPort::OPTIONS, old.options)?;
        }
    }
    for (row, _) in now.typed::<PortGroup>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            txn.add(row, PortGroup::PORTS, old.ports)?;
        }
    }
    for (row, _) in now.typed::<AddressSet>().iter().flatten() {
        if let Ok(Some(old)) = before.get(row) {
            txn.add(row, AddressSet::ADDRESSES, old.addresses)?;
        }
    }
    Ok(())
}

/// Policy that lets pods of a namespace reach each other.
const POLICY: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: inside, namespace: grey}
spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
";

/// Networks of both topologies, all but one connected, which has a policy.
fn networks() -> String {
    let networks = manifests(&[
        ("blue", "Layer3", "10.1.0.0/16"),
        ("green", "Layer3", "10.2.0.0/16"),
        ("red", "Layer2", "10.3.0.0/16"),
        ("amber", "Layer2", "10.4.0.0/16"),
        ("grey", "Layer2", "10.5.0.0/16"),
    ]);
    let all = ["blue", "green", "red", "amber"];
    networks + &connect("c", &all, "192.168.0.0/16", "PodNetwork") + POLICY
}

/// Spoils rows of a lab one after the other.
async fn spoil(rows: &[Spoiled]) {
    let Some(release) = release() else { return };
    let cluster = cluster(&networks());
    let mut lab = Lab::start(release, &cluster).await.unwrap();
    let mut failures = Vec::new();
    for spoiled in rows {
        let Spoiled { name, from, to, .. } = spoiled;
        let before = lab.northbound("n1").unwrap();
        let verdict = ask_connected(&lab, from, to, Protocol::Icmp).await;
        if !verdict.starts_with("reached") {
            failures.push(format!("{name}: before: {verdict}"));
        }
        lab.change_northbound("n1", spoiled.change).await.unwrap();
        lab.sync().await.unwrap();
        let verdict = ask(&lab, from, to, Protocol::Icmp).await;
        if verdict.starts_with("reached") {
            failures.push(format!("{name}: packets do not show it"));
        }
        let diagnosis = diagnose(&lab, from, to, Protocol::Icmp).await;
        if diagnosis.obstacles().next().is_none() {
            failures.push(format!("{name}: {verdict}: {diagnosis}"));
        }
        let restored = lab.change_northbound("n1", |txn| restore(txn, &before));
        restored.await.unwrap();
        lab.apply(&cluster).await.unwrap();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_spoiled_connect_routers_and_the_diagnosis_names_them() {
    spoil(&SPOILED[..6]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_spoiled_ports_of_connects_and_the_diagnosis_names_them() {
    spoil(&SPOILED[6..12]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_spoiled_policies_and_the_diagnosis_names_them() {
    spoil(&SPOILED[12..17]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_spoiled_routes_and_the_diagnosis_names_them() {
    spoil(&SPOILED[17..22]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_spoiled_ports_of_pods_and_the_diagnosis_names_them() {
    spoil(&SPOILED[22..29]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_spoiled_acls_and_remote_pods_and_the_diagnosis_names_them() {
    spoil(&SPOILED[29..]).await;
}

/// Removes the ACLs that make switches track connections, and drops what is for an address: also the
/// answers of connections that it has begun.
fn drop_untracked(txn: &mut TxnBuilder, address: IpAddr) -> Built {
    let snapshot = txn.snapshot().clone();
    let is_stateful = |acl: &Ref<Acl>| {
        let acl = snapshot.get(*acl).ok().flatten();
        acl.is_some_and(|acl| acl.action == AclAction::AllowRelated)
    };
    for (group, value) in snapshot.typed::<PortGroup>().iter().flatten() {
        let acls = value.acls.into_iter().filter(is_stateful);
        txn.remove(group, PortGroup::ACLS, acls)?;
    }
    for (switch, value) in snapshot.typed::<LogicalSwitch>().iter().flatten() {
        let acls = value.acls.into_iter().filter(is_stateful);
        txn.remove(switch, LogicalSwitch::ACLS, acls)?;
        let acl = txn.insert(&Acl {
            action: AclAction::Drop,
            direction: AclDirection::ToLport,
            r#match: format!("ip4.dst == {address}"),
            priority: 32_000,
            ..Acl::default()
        })?;
        txn.add(switch, LogicalSwitch::ACLS, [acl])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_show_a_lost_answer_and_the_diagnosis_names_the_node_that_drops_it() {
    let Some(release) = release() else { return };
    let mut lab = Lab::start(release, &cluster(&networks())).await.unwrap();
    for (from, to) in [("blue-1", "blue-2"), ("red-1", "red-2")] {
        let name = lab.find_pod(from).unwrap();
        let pod = lab.pods().find(|pod| pod.name == name).unwrap();
        let address = pod.ips().next().unwrap();
        let verdict = ask_connected(&lab, from, to, Protocol::Icmp).await;
        assert!(verdict.starts_with("reached"), "{from} {to}: {verdict}");
        let change = |txn: &mut TxnBuilder| drop_untracked(txn, address);
        lab.change_northbound("n1", change).await.unwrap();
        lab.sync().await.unwrap();
        let verdict = ask(&lab, from, to, Protocol::Icmp).await;
        assert_eq!(verdict, "arrived, but the answer was lost", "{from} {to}");
        let diagnosis = diagnose(&lab, from, to, Protocol::Icmp).await;
        let nodes: Vec<&str> = diagnosis.obstacles().map(|(node, _)| node).collect();
        assert_eq!(nodes, ["n1"], "{from} {to}: {diagnosis}");
        let text = diagnosis.to_string();
        assert!(text.contains("reach on n1, answer: dropped: ACL "), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_agree_with_the_manifests() {
    let Some(release) = release() else { return };
    let cluster = cluster(&networks());
    let lab = Lab::start(release, &cluster).await.unwrap();
    let questions = lab.all_questions(&Promises::of(&cluster));
    assert_eq!(questions.len(), 15 * 14);
    let checked = lab.check(questions).await.unwrap();
    let report = CheckReport::new(&checked);
    assert_eq!(report.differences(), 0, "{}", report.to_text());
}
