//! Command line of `ovsdb-sim`, which is also that of ovsdb-server.

use std::collections::HashSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum};
use ovsdb_sim::{Model, ServerRelease, TlsOptions};

use super::daemon::Role;
use super::name::ProgramName;

/// First argument of a server that runs a command.
const EXEC: &str = "exec";

/// Usage of `ovsdb-sim exec`.
const EXEC_USAGE: &str = "ovsdb-sim exec [OPTIONS] [DATABASE]... -- COMMAND [ARGUMENT]...";

/// Description of `ovsdb-sim exec`.
const EXEC_ABOUT: &str = "Run a command with a server of its own, which ends with it

The command finds the server by the environment: OVSDB_SIM_REMOTE is the remote, and
OVSDB_SIM_CONTROL the control API. OVN_NB_DB, OVN_SB_DB, OVN_IC_NB_DB and OVN_IC_SB_DB are the remote, too, if the
server has the database; with Open_vSwitch, OVS_RUNDIR is the folder of the socket db.sock. Signals
go to the command. The exit status is that of the command, or 128 and the number of the signal that
has ended it; 126: it cannot be executed, 127: there is none. Command and server end when the parent
process ends.";

/// What to do, for a user who gave no options.
pub(crate) const EXAMPLES: &str = "Examples:
  A command with a Northbound database of its own:
    ovsdb-sim exec -- ovn-nbctl show
  A server with a control API, until Ctrl-C:
    ovsdb-sim --listen punix:/tmp/nb.sock --control 127.0.0.1:8080";

/// In-memory OVSDB server for tests and load
///
/// Started as `ovsdb-server`, for example through a symbolic link, it serves ovsdb-server's default
/// database and sockets, and logs like it.
#[derive(Debug, Parser)]
#[command(
    disable_version_flag = true,
    infer_long_args = true,
    // As for ovsdb-server, the last of several values of an option counts, unless it is a list.
    args_override_self = true,
    max_term_width = 100
)]
pub(crate) struct Args {
    /// Role of this process in a daemon
    #[arg(long, hide = true, value_enum)]
    pub(crate) process_role: Option<Role>,

    /// Database files to serve, standalone or of clusters with one server; transactions are
    /// appended to them. `relay:NAME:REMOTES` relays the database NAME of another server
    #[arg(value_name = "DATABASE")]
    pub(crate) databases: Vec<PathBuf>,

    /// Serve OVSDB clients at this remote (repeatable)
    ///
    /// punix:PATH, ptcp:PORT[:HOST] or pssl:PORT[:HOST]: listen there.
    /// unix:PATH, tcp:HOST[:PORT] or ssl:HOST[:PORT]: connect to a client that waits there, and
    /// again whenever the connection ends.
    /// db:DATABASE,TABLE,COLUMN: open the remotes in this column, now and whenever it changes. An
    /// example is `db:OVN_Northbound,NB_Global,connections`, which ovn-nbctl set-connection writes.
    #[arg(long, visible_alias = "remote", value_name = "TARGET", verbatim_doc_comment)]
    pub(crate) listen: Vec<String>,

