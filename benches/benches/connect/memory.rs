//! Resident memory per link, in a process of its own.

use std::process::Command;

use anyhow::{Result, ensure};
use patchbay_benches::connect::{ClusterSize, ConnectZone};
use patchbay_benches::process::resident_bytes;
use patchbay_connects::ZoneController;

/// First argument of the measured process.
pub(crate) const SUBJECT: &str = "memory-subject";

/// Number of controllers that are measured together, because one alone remembers too little.
const CONTROLLERS: usize = 8;

pub(crate) fn report() -> Result<()> {
    println!("\nresident memory, 32,000 links");
    let status = Command::new(std::env::current_exe()?).arg(SUBJECT).status()?;
    ensure!(status.success(), "the measured process failed");
    Ok(())
}

/// Measures this process.
pub(crate) fn subject() -> Result<()> {
    let size = ClusterSize::GOAL;
    let ports = size.links() as f64;
    let mut before = resident_bytes(std::process::id())? as f64;
    let mut line = |name: &str, parts: usize| -> Result<()> {
        let now = resident_bytes(std::process::id())? as f64;
        let bytes = (now - before) / parts as f64;
        println!(
            "{name:<56} {:>7.1} MiB {:>7.0} bytes per link",
            bytes / f64::from(1 << 20),
            bytes / ports
        );
        before = now;
        Ok(())
    };
    let objects = size.connected_objects()?;
    line("objects of the controller: nodes, networks, the CNC", 1)?;
    let mut zone = ConnectZone::new(size, objects)?;
    zone.settle()?;
    line("database rows, the controller, and memory of planning", 1)?;
    let snapshot = zone.database.snapshot();
    let controllers: Vec<ZoneController> = (0..CONTROLLERS)
        .map(|_| {
            let mut controller = ZoneController::default();
            controller.plan(&zone.objects, &snapshot);
            controller
        })
        .collect();
    line("memory of one controller", controllers.len())
}
