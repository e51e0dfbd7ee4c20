//! Cost of a page about 3 and about 300 networks, each a router with a switch of two
//! machines.
//!
//! `cargo bench -p patchbay-report --bench page` prints the figures.

use std::collections::BTreeMap;
use std::time::Instant;

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_reach::{Course, Northbound, Protocol, RowRef, Zones};
use patchbay_report::{Report, Words};
use patchbay_schemas::nb::{
    self, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort,
};

/// Numbers of networks.
const SIZES: [usize; 2] = [3, 300];

struct Plain;

impl Words for Plain {
    fn outcome(&self, course: &Course) -> String {
        course.last().verdict.to_string()
    }

    fn owner(&self, _: (&str, RowRef)) -> Option<String> {
        None
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("networks   index    contents    page    size");
    for networks in SIZES {
        let snapshot = database(networks)?;
        let begin = Instant::now();
        let zones = Zones::new("zone", Northbound::new(&snapshot, None));
        let index = milliseconds(begin);
        let rows = BTreeMap::from([("zone".to_owned(), snapshot)]);
        let asked = Instant::now();
        let report = Report::new("bench", (&zones, &rows), Vec::new(), Protocol::Icmp, &Plain);
        let contents = milliseconds(asked);
        let written = Instant::now();
        let bytes = report.page()?.len();
        let page = milliseconds(written);
        let size = bytes.div_ceil(1024);
        println!("{networks:8} {index:5.1} ms {contents:8.1} ms {page:5.1} ms {size:5} KiB");
    }
    Ok(())
}

/// Milliseconds since a moment.
fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// A database of networks.
fn database(networks: usize) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    for number in 0..networks {
        let [high, low] = [number / 250, number % 250];
        let mut ports = Vec::new();
        for machine in [2, 3] {
            ports.push(
                txn.insert(&LogicalSwitchPort {
                    name: format!("s{number}-{machine}"),
                    addresses: [format!(
                        "0a:00:0a:{high:02x}:{low:02x}:0{machine} 10.{high}.{low}.{machine}"
                    )]
                    .into(),
                    ..Default::default()
                })?,
            );
        }
        ports.push(txn.insert(&LogicalSwitchPort {
            name: format!("s{number}-r"),
            r#type: "router".into(),
            addresses: ["router".to_owned()].into(),
            options: [("router-port".to_owned(), format!("r{number}-s"))].into(),
            ..Default::default()
        })?);
        txn.insert(&LogicalSwitch {
            name: format!("s{number}"),
            ports: ports.into_iter().collect(),
            ..Default::default()
        })?;
        let port = txn.insert(&LogicalRouterPort {
            name: format!("r{number}-s"),
            mac: format!("0a:00:0a:{high:02x}:{low:02x}:01"),
            networks: [format!("10.{high}.{low}.1/24")].into(),
            ..Default::default()
        })?;
        let router = LogicalRouter {
            name: format!("r{number}"),
            ports: [port].into(),
            ..Default::default()
        };
        txn.insert(&router)?;
    }
    database.transact(txn.finish().operations())?;
    Ok(database.snapshot())
}
