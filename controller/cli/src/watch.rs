//! `patchbay apply --watch`: applies after each change of a file and each resync of a database.

use std::collections::BTreeSet;
use std::time::Instant;

use patchbay_reconcile::northbound::OpenError;
use patchbay_resources::manifests::{Inventory, read_manifests_within};
use patchbay_resources::state::restore;

use super::apply::{ApplyRequest, ApplySession, ZoneEvent};
use super::args::Manifests;
use super::console::Console;
use super::failure::Failure;
use super::file_watcher::{FileWatcher, RETRY_DELAY};
use super::prune::Prune;
use super::state::{folder, lock};
use super::stop::Stop;

/// Applies the manifests after each change and each resync of a database, and retries failures,
/// until Ctrl-C or SIGTERM.
pub(super) async fn watch(
    manifests: &Manifests,
    prune: Prune,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    if manifests.paths.iter().any(|path| path.as_os_str() == "-") {
        let message = "--watch requires files or folders: standard input cannot be watched";
        return Err(Failure::Arguments(message.to_owned()));
    }
    let mut stop = Stop::new()?;
    let mut watcher = FileWatcher::new(&manifests.paths);
    let mut watched = WatchedApply::default();
    console.reported = Some(BTreeSet::new());
    loop {
        let result = tokio::select! {
            result = watched.apply(manifests, prune, console) => result,
            // Files of the state folder are replaced atomically, so an apply can be dropped
            // anywhere.
            () = stop.asked() => {
                writeln!(
                    console.errors,
                    "stopped during an apply; the next apply completes it"
                )?;
                return Ok(());
            }
        };
        let has_failed = match result {
            Ok(()) => {
                console.reported = Some(BTreeSet::new());
                false
            }
            // Errors in arguments are not retried.
            Err(
                failure @ (Failure::Arguments(_)
                | Failure::Open {
                    source: OpenError::Remote(_) | OpenError::NoFolder { .. },
                }),
            ) => {
                return Err(failure);
            }
            Err(failure) => {
                // A part of the transactions may be applied.
                watched.manifests = None;
                console.report_failure(&failure);
                console.report(&retry_message(&failure))?;
                true
            }
        };
        console.report_omitted_warnings()?;
        console.output.flush()?;
        let files_have_changed = tokio::select! {
            files_have_changed = watcher.wait_for_change(has_failed) => files_have_changed,
            event = watched.session.wait_for_event() => {
                if event == ZoneEvent::Removal {
                    // The rows follow from the time, too.
                    watched.manifests = None;
                }
                false
            }
            () = stop.asked() => return Ok(()),
        };
        if files_have_changed {
            console.reported = Some(BTreeSet::new());
        }
    }
}

/// Returns the line that follows a failure: whether the rows stay, and when the apply is retried.
fn retry_message(failure: &Failure) -> String {
    let stays = match failure {
        Failure::Zone { .. } | Failure::State(_) | Failure::Print { .. } | Failure::Io(_) => "",
        _ => "the applied rows stay; ",
    };
    let seconds = RETRY_DELAY.as_secs();
    format!("{stays}retrying on changes of files and every {seconds} s")
}

/// The open databases, and the manifests of the last apply.
#[derive(Default)]
struct WatchedApply {
    session: ApplySession,
    /// The manifests as they were read. `None`: nothing was applied, or the last apply failed.
    manifests: Option<Inventory>,
}

impl WatchedApply {
    /// Reads the manifests, and applies them unless the databases have their rows already.
    async fn apply(
        &mut self,
        manifests: &Manifests,
        prune: Prune,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        let inventory = read_manifests_within(
            &manifests.paths,
            console.input,
            manifests.input.manifest_limit.bytes(),
        )?;
        if self.manifests.as_ref() == Some(&inventory) && self.session.is_reconciled().await? {
            return Ok(());
        }
        let mut restored = inventory.clone();
        let state = folder(manifests.state.as_ref(), &manifests.paths)?;
        let _lock = lock(state.as_ref(), console).await?;
        match (&state, self.session.inventory()) {
            (Some(folder), _) => restore(&mut restored, &folder.load()?)?,
            (None, Some(complete)) => restore(&mut restored, complete)?,
            (None, None) => {}
        }
        let request =
            ApplyRequest { manifests, state: state.as_ref(), prune, is_watched: true, begin };
        self.session.apply(request, restored, console).await?;
        self.manifests = Some(inventory);
        Ok(())
    }
}
