//! `lint` of tenants.

use anyhow::Result;
use patchbay_benches::stopwatch::Stopwatch;
use patchbay_benches::text::format_duration;
use patchbay_benches::vpcs::{read_objects, render_tenants};
use patchbay_lint::{Facts, lint};

use crate::{print_line, sizes};

pub(crate) fn report() -> Result<()> {
    let sizes = sizes();
    let head: Vec<_> = sizes.iter().map(usize::to_string).collect();
    print_line("\nlint", &head);
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for count in sizes {
        let objects = read_objects(&render_tenants(count))?;
        let watch = Stopwatch::start()?;
        let findings = lint(&objects, &Facts::default(), None);
        times.push(format_duration(watch.stop()?));
        counts.push(findings.findings.len().to_string());
    }
    print_line("findings of objects that are read", &times);
    print_line("  findings", &counts);
    Ok(())
}
