//! Changed rows of two databases, and their objects.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, may stop a test")]

use std::collections::BTreeMap;

use patchbay_changes::{
    ChangeKind, Changes, Layout, Object, Snapshots, differing_rows, paired_rows, write_objects,
};
use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{self, Acl, LogicalSwitch, LogicalSwitchPort, PortGroup};

/// A switch of a network with these ports, and an ACL of a policy with this match.
fn database(ports: &[&str], acl: &str) -> Snapshot {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let rows: Vec<_> = ports
        .iter()
        .map(|name| {
            let port = LogicalSwitchPort { name: (*name).into(), ..Default::default() };
            txn.insert(&port).unwrap()
        })
        .collect();
    let network = [("k8s.ovn.org/network", "cluster_udn_red")];
    let external_ids = network.map(|(key, value)| (key.into(), value.into())).into();
    txn.insert(&LogicalSwitch {
        name: "red".into(),
        ports: rows.into_iter().collect(),
        external_ids,
        ..Default::default()
    })
    .unwrap();
    let policy = [("k8s.ovn.org/owner-type", "NetworkPolicy"), ("k8s.ovn.org/name", "shop:deny")];
    let rule = Acl {
        r#match: acl.into(),
        name: Some("shop_deny".into()),
        priority: 1001,
        external_ids: policy.map(|(key, value)| (key.into(), value.into())).into(),
        ..Default::default()
    };
    let acls = [txn.insert(&rule).unwrap()].into();
    txn.insert(&PortGroup { name: "group".into(), acls, ..Default::default() }).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    database.snapshot()
}

fn text(snapshots: Snapshots<'_>, rows: &[patchbay_engine::db::RowChange]) -> String {
    let mut changes = Changes::default();
    changes.add_zone("node-1", snapshots, rows);
    let layout = Layout { known: &BTreeMap::new(), paint: &|_, text| text.to_owned() };
    let mut output = Vec::new();
    write_objects(&mut output, &changes, &layout).unwrap();
    String::from_utf8(output).unwrap()
}

#[test]
fn rows_without_owners_are_of_the_rows_that_hold_them() {
    let (empty, full) = (Snapshot::empty(nb::schema()), database(&["p1", "p2"], "ip4"));
    let snapshots = Snapshots { before: &empty, after: &full };
    let rows = differing_rows(snapshots);
    let expected = "\
+ network red   1 switch, 2 ports

+ NetworkPolicy shop/deny   1 ACL

+ shared rows   1 port group
";
    assert_eq!(text(snapshots, &rows), expected);
    let snapshots = Snapshots { before: &full, after: &empty };
    let rows = differing_rows(snapshots);
    assert_eq!(text(snapshots, &rows), expected.replace('+', "-"));
}

#[test]
fn databases_with_other_uuids_and_equal_rows_do_not_differ() {
    let (one, other) = (database(&["p1", "p2"], "ip4"), database(&["p2", "p1"], "ip4"));
    let snapshots = Snapshots { before: &one, after: &other };
    assert_eq!(differing_rows(snapshots).len(), 10);
    assert!(paired_rows(snapshots).is_empty());
}

#[test]
fn rows_with_other_uuids_are_paired_by_name_and_object() {
    let (one, other) = (database(&["p1", "p2"], "ip4"), database(&["p1", "p3"], "ip6"));
    let snapshots = Snapshots { before: &one, after: &other };
    let rows = paired_rows(snapshots);
    let kinds: Vec<_> = rows.iter().map(ChangeKind::of).collect();
    let count = |kind| kinds.iter().filter(|known| **known == kind).count();
    // The switch has another port, and the ACL another match.
    assert_eq!([ChangeKind::Insert, ChangeKind::Change, ChangeKind::Delete].map(count), [1, 2, 1]);
    insta::assert_snapshot!(text(snapshots, &rows));
}

#[test]
fn all_objects_of_a_kind_but_the_first_ones_are_a_number() {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    for number in 10..1300 {
        let external_ids = [("k8s.ovn.org/network".to_owned(), format!("net-{number}"))].into();
        let name = format!("s{number}");
        txn.insert(&LogicalSwitch { name, external_ids, ..Default::default() }).unwrap();
    }
    database.transact(txn.finish().operations()).unwrap();
    let (before, after) = (Snapshot::empty(nb::schema()), database.snapshot());
    let snapshots = Snapshots { before: &before, after: &after };
    let printed = text(snapshots, &differing_rows(snapshots));
    assert_eq!(printed.lines().count(), 11, "{printed}");
    assert!(printed.ends_with("\n+ 1,280 more of kind network: 1,280 rows\n"), "{printed}");
    assert_eq!(Object::network("cluster_udn_red").to_string(), "network red");
}
