//! Name under which the program was started, and the folders that depend on it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ovsdb_sim::ServerRelease;

/// Name of the real server. A program that is started under this name behaves like it.
const OVSDB_SERVER: &str = "ovsdb-server";

/// Name under which the program was started.
#[derive(Clone, Debug)]
pub(crate) struct ProgramName(String);

impl ProgramName {
    /// The name of this process.
    pub(crate) fn of_process() -> Self {
        let path = env::args_os().next().unwrap_or_default();
        let name = Path::new(&path).file_name().unwrap_or_default();
        Self(name.to_string_lossy().into_owned())
    }

    /// `true` if the program was started as `ovsdb-server`.
    pub(crate) fn is_ovsdb_server(&self) -> bool {
        self.0 == OVSDB_SERVER
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The line of `--version`, with the release of ovsdb-server that is followed.
    pub(crate) fn version(&self, release: ServerRelease) -> String {
        if self.is_ovsdb_server() {
            let release = match release {
                ServerRelease::V3_1 => "3.1.0",
                ServerRelease::V3_5 => "3.5.0",
                ServerRelease::V4_0 => "4.0.0",
            };
            format!("{OVSDB_SERVER} (Open vSwitch) {release}")
        } else {
            concat!("ovsdb-sim ", env!("CARGO_PKG_VERSION")).to_owned()
        }
    }

    /// The path of a pidfile, of which the option may have given a part.
    pub(crate) fn pidfile(&self, given: Option<&Path>) -> PathBuf {
        let default = PathBuf::from(format!("{}.pid", self.0));
        run_folder().join(given.unwrap_or(&default))
    }

    /// The path of the log file, of which the option may have given a part, or an empty text.
    pub(crate) fn log_file(&self, given: &OsStr) -> PathBuf {
        let default = OsString::from(format!("{}.log", self.0));
        let file = if given.is_empty() { &default } else { given };
        folder("OVS_LOGDIR", "/var/log/openvswitch").join(file)
    }

    /// The path of the socket of ovs-appctl. `None`: there is none.
    pub(crate) fn unixctl(&self, given: Option<&Path>) -> Option<PathBuf> {
        match given {
            Some(path) if path == "none" => None,
            Some(path) if self.is_ovsdb_server() => Some(run_folder().join(path)),
            Some(path) => Some(path.to_owned()),
            None if self.is_ovsdb_server() => {
                let process = std::process::id();
                Some(run_folder().join(format!("{OVSDB_SERVER}.{process}.ctl")))
            }
            None => None,
        }
    }

    /// The path of the database that ovsdb-server serves if its command line names none.
    pub(crate) fn default_database() -> PathBuf {
        database_folder().join("conf.db")
    }

    /// The path of the configuration file, of which the option may have given a part.
    pub(crate) fn config_file(&self, given: &Path) -> PathBuf {
        if self.is_ovsdb_server() { database_folder().join(given) } else { given.to_owned() }
    }
}

/// Folder of databases.
fn database_folder() -> PathBuf {
    let given = env::var_os("OVS_DBDIR").map(PathBuf::from);
    given.unwrap_or_else(|| folder("OVS_SYSCONFDIR", "/etc").join("openvswitch"))
}

/// Folder of sockets and pidfiles.
pub(crate) fn run_folder() -> PathBuf {
    folder("OVS_RUNDIR", "/var/run/openvswitch")
}

/// The folder that an environment variable names (ovs-appctl(8)).
fn folder(variable: &str, default: &str) -> PathBuf {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| OsString::from(default))
        .into()
}
