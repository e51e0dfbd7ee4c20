//! `patchbay lab fetch`: a release of OVN and Open vSwitch in a folder.

use std::path::PathBuf;

use patchbay_lab::Release;
use patchbay_releases::fetch as fetch_release;

use super::console::Console;
use super::failure::Failure;
use super::lab_args::Fetch;

/// Fetches a release, with its progress on standard error, and prints its versions.
pub(super) fn fetch(arguments: &Fetch, console: &mut Console<'_>) -> Result<(), Failure> {
    let suite = &arguments.suite;
    let folder = arguments.into.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(format!("ovn-{suite}")));
    let mut printed = Ok(());
    fetch_release(suite, &folder, |progress| {
        if printed.is_ok() {
            printed = writeln!(console.errors, "{progress}");
        }
    })
    .map_err(|error| Failure::Lab(error.to_string()))?;
    printed?;
    let release = Release::find(Some(&folder)).map_err(|error| Failure::Lab(error.to_string()))?;
    writeln!(
        console.output,
        "OVN {}, Open vSwitch {} in {folder}\nuse it with: patchbay lab --ovn {folder} -f PATH",
        release.ovn_version(),
        release.ovs_version(),
        folder = folder.display(),
    )?;
    Ok(())
}
