//! Live bytes of each pod of a zone, counted by the allocator.

use anyhow::{Context as _, Result};

use super::ALLOCATOR;
use super::zone::{Zone, pod};

/// Live bytes of each pod.
pub(crate) struct Memory {
    pub(crate) inputs: usize,
    pub(crate) allocator: usize,
    pub(crate) controller: usize,
    /// Rows in the database, with what the other three share with them.
    pub(crate) rows: usize,
}

impl Memory {
    /// Bytes beside the rows in the database.
    pub(crate) fn beside_rows(&self) -> usize {
        self.inputs + self.allocator + self.controller
    }
}

/// Measures a zone with this many pods, which have their rows and are followed.
pub(crate) fn measure(count: usize) -> Result<Memory> {
    let mut zone = Zone::new()?;
    let empty = ALLOCATOR.allocated();
    let pods = (0..count).map(pod).collect::<Result<Vec<_>>>()?;
    let (_, change) = zone.add_pods(&pods)?;
    drop(pods);
    zone.commit(change)?;
    zone.plan_pods()?;
    let Zone { objects: inputs, allocator, pod_controller: controller, database, .. } = zone;
    let all = ALLOCATOR.allocated();
    drop(controller);
    let without_controller = ALLOCATOR.allocated();
    drop(allocator);
    let without_allocator = ALLOCATOR.allocated();
    drop(inputs);
    let rows = ALLOCATOR.allocated();
    drop(database);
    let of_each = |more: usize, less: usize| more.saturating_sub(less).checked_div(count);
    let each = |more, less| of_each(more, less).context("no pods");
    Ok(Memory {
        inputs: each(without_allocator, rows)?,
        allocator: each(without_controller, without_allocator)?,
        controller: each(all, without_controller)?,
        rows: each(rows, empty)?,
    })
}