    /// Serve the databases and the remotes that this file names
    ///
    /// The file is that of ovsdb-server since Open vSwitch 3.3: a JSON object with the members
    /// `databases`, whose members are paths of database files, and `remotes`, whose members are
    /// targets. `ovs-appctl ovsdb-server/reload` reads it again.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["databases", "listen", "schema", "load", "journal"]
    )]
    pub(crate) config_file: Option<PathBuf>,

    /// Serve ovs-appctl at this unix socket
    ///
    /// `ovs-appctl -t PATH list-commands` lists the commands, which add and remove databases and
    /// remotes and set log levels, among others.
    #[arg(long, value_name = "PATH")]
    pub(crate) unixctl: Option<PathBuf>,

    /// Serve an empty database with the schema in this file, or with this one (repeatable)
    ///
    /// Schemas with a name: northbound, southbound, vswitch, ic-northbound, ic-southbound, vtep, and
    /// the names of their databases. Write ./NAME for a file of such a name. Without any database,
    /// OVN_Northbound is served.
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Vec<PathBuf>,

    /// Serve the database in this standalone database file, which is only read (repeatable)
    ///
    /// Like ovsdb-server, the program stops reading at the first damaged record and leaves out
    /// transactions that violate a constraint; it logs a warning for both. Convert the file of a
    /// clustered database first: ovsdb-tool cluster-to-standalone.
    #[arg(long, value_name = "FILE")]
    pub(crate) load: Vec<PathBuf>,

    /// Insert the rows in this file of YAML or JSON (repeatable)
    ///
    /// The file has rows by table and name, with references by name:
    /// `Logical_Switch: {sw0: {ports: [sw0-p1]}}`. DATABASE is OVN_Northbound or, if that is not
    /// served, the first one by name. The control API's `sim_reset` returns to these rows by the
    /// snapshot `start`.
    #[arg(long, value_name = "[DATABASE=]FILE", conflicts_with_all = ["monitor", "config_file"])]
    pub(crate) rows: Vec<String>,

    /// Append every transaction of a database to this file (repeatable, once per database)
    ///
    /// The file is a database file, which ovsdb-server and ovsdb-tool can open. A new one is that
    /// of --model. A transaction that cannot be written fails.
    ///
    /// An existing file has its database's name, schema and initial content, so DATABASE and
    /// --schema can be omitted. If --schema is given, the schemas must be equal. A new file is
    /// created for DATABASE, which can be omitted if only one database is served.
    ///
    /// With --load of the same database, FILE must be new, and begins with the loaded content, or
    /// be the loaded file.
    ///
    /// Write ./A=B for a file whose name looks like DATABASE=FILE.
    #[arg(long, value_name = "[DATABASE=]FILE")]
    pub(crate) journal: Vec<String>,

    /// Serve no database that is not named
    #[arg(long)]
    pub(crate) no_dbs: bool,

    /// Model of the databases that have no file yet
    ///
    /// A clustered server acts as the only member and leader of a RAFT cluster. It keeps a history
    /// of transactions, from which returning clients get what they missed.
    #[arg(long, value_name = "MODEL", value_enum, default_value = "standalone")]
    pub(crate) model: ModelArg,

    /// Word errors as this release of ovsdb-server, where releases differ, and have its commands of
    /// ovs-appctl
    #[arg(long, value_name = "RELEASE", value_enum, default_value = "4.0")]
    pub(crate) compat: ReleaseArg,

    /// Serve the control API at this address
    ///
    /// The control API is JSON-RPC 2.0 over HTTP and WebSocket: `sim_show`, `sim_dump`,
    /// `sim_stats`, `sim_set_fault` and others.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) control: Option<SocketAddr>,

    /// Require the token in this file from users of the control API
    ///
    /// Requests need the header `Authorization: Bearer TOKEN`. Without a token, the control API is
    /// served at loopback addresses only.
    #[arg(long, value_name = "FILE", requires = "control")]
    pub(crate) control_token: Option<PathBuf>,

    /// Take the place of a server that listens at the same socket
    #[arg(long)]
    pub(crate) replace_sockets: bool,

    /// End when the parent process ends: the one that there is at the start, or this one
    #[arg(
        long,
        value_name = "PID",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["detach", "monitor"]
    )]
    #[expect(clippy::option_option, reason = "an option whose value is optional")]
    pub(crate) exit_with_parent: Option<Option<i32>>,

    /// Mebibytes that one connection may leave behind: locks, monitors, waiting transactions
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = parse_mebibytes)]
    pub(crate) memory_per_connection: usize,

    /// Mebibytes that all connections may hold together, with messages that are not complete and
    /// replies that are not read
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = parse_mebibytes)]
    pub(crate) memory_of_connections: usize,

    /// Draw all UUIDs from this seed, the same ones in every run
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Run this command of the shell, and end when it ends
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) backup: BackupArgs,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) without_effect: IgnoredArgs,

    /// Print the version
    #[arg(short = 'V', long)]
    pub(crate) version: bool,

    /// Command of `ovsdb-sim exec`
    #[arg(skip)]
    pub(crate) exec: Option<Vec<OsString>>,
}

/// Options of backups.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Backups")]
pub(crate) struct BackupArgs {
    /// Serve backups of the databases of another server, which clients can only read
    #[arg(long, value_name = "REMOTE", conflicts_with = "config_file")]
    pub(crate) sync_from: Option<String>,

