//! `apply --watch`: whenever files change.

use super::apply::Databases;
use super::args::Manifests;
use super::files::Changes;
use super::run::{Console, Failure};
use super::state::{folder, lock};
use super::stop::Stop;
use crate::source::{Inventory, read_manifests};
use crate::state::restore;

/// Applies the manifests whenever they change, until the process is told to stop.
pub(super) async fn watch(manifests: &Manifests, console: &mut Console<'_>) -> Result<(), Failure> {
    if manifests.paths.iter().any(|path| path.as_os_str() == "-") {
        let message = "--watch is for files and folders: standard input does not change";
        return Err(Failure::Arguments(message.to_owned()));
    }
    folder(manifests.state.as_ref(), &manifests.paths)?;
    let mut stop = Stop::new()?;
    let mut changes = Changes::of(&manifests.paths);
    let mut last = Last::default();
    loop {
        let applied = tokio::select! {
            applied = last.apply(manifests, console) => applied,
            // Files of the state are written in one go: they are never left between two states.
            () = stop.asked() => {
                writeln!(
                    console.errors,
                    "stopped in the middle of an apply: what is not done yet is left to the next one"
                )?;
                return Ok(());
            }
        };
        let wait_for_database = match applied {
            Ok(()) => false,
            Err(failure) => {
                console.fail(&failure);
                writeln!(
                    console.errors,
                    "what was applied stays; waiting for the files to change"
                )?;
                matches!(failure, Failure::Open(_) | Failure::Zone { .. })
            }
        };
        console.output.flush()?;
        tokio::select! {
            () = changes.next(wait_for_database) => {}
            () = stop.asked() => return Ok(()),
        }
    }
}

/// What was applied last.
#[derive(Default)]
struct Last {
    databases: Databases,
    /// The manifests, as they were read.
    read: Option<Inventory>,
    /// The objects, completed: state of the next run.
    complete: Inventory,
}

impl Last {
    /// Reads the manifests, and applies them if they are not what was applied last.
    async fn apply(
        &mut self,
        manifests: &Manifests,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let read = read_manifests(&manifests.paths, console.input)?;
        if self.read.as_ref() == Some(&read) {
            return Ok(());
        }
        let mut inventory = read.clone();
        let state = folder(manifests.state.as_ref(), &manifests.paths)?;
        let _lock = lock(state.as_ref(), console).await?;
        match &state {
            Some(folder) => restore(&mut inventory, &folder.load()?)?,
            None => restore(&mut inventory, &self.complete)?,
        }
        self.complete = self
            .databases
            .apply(manifests, inventory, state.as_ref(), console)
            .await?;
        self.read = Some(read);
        Ok(())
    }
}
