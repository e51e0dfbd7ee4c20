//! Compaction of files that have grown.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ovsdb_sim::{Model, Sim, SimBuilder};
use patchbay_engine::db::Snapshot;
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::nb::{self, LogicalSwitch};
use tokio::time::advance;

/// Time after the opening of a file before which it is not compacted.
const MIN_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Length of a name, a hundredth of 10 MiB.
const NAME_BYTES: usize = (10 << 20) / 100;
/// Number of transactions that each write a name and delete the former one.
const TRANSACTIONS: usize = 110;

/// Replaces the only switch by one with a long name.
fn replace_switch(sim: &Sim, number: usize) {
    let database = sim.database("OVN_Northbound").unwrap();
    let mut txn = database.txn();
    let snapshot = database.snapshot();
    for row in snapshot.typed::<LogicalSwitch>().iter() {
        txn.delete(row.unwrap().0).unwrap();
    }
    let switch =
        LogicalSwitch { name: format!("{number}{}", "x".repeat(NAME_BYTES)), ..Default::default() };
    txn.insert(&switch).unwrap();
    database.transact(&txn.finish()).unwrap();
}

fn len(file: &Path) -> u64 {
    fs::metadata(file).unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_file_that_has_doubled_is_compacted() {
    for model in [Model::Standalone, Model::Clustered] {
        let dir = ScratchDir::new();
        let file = dir.path().join("sim.db");
        let open = |builder: SimBuilder| builder.model(model).build().unwrap();
        let sim = open(Sim::builder().schema(nb::schema()).journal(&file));
        for number in 0..TRANSACTIONS {
            replace_switch(&sim, number);
        }
        let grown = len(&file);
        assert!(grown > 10 << 20);
        advance(MIN_INTERVAL).await;
        replace_switch(&sim, TRANSACTIONS);
        assert!(len(&file) < grown / 50, "{model:?}");

        // The file is as good as the former one, and not compacted again at once.
        for number in 0..TRANSACTIONS {
            replace_switch(&sim, number);
        }
        assert!(len(&file) > 10 << 20);
        let content = sim.database("OVN_Northbound").unwrap().snapshot();
        drop(sim);
        let sim = open(Sim::builder().database_file(&file));
        let read = sim.database("OVN_Northbound").unwrap().snapshot();
        let names = |snapshot: &Snapshot| {
            let switches = snapshot.typed::<LogicalSwitch>();
            switches.iter().map(|row| row.unwrap().1.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&read), names(&content));
    }
}
