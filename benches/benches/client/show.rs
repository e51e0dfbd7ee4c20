//! `patchbay show` and `patchbay ports` beside `ovn-nbctl show`, as whole commands.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use patchbay_benches::process::{ServerKind, run_measured, workspace_program};
use patchbay_ovn_programs::testing::program;

use super::{PORTS, ROUNDS, start_loaded};

/// Measures commands that print the 32K data.
pub(crate) fn report() -> Result<()> {
    println!(
        "Commands that print the 32K data of 64,001 rows: own CPU, and times that of ovn-nbctl"
    );
    let patchbay = workspace_program("patchbay")?;
    let nbctl = program("ovn-nbctl");
    for kind in [ServerKind::Real, ServerKind::Simulator] {
        let server = start_loaded(kind, PORTS)?.0;
        let remote = server.remote();
        let database = format!("--db={remote}");
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let commands = [
            ("ovn-nbctl show", &nbctl, words(&[&database, "--no-leader-only", "show"])),
            ("patchbay show --plain", &patchbay, words(&["show", "--plain", "--nb", &remote])),
            ("patchbay ports", &patchbay, words(&["ports", "--nb", &remote])),
            ("patchbay routes", &patchbay, words(&["routes", "--nb", &remote])),
        ];
        let mut peer = None;
        for (name, program, arguments) in &commands {
            let times = (0..ROUNDS).map(|_| {
                let mut command = Command::new(program);
                let (status, usage) = run_measured(command.args(arguments).stdout(Stdio::null()))?;
                ensure!(status.success(), "{command:?}: {status}");
                Ok(usage.cpu)
            });
            let times: Vec<Duration> = times.collect::<Result<_>>()?;
            let best = times.into_iter().min().context("there is a round")?.as_secs_f64();
            let ratio = best / *peer.get_or_insert(best);
            println!("  {:<14} {name:<24} {best:>8.3} s {ratio:>6.2} x", kind.name());
        }
    }
    Ok(())
}
