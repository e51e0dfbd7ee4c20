//! `--prune`: the question whether rows of objects that the manifests do not name are deleted.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::thread;

use patchbay_model::printable::printable;
use patchbay_rows::KeptRow;
use tokio::sync::oneshot;

use super::args;
use super::console::Console;
use super::failure::Failure;
use super::kept::{by_object, rows};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 2_000;

/// What happens to rows of objects that the manifests do not name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prune {
    /// They stay.
    Never,
    /// They go if the user agrees.
    Ask,
    /// They go.
    Always,
}

impl Prune {
    /// Reads the flags.
    ///
    /// # Errors
    /// Nobody can be asked.
    pub(super) fn of(arguments: &args::Apply) -> Result<Self, Failure> {
        if !arguments.manifests.prune {
            return Ok(Self::Never);
        }
        if arguments.yes {
            return Ok(Self::Always);
        }
        let has_manifests = |path: &Path| path.as_os_str() == "-";
        let mut paths = arguments.manifests.paths.iter();
        let can_ask = !paths.any(|path| has_manifests(path))
            && io::stdin().is_terminal()
            && io::stderr().is_terminal();
        if can_ask {
            return Ok(Self::Ask);
        }
        let message = "--prune asks before it deletes rows, and standard input is no terminal: \
                       --yes deletes them without a question";
        Err(Failure::Arguments(message.to_owned()))
    }

    /// Lists the rows that would go, by zone and object, and asks whether they go unless that is
    /// decided.
    ///
    /// # Errors
    /// The console cannot be written or read.
    pub(super) async fn is_agreed(
        self,
        zones: &[(&str, &[KeptRow])],
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        let mut count = 0;
        for (zone, kept) in zones {
            for object in by_object(kept) {
                count += object.count();
                let line = format!("zone {zone}: to delete: {object}");
                writeln!(console.errors, "{}", printable(&line, MAX_LINE_BYTES))?;
            }
        }
        if self != Self::Ask {
            return Ok(self == Self::Always);
        }
        write!(console.errors, "Delete {count} {}? [y/N] ", rows(count))?;
        console.errors.flush()?;
        let answer = read_line().await?;
        let is_agreed = matches!(answer.trim(), "y" | "Y" | "yes");
        if !is_agreed {
            writeln!(console.errors, "nothing is deleted")?;
        }
        Ok(is_agreed)
    }
}

/// Reads a line of standard input. The thread is left behind if the future is dropped.
async fn read_line() -> io::Result<String> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("answer".to_owned()).spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line).map(|_| line);
        // The command may have ended.
        drop(sender.send(read));
    })?;
    let ended = || io::Error::other("no answer");
    receiver.await.map_err(|_| ended())?
}
