//! Helpers of tests that compare Patchbay with the real OVN programs: they find, start and stop
//! them.
//!
//! All of them panic if a program is missing, with a message that names the package to install,
//! because a test that cannot run must not pass. Only the releases that need more than installed
//! packages, [`Release::trixie`] and [`Release::newest`], may be missing.
//!
//! ```no_run
//! use patchbay_ovn_programs::testing::{self, RealServer};
//!
//! let server = RealServer::start([testing::installed_nb_schema()]);
//! let output = testing::nbctl(&server.remote()).args(["ls-add", "sw0", "--", "show"]).output()?;
//! assert!(output.status.success());
//! # std::io::Result::Ok(())
//! ```

mod child;
mod free_port;
mod real_cluster;
mod real_server;
mod release;
mod scratch_dir;
mod script;
mod suite;

pub use child::{output_of, signal, wait};
pub use free_port::free_port;
pub use real_cluster::RealCluster;
pub use real_server::RealServer;
pub use release::{Release, installed_nb_schema, nbctl, program};
pub use scratch_dir::ScratchDir;
pub use script::create_script;
