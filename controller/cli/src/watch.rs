//! `apply --watch`: whenever files change, or a database comes back.

use std::collections::BTreeSet;

use super::apply::Applied;
use super::args::Manifests;
use super::console::Console;
use super::failure::Failure;
use super::files::{Changes, RETRY};
use super::state::{folder, lock};
use super::stop::Stop;
use patchbay_app::northbound::OpenError;
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::state::restore;

/// Applies the manifests whenever they change and whenever the database comes back, until the process is told to stop. What
/// fails is tried again.
pub(super) async fn watch(manifests: &Manifests, console: &mut Console<'_>) -> Result<(), Failure> {
    if manifests.paths.iter().any(|path| path.as_os_str() == "-") {
        let message = "--watch requires files or folders: standard input cannot be watched";
        return Err(Failure::Arguments(message.to_owned()));
    }
    let mut stop = Stop::new()?;
    let mut changes = Changes::of(&manifests.paths);
    let mut last = Last::default();
    console.told = Some(BTreeSet::new());
    loop {
        let applied = tokio::select! {
            applied = last.apply(manifests, console) => applied,
            // Files of the state are written in one go: they are never left between two states.
            () = stop.asked() => {
                writeln!(
                    console.errors,
                    "stopped during an apply; the next apply completes it"
                )?;
                return Ok(());
            }
        };
        let has_failed = match applied {
            Ok(()) => {
                console.told = Some(BTreeSet::new());
                false
            }
            // What arguments say does not get better.
            Err(failure @ (Failure::Arguments(_) | Failure::Open(OpenError::Remote(_)))) => {
                return Err(failure);
            }
            Err(failure) => {
                // The databases may be anything between what they were and what they should be.
                last.read = None;
                console.fail(&failure);
                console.tell(what_follows(&failure))?;
                true
            }
        };
        console.output.flush()?;
        let files_have_changed = tokio::select! {
            files_have_changed = changes.next(has_failed) => files_have_changed,
            () = last.applied.resynced() => false,
            () = stop.asked() => return Ok(()),
        };
        if files_have_changed {
            console.told = Some(BTreeSet::new());
        }
    }
}

/// What a failure means for what is there, and what happens next.
fn what_follows(failure: &Failure) -> String {
    let stays = match failure {
        Failure::Zone { .. } | Failure::State(_) | Failure::Print { .. } | Failure::Io(_) => "",
        _ => "the applied rows stay; ",
    };
    let seconds = RETRY.as_secs();
    format!("{stays}retrying on changes of files and every {seconds} s")
}

/// What was applied last.
#[derive(Default)]
struct Last {
    applied: Applied,
    /// The manifests, as they were read; none after a failure.
    read: Option<Inventory>,
}

impl Last {
    /// Reads the manifests, and applies them unless that is what the databases are.
    async fn apply(
        &mut self,
        manifests: &Manifests,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let read = read_manifests(&manifests.paths, console.input)?;
        if self.read.as_ref() == Some(&read) && self.applied.is_there().await? {
            return Ok(());
        }
        let mut inventory = read.clone();
        let state = folder(manifests.state.as_ref(), &manifests.paths)?;
        let _lock = lock(state.as_ref(), console).await?;
        match (&state, self.applied.inventory()) {
            (Some(folder), _) => restore(&mut inventory, &folder.load()?)?,
            (None, Some(complete)) => restore(&mut inventory, complete)?,
            (None, None) => {}
        }
        self.applied
            .apply(manifests, inventory, state.as_ref(), console)
            .await?;
        self.read = Some(read);
        Ok(())
    }
}