    /// Keep the content of these tables
    #[arg(long, value_name = "DB:TABLE,...", conflicts_with = "config_file")]
    pub(crate) sync_exclude_tables: Option<String>,

    /// Serve active databases until ovs-appctl makes them backups
    #[arg(long, conflicts_with = "config_file")]
    pub(crate) active: bool,
}

/// Options of `ssl:` and `pssl:` remotes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "TLS, each also the name of a column: db:DATABASE,TABLE,COLUMN")]
pub(crate) struct TlsArgs {
    /// Private key of the server
    #[arg(short = 'p', long, value_name = "FILE")]
    private_key: Option<String>,

    /// Certificate of the server
    #[arg(short = 'c', long, value_name = "FILE")]
    certificate: Option<String>,

    /// Certificates of authorities that sign those of peers; `none`: peers are not verified
    #[arg(short = 'C', long, value_name = "FILE")]
    ca_cert: Option<String>,

    /// The same; a missing file is created with the CA certificate of the first peer to which the
    /// server connects
    #[arg(long, value_name = "FILE", overrides_with = "ca_cert")]
    bootstrap_ca_cert: Option<String>,

    /// CA certificates to send to peers
    #[arg(long, value_name = "FILE")]
    peer_ca_cert: Option<String>,

    /// Protocols, such as `TLSv1.2,TLSv1.3`
    #[arg(long, value_name = "PROTOCOLS")]
    ssl_protocols: Option<String>,

    /// Cipher suites of TLS 1.2, in OpenSSL's notation
    #[arg(long, value_name = "CIPHERS")]
    ssl_ciphers: Option<String>,

    /// Cipher suites of TLS 1.3, in OpenSSL's notation
    #[arg(long, value_name = "SUITES")]
    ssl_ciphersuites: Option<String>,

    /// Name to send to peers to which the server connects (SNI), instead of the host of the remote
    #[arg(long, value_name = "NAME")]
    ssl_server_name: Option<String>,
}

impl From<TlsArgs> for TlsOptions {
    fn from(args: TlsArgs) -> Self {
        let mut options = Self::default();
        options.bootstrap_ca_certificate = args.bootstrap_ca_cert.is_some();
        options.private_key = args.private_key;
        options.certificate = args.certificate;
        options.ca_certificate = args.bootstrap_ca_cert.or(args.ca_cert);
        options.peer_ca_certificate = args.peer_ca_cert;
        options.protocols = args.ssl_protocols;
        options.ciphers = args.ssl_ciphers;
        options.ciphersuites = args.ssl_ciphersuites;
        options.server_name = args.ssl_server_name;
        options
    }
}

/// Options of a daemon.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(next_help_heading = "Daemon")]
pub(crate) struct DaemonArgs {
    /// Serve in the background; return when clients can connect
    #[arg(long)]
    pub(crate) detach: bool,

    /// Restart the server when a signal of an error, such as SIGABRT, has ended it
    #[arg(long)]
    pub(crate) monitor: bool,

    /// Stay in the working directory instead of `/` with --detach
    #[arg(long)]
    pub(crate) no_chdir: bool,

    /// Write the process id to this file and lock it
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "an option whose value is optional")]
    pub(crate) pidfile: Option<Option<PathBuf>>,

    /// Run as another user, without any of root's capabilities: USER, :GROUP or USER:GROUP
    #[arg(long, value_name = "USER[:GROUP]")]
    pub(crate) user: Option<String>,

    /// Replace the pidfile of a running process
    #[arg(long)]
    pub(crate) overwrite_pidfile: bool,
}

/// Options of the log.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// Set log levels, as `ovs-appctl vlog/set` (repeatable, also -vSPEC)
    #[arg(
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(crate) verbose: Vec<String>,

    /// Log also to this file
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(crate) log_file: Option<OsString>,

    /// Number of specifications before `--log-file`
    #[arg(skip)]
    pub(crate) levels_before_file: usize,
}

/// Options of ovsdb-server whose subject the simulator does not have.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Accepted without an effect")]
pub(crate) struct IgnoredArgs {
    /// There is no syslog
    #[arg(long, value_name = "METHOD")]
    syslog_method: Option<String>,

    /// There is no syslog
    #[arg(long, value_name = "HOST:PORT")]
    syslog_target: Option<String>,

