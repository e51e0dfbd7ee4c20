//! Long work of a task, which must not delay the other tasks of its thread.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Length in bytes of a request from which its decoding is long work.
pub(crate) const LONG_TEXT_BYTES: usize = 1 << 16;

/// Does work that may take long. Another thread takes over the other tasks of this one meanwhile.
///
/// In a runtime with a single thread, which only an owner of the library chooses, all tasks wait.
pub(crate) fn run_long<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) { block_in_place(work) } else { work() }
}

/// Does work at once, or as [long work](run_long).
pub(crate) fn run<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    if is_long { run_long(work) } else { work() }
}
