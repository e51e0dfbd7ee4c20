//! Parts of the program `ovsdb-sim`, which also serves as `ovsdb-server`.

pub(crate) mod args;
pub(crate) mod daemon;
pub(crate) mod end_signals;
pub(crate) mod exec;
pub(crate) mod kept_configuration;
pub(crate) mod live_socket;
pub(crate) mod log;
pub(crate) mod log_pattern;
pub(crate) mod memory;
pub(crate) mod name;
pub(crate) mod parent;
pub(crate) mod pidfile;
pub(crate) mod run_command;
mod signal_mask;
pub(crate) mod signal_text;
pub(crate) mod user;
