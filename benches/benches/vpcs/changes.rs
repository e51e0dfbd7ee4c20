//! Changes: one more machine, and another gateway node.

use std::time::Duration;

use anyhow::Result;
use patchbay_benches::stopwatch::Stopwatch;
use patchbay_benches::text::format_duration;
use patchbay_benches::vpcs::{
    Committed, MACHINES, complete, read_objects, render_machine, render_platform, render_tenant,
};
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use tokio::runtime::Runtime;

use crate::{print_line, reconciler};

/// Machines of the VPCs that get another one.
const VPC_MACHINES: [usize; 2] = [10, 10_000];
/// Tenants whose external ports follow the label of a node.
const RELABELLED: usize = 1_000;

/// Figures of a change.
struct Change {
    complete: Duration,
    pass: Duration,
    committed: Committed,
    before: Snapshot,
    after: Snapshot,
}

pub(crate) fn report() -> Result<()> {
    let runtime = Runtime::new()?;
    print_line("\nchanges; database in this process", &[]);
    for machines in VPC_MACHINES {
        let yaml = render_platform(&[0, 1]) + &render_tenant(0, machines);
        let change = measure(&runtime, &yaml, &(yaml.clone() + &render_machine(0, machines)))?;
        let name = format!("one machine more in a VPC of {machines}");
        change.print(&name);
    }
    let tenants: String = (0..RELABELLED).map(|number| render_tenant(number, MACHINES)).collect();
    let with = |gateways: &[usize]| render_platform(gateways) + &tenants;
    let change = measure(&runtime, &with(&[0, 1]), &with(&[0, 2]))?;
    change.print(&format!("another gateway node, {RELABELLED} external ports"));
    change.print_rows();
    Ok(())
}

/// Applies manifests, and then others.
fn measure(runtime: &Runtime, earlier: &str, later: &str) -> Result<Change> {
    let mut zone = reconciler(Embedded::new(1)?);
    let first = complete(read_objects(earlier)?)?;
    runtime.block_on(zone.reconcile(&first))?;
    let before = zone.northbound().snapshot();
    zone.northbound_mut().committed = Committed::default();
    let objects = read_objects(later)?;
    let watch = Stopwatch::start()?;
    let second = complete(objects)?;
    let complete = watch.stop()?;
    let watch = Stopwatch::start()?;
    runtime.block_on(zone.reconcile(&second))?;
    let pass = watch.stop()?;
    let committed = zone.northbound().committed;
    Ok(Change { complete, pass, committed, before, after: zone.northbound().snapshot() })
}

impl Change {
    fn print(&self, name: &str) {
        let Committed { transactions, bytes } = self.committed;
        print_line(
            name,
            &[
                format!("{} objects", format_duration(self.complete)),
                format!("{} rows", format_duration(self.pass)),
                format!("{transactions} txns"),
                format!("{bytes} bytes"),
            ],
        );
    }

    /// Prints the numbers of changed rows by table.
    fn print_rows(&self) {
        let schema = self.after.schema();
        for table in schema.table_ids() {
            let (old, new) = (self.before.table(table), self.after.table(table));
            let of_old = |uuid| old.get(uuid);
            let (mut inserted, mut changed) = (0, 0);
            for row in new.iter() {
                match of_old(row.uuid) {
                    None => inserted += 1,
                    Some(other) if other != row => changed += 1,
                    Some(_) => {}
                }
            }
            let deleted = old.iter().filter(|row| new.get(row.uuid).is_none()).count();
            if inserted + changed + deleted > 0 {
                let name = format!("  rows of {}", schema.table(table).name);
                let cells = [("inserted", inserted), ("changed", changed), ("deleted", deleted)];
                print_line(&name, &cells.map(|(what, count)| format!("{count} {what}")));
            }
        }
    }
}
