//! The `patchbay` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    patchbay_controller::cli::main()
}
