//! Programs of OVN and Open vSwitch: found on the system or below a folder, and fetched out of
//! Debian's packages.
//!
//! Packages are downloaded and unpacked, not installed, so that neither root nor a complete system
//! is needed. The folder has the programs and all their libraries.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use patchbay_ovn_programs::{Cancellation, Programs, Suite, fetch};
//!
//! let suite: Suite = "sid".parse()?;
//! let cancellation = Cancellation::default();
//! fetch(&suite, Path::new("ovn-sid"), &cancellation, |progress| eprintln!("{progress}"))?;
//! let programs = Programs::below(Path::new("ovn-sid"))?;
//! println!("{:?}", programs.command("ovn-northd")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fetch;
mod programs;
#[cfg(feature = "testing")]
pub mod testing;
mod version;

pub use fetch::{Cancellation, FetchError, InvalidSuite, Progress, Suite, fetch};
pub use programs::{Programs, ProgramsError};
pub use version::Version;
