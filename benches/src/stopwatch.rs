//! Time of work in this process.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::cpu_time;

/// Shortest time that is measured as CPU time. The kernel's CPU clock advances with the scheduler's
/// ticks, so that below this the wall clock is more exact.
const CPU_TIME_MIN: Duration = Duration::from_millis(50);

/// Measures work in this process: its CPU time, or its wall-clock time if that is below 50 ms.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts measuring.
    ///
    /// # Errors
    /// The kernel does not report the CPU time of this process.
    pub fn start() -> Result<Self> {
        Ok(Self { cpu: cpu_time(std::process::id())?, wall: Instant::now() })
    }

    /// Returns the time since the start.
    ///
    /// # Errors
    /// The kernel does not report the CPU time of this process.
    pub fn stop(self) -> Result<Duration> {
        let wall = self.wall.elapsed();
        let cpu = cpu_time(std::process::id())?.saturating_sub(self.cpu);
        Ok(if wall < CPU_TIME_MIN { wall } else { cpu })
    }
}
