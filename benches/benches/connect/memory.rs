//! Resident memory for each port, in a process that does nothing else.

use std::process::Command;

use anyhow::{Result, ensure};
use patchbay_benches::connect::{Size, Zone};
use patchbay_benches::process::resident;
use patchbay_controller::zone::ZoneController;

/// First argument of the process that is measured.
pub(crate) const SUBJECT: &str = "memory-subject";

/// What one controller remembers is little, so that several are measured at once.
const CONTROLLERS: usize = 8;

pub(crate) fn report() -> Result<()> {
    println!("\nresident memory, 32,000 ports (and as many routes)");
    let status = Command::new(std::env::current_exe()?)
        .arg(SUBJECT)
        .status()?;
    ensure!(status.success(), "the measured process failed");
    Ok(())
}

/// Measures this process.
pub(crate) fn subject() -> Result<()> {
    let size = Size::GOAL;
    let ports = size.ports() as f64;
    let mut before = resident(std::process::id())? as f64;
    let mut line = |name: &str, parts: usize| -> Result<()> {
        let now = resident(std::process::id())? as f64;
        let bytes = (now - before) / parts as f64;
        println!(
            "{name:<56} {:>7.1} MiB {:>7.0} bytes for each port",
            bytes / f64::from(1 << 20),
            bytes / ports
        );
        before = now;
        Ok(())
    };
    let inputs = size.connected_inputs()?;
    line(
        "what the controller is given: nodes, networks, the connect",
        1,
    )?;
    let mut zone = Zone::new(size, inputs)?;
    zone.settle()?;
    line(
        "rows in the database, the controller, and what planning took",
        1,
    )?;
    let snapshot = zone.database.snapshot();
    let controllers: Vec<ZoneController> = (0..CONTROLLERS)
        .map(|_| {
            let mut controller = ZoneController::default();
            controller.plan(&zone.inputs, &snapshot);
            controller
        })
        .collect();
    line("of this, what a controller remembers", controllers.len())
}
