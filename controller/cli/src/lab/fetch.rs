//! `patchbay lab fetch`: a release of OVN and Open vSwitch in a folder.

use std::path::PathBuf;

use patchbay_lab::Release;
use patchbay_ovn_programs::{Cancellation, FetchError, fetch as fetch_release};
use tokio::task::block_in_place;

use super::args::Fetch;
use crate::console::Console;
use crate::failure::Failure;
use crate::stop::Stop;

/// Fetches a release, with its progress on standard error, and prints its versions. A signal ends
/// it, and nothing stays.
pub(super) fn fetch(arguments: &Fetch, console: &mut Console<'_>) -> Result<(), Failure> {
    let suite = &arguments.suite;
    let folder = arguments.into.clone().unwrap_or_else(|| PathBuf::from(format!("ovn-{suite}")));
    let cancellation = Cancellation::default();
    let mut stop = Stop::with_hang_up()?;
    let cancelled = cancellation.clone();
    let listener = tokio::spawn(async move {
        stop.asked().await;
        cancelled.cancel();
    });
    let mut printed = Ok(());
    let fetched = block_in_place(|| {
        fetch_release(suite, &folder, &cancellation, |progress| {
            if printed.is_ok() {
                printed = writeln!(console.errors, "{progress}");
            }
        })
    });
    listener.abort();
    fetched.map_err(|error| match error {
        FetchError::Cancelled => Failure::Stopped,
        error => Failure::Lab(error.to_string()),
    })?;
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
