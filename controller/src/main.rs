//! The `patchbay` command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Planning makes and drops millions of short strings.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    patchbay_controller::cli::main()
}