    /// Files always have differences of columns
    #[arg(long)]
    disable_file_column_diff: bool,

    /// Conversions in the files of clusters always have the content
    #[arg(long)]
    disable_file_no_data_conversion: bool,

    /// Paths of sockets and control commands are not confined
    #[arg(long)]
    no_self_confinement: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReleaseArg {
    #[value(name = "3.1")]
    V3_1,
    #[value(name = "3.5")]
    V3_5,
    #[value(name = "4.0")]
    V4_0,
}

impl From<ReleaseArg> for ServerRelease {
    fn from(release: ReleaseArg) -> Self {
        match release {
            ReleaseArg::V3_1 => Self::V3_1,
            ReleaseArg::V3_5 => Self::V3_5,
            ReleaseArg::V4_0 => Self::V4_0,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModelArg {
    Standalone,
    Clustered,
}

impl From<ModelArg> for Model {
    fn from(model: ModelArg) -> Self {
        match model {
            ModelArg::Standalone => Self::Standalone,
            ModelArg::Clustered => Self::Clustered,
        }
    }
}

impl Args {
    /// Parses the arguments of a process.
    pub(crate) fn parse_process(name: &ProgramName) -> Result<Self, clap::Error> {
        let mut arguments: Vec<_> = std::env::args_os().collect();
        let is_exec = !name.is_ovsdb_server() && arguments.get(1).is_some_and(|word| word == EXEC);
        let mut parser = Self::command();
        let mut command = None;
        if is_exec {
            arguments.remove(1);
            parser = parser.override_usage(EXEC_USAGE).about(EXEC_ABOUT).long_about(EXEC_ABOUT);
            if let Some(end) = arguments.iter().position(|word| word == "--") {
                command = Some(arguments.split_off(end + 1));
                arguments.pop();
            }
        } else if !name.is_ovsdb_server() {
            parser = parser.after_help(EXAMPLES);
        }
        let matches = parser.clone().try_get_matches_from(arguments.into_iter().map(normalize))?;
        let mut args = Self::from_arg_matches(&matches)?;
        args.log.levels_before_file = levels_before_file(&matches);
        if is_exec && !args.version {
            args.exec = command.filter(|command| !command.is_empty());
            let of_daemon = args.daemon.detach || args.daemon.monitor || args.run.is_some();
            let problem = match &args.exec {
                None => "exec needs a command after --",
                Some(_) if of_daemon => "exec has neither --detach, --monitor nor --run",
                Some(_) => return Ok(args),
            };
            return Err(parser.error(ErrorKind::MissingRequiredArgument, problem));
        }
        Ok(args)
    }

    /// `true` if clients, or the owner, can connect to the server.
    pub(crate) fn is_reachable(&self) -> bool {
        !self.listen.is_empty()
            || self.config_file.is_some()
            || self.unixctl.is_some()
            || self.control.is_some()
            || self.run.is_some()
            || self.exec.is_some()
    }

    /// Removes databases that are named before, with ovsdb-server's warning.
    pub(crate) fn remove_duplicate_databases(&mut self) {
        let mut known = HashSet::new();
        self.databases.retain(|database| {
            let is_new = known.insert(database.clone());
            if !is_new {
                let name = database.display();
                tracing::warn!(target: "ovsdb_server", "Duplicate database configuration: {name}");
            }
            is_new
        });
    }
}

/// The bytes of a number of mebibytes.
fn parse_mebibytes(text: &str) -> Result<usize, String> {
    let mebibytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    mebibytes
        .checked_mul(1 << 20)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "not a number of mebibytes that a server can have".to_owned())
}

/// Number of specifications of log levels before `--log-file`. ovsdb-server executes these options
/// in their order.
fn levels_before_file(matches: &ArgMatches) -> usize {
    let file = matches.index_of("log_file");
    let levels = matches.indices_of("verbose").into_iter().flatten();
    levels.filter(|level| Some(*level) < file).count()
}

/// Turns `-vSPEC`, whose value is optional and never the next argument, into the long option.
fn normalize(argument: OsString) -> OsString {
    match argument.to_str().and_then(|text| text.strip_prefix("-v")) {
        Some("") => "--verbose".into(),
        Some(specification) => format!("--verbose={specification}").into(),
        None => argument,
    }
}
