//! Pages about small databases: their data, and its bounds.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_reach::{Course, Northbound, Protocol, RowRef, Zones};
use patchbay_report::{MAX_ASKED, MAX_DETAILED, Report, Words};
use patchbay_schemas::nb::{self, LogicalRouter, LogicalSwitch, LogicalSwitchPort};
use serde_json::Value;

struct Plain;

impl Words for Plain {
    fn outcome(&self, course: &Course) -> String {
        course.last().verdict.to_string()
    }

    fn owner(&self, _: (&str, RowRef)) -> Option<String> {
        None
    }
}

/// A database of switches with two machines each, and the router of a connect without networks.
fn switches(names: &[String]) -> Snapshot {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    for name in names {
        let ports: BTreeSet<_> = (1..3)
            .map(|number| {
                txn.insert(&LogicalSwitchPort {
                    name: format!("{name}-{number}"),
                    addresses: [format!("0a:00:00:00:00:0{number} 10.0.0.{number}")].into(),
                    ..Default::default()
                })
                .unwrap()
            })
            .collect();
        txn.insert(&LogicalSwitch { name: name.clone(), ports, ..Default::default() }).unwrap();
    }
    let options = [("requested-tnl-key".to_owned(), "7".to_owned())].into();
    let router = LogicalRouter { name: "connect_router_c".into(), options, ..Default::default() };
    txn.insert(&router).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    database.snapshot()
}

/// The page, and its data.
fn page(snapshot: Snapshot) -> (String, Value) {
    let zones = Zones::new("z", Northbound::new(&snapshot, None));
    let snapshots = BTreeMap::from([("z".to_owned(), snapshot)]);
    let report = Report::new("a <b>", (&zones, &snapshots), Vec::new(), Protocol::Icmp, &Plain);
    let page = report.page().unwrap();
    assert_eq!(page, report.page().unwrap());
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    (page, data)
}

#[test]
fn names_are_data_of_the_page() {
    let hostile = "</script><script>alert(1)</script>&".to_owned();
    let (page, data) = page(switches(&[hostile.clone(), "plain".to_owned()]));
    assert!(!page.contains("alert(1)</script>"), "{page}");
    assert!(page.contains("<title>a &lt;b&gt;</title>"));
    assert_eq!(data["pairs"][0]["names"], Value::from(vec![hostile, "plain".to_owned()]));
    let connect = &data["connects"][0];
    assert_eq!((&connect["name"], &connect["key"]), (&"c".into(), &"7".into()));
    assert_eq!(connect["reasons"][0], "no network is linked to its router");
}

#[test]
fn pairs_of_many_networks_are_bounded() {
    let names: Vec<String> = (0..MAX_ASKED + 3).map(|number| format!("s{number}")).collect();
    let (_, data) = page(switches(&names));
    let networks = &data["pairs"][0];
    assert_eq!(networks["leftOut"], 3);
    assert_eq!(networks["names"].as_array().unwrap().len(), MAX_ASKED);
    assert_eq!(networks["cells"].as_array().unwrap().len(), MAX_ASKED * MAX_ASKED);
}

#[test]
fn pairs_have_their_decisions_up_to_a_number_of_networks() {
    for (count, has_decisions) in [(2, true), (MAX_DETAILED + 1, false)] {
        let names: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
        let (_, data) = page(switches(&names));
        let networks = &data["pairs"][0];
        assert_eq!(networks["isDetailed"], has_decisions);
        let cells = networks["cells"].as_array().unwrap();
        assert_eq!(cells.len(), count * count);
        assert_eq!(
            (&cells[0][0], cells[0][7] != Value::Array(Vec::new())),
            (&0.into(), has_decisions)
        );
        // The two machines of another switch are out of reach.
        assert_eq!(cells[1][0], 3);
    }
}
