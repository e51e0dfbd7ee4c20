//! The program `ovsdb-sim`: a server with the simulator alone.

mod log_writer;
mod panic;
mod program;

use std::env;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf, absolute};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use mimalloc::MiMalloc;
use ovsdb_sim::{
    ConfigFile, Configuration, ControlServer, Log, Remotes, RowDocument, Sim, SimBuildError,
    SimBuilder, parse_relay,
};
use patchbay_schemas::hash_order;
use patchbay_schemas::known::KnownSchema;
use patchbay_schemas::schema::{DatabaseSchema, is_id};

use log_writer::LogFlush;
use program::args::{Args, EXAMPLES};
use program::daemon::{self, DaemonError, Role};
use program::end_signals::{EndSignals, Forwarded};
use program::exec::{self, ExecFolder};
use program::kept_configuration::KeptConfiguration;
use program::live_socket;
use program::name::{ProgramName, run_folder};
use program::parent::ParentWatch;
use program::pidfile::Pidfile;
use program::signal_text::describe_status;
use program::user::become_user;
use program::{kept_configuration, log, memory, run_command};

/// Length of the longest file that `--schema` and `--rows` read, in bytes. The schemas of OVN have
/// less than 50 KB.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Database of `--rows` without a name, if it is served.
const DEFAULT_DATABASE: &str = "OVN_Northbound";

/// Name of the snapshot of the databases as they are before any client connects.
const START_SNAPSHOT: &str = "start";

/// Address of the control API of `exec`.
const ANY_LOOPBACK_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Exit status of a command line without what the program needs.
const USAGE_STATUS: u8 = 2;

/// Error of a command line without it.
const NO_REMOTE: &str = "no remote is given at which clients can connect (--listen)";

/// Time that the start of the server may wait for the sources of relays and backups.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Idle time after which a thread ends. The threads of long requests keep memory.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Allocator for millions of small requests, rows and replies, which several threads make.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    panic::abort_on_panic();
    let name = ProgramName::of_process();
    let args = match Args::parse_process(&name) {
        Ok(args) => args,
        Err(error) => {
            // Standard error may be closed.
            error.print().unwrap_or_default();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    if env::args_os().len() < 2 && !name.is_ovsdb_server() {
        eprintln!("{}: {NO_REMOTE}\n\n{EXAMPLES}", name.as_str());
        return ExitCode::from(USAGE_STATUS);
    }
    if args.version {
        print_line(&name.version(args.compat.into()));
        return ExitCode::SUCCESS;
    }
    let error = match run_process(&name, args) {
        Ok(code) => return code,
        Err(error) => error,
    };
    if let Some(code) = error.downcast_ref::<DaemonError>().and_then(DaemonError::exit_code) {
        // The process of the daemon has printed its error.
        return code.into();
    }
    eprintln!("{}: {}", name.as_str(), describe_error(&error));
    ExitCode::FAILURE
}

/// The texts of an error and of its causes, without those that the text before contains.
fn describe_error(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            text if text.contains(&cause) => text.to_owned(),
            text => format!("{text}: {cause}"),
        }
    })
}

/// Does the part of this process: that of the whole program, or of one process of a daemon.
fn run_process(name: &ProgramName, args: Args) -> anyhow::Result<ExitCode> {
    let (detach, monitor) = (args.daemon.detach, args.daemon.monitor);
    // Before there are files, sockets or threads. The handlers stop threads that start meanwhile.
    daemon::die_of_sent_faults()?;
    if let Some(user) = &args.daemon.user {
        become_user(user)?;
    }
    match args.process_role {
        None if detach => {
            let role = if monitor { Role::Monitor } else { Role::Server };
            // The new process goes on without this one.
            daemon::start(role, Stdio::null())?;
            Ok(ExitCode::SUCCESS)
        }
        None if monitor => run_monitor(name, &args),
        None => run_server(name, args, None),
        Some(Role::Monitor) => {
            daemon::leave_session();
            run_monitor(name, &args)
        }
        Some(Role::Server) => {
            if detach && !monitor {
                daemon::leave_session();
            }
            let kept_file = monitor.then(daemon::take_kept_file).transpose()?;
            run_server(name, args, kept_file)
        }
    }
}

fn run_monitor(name: &ProgramName, args: &Args) -> anyhow::Result<ExitCode> {
    let (log, flush) = init_log(name, args)?;
    daemon::monitor(|| finish_start(args, &log, &flush, None))?;
    Ok(ExitCode::SUCCESS)
}

/// Leaves the terminal, logs the introduction, and notifies the process that has started this one.
/// Nothing is written to the terminal after that process has ended, and what commands log follows
/// the introduction.
fn finish_start(
    args: &Args,
    log: &Log,
    flush: &LogFlush,
    introduction: Option<&str>,
) -> std::io::Result<()> {
    if args.daemon.detach {
        // A monitor stays, because the next server may be given relative paths.
        if !args.daemon.no_chdir && args.process_role != Some(Role::Monitor) {
            env::set_current_dir("/")?;
        }
        log.set(&["console:off"]).map_err(std::io::Error::other)?;
        flush.wait();
        daemon::leave_terminal()?;
    }
    if let Some(text) = introduction {
        tracing::info!(target: "ovsdb_server", "{text}");
    }
    if args.process_role.is_some() {
        daemon::notify_ready()?;
    }
    if args.daemon.detach {
        daemon::close_standard_output()?;
    }
    Ok(())
}

fn init_log(name: &ProgramName, args: &Args) -> anyhow::Result<(Log, LogFlush)> {
    let (log, file, flush) = log::init(name)?;
    let set_levels = |specifications: &[String]| {
        specifications.iter().try_for_each(|specification| {
            log.set(&[specification]).with_context(|| format!("processing \"{specification}\""))
        })
    };
    let (before, after) = args.log.verbose.split_at(args.log.levels_before_file);
    set_levels(before)?;
    if let Some(path) = &args.log.log_file {
        let path = absolute(name.log_file(path))?;
        file.open(&path)
            .with_context(|| format!("failed to open {} for logging", path.display()))?;
    }
    set_levels(after)?;
    Ok((log, flush))
}

/// Runs [`serve`] on a runtime of its own.
fn run_server(name: &ProgramName, args: Args, kept_file: Option<File>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build()?;
    runtime.block_on(serve(name, args, kept_file))
}

/// Serves until a signal, the command `exit`, or the end of the parent or of the command that the
/// server is for. `kept_file` is that of the monitor, if there is one.
async fn serve(
    name: &ProgramName,
    mut args: Args,
    kept_file: Option<File>,
) -> anyhow::Result<ExitCode> {
    let parent = match args.exit_with_parent {
        Some(parent) => ParentWatch::new(parent),
        None if args.exec.is_some() => ParentWatch::new(None),
        None => ParentWatch::none(),
    };
    let (log, flush) = init_log(name, &args)?;
    let kept = kept_file.as_ref().map(KeptConfiguration::read).transpose()?.flatten();
    let log = Arc::new(log);
    // Before the pidfile and the listeners, so that a signal removes their files at any time.
    let forwarded = args.exec.is_some().then(Forwarded::catch);
    let mut signals = EndSignals::catch();
    let _pidfile = match &args.daemon.pidfile {
        Some(path) => {
            let path = absolute(name.pidfile(path.as_deref()))?;
            Some(Pidfile::create(path, args.daemon.overwrite_pidfile)?)
        }
        None => None,
    };
    if let Some(kept) = &kept {
        args.databases = other_files(&args, kept)?;
        // The default database is among them, or was removed.
        args.no_dbs |= name.is_ovsdb_server();
    }
    args.remove_duplicate_databases();
    let builder = describe(name, &args)?;
    let is_own_start = !name.is_ovsdb_server() && kept.is_none();
    if is_own_start {
        refuse_live_sockets(&args)?;
    }
    let exec_folder = args.exec.as_ref().map(|_| ExecFolder::create()).transpose()?;
    if let Some(folder) = &exec_folder {
        args.listen.push(folder.target());
        args.control.get_or_insert(ANY_LOOPBACK_PORT);
    }
    let sim = builder.build().map_err(|error| start_error(name, &args, error))?;
    if is_own_start && !args.is_reachable() {
        bail!("{NO_REMOTE}\n\n{EXAMPLES}");
    }
    follow_sources(&sim, &args)?;
    insert_rows(&sim, &args.rows)?;
    sim.take_snapshot(START_SNAPSHOT)?;
    tokio::spawn(memory::purge_regularly());

    let remotes = Remotes::new(&sim);
    let mut addresses = Vec::new();
    match &kept {
        Some(kept) => kept.restore(&sim, &remotes).await,
        None => {
            for target in &args.listen {
                // As ovsdb-server, the program would start without a remote, and try it again.
                let added = if name.is_ovsdb_server() {
                    remotes.add_or_retry(target).await
                } else {
                    remotes.add(target).await
                };
                addresses.push(added?);
            }
        }
    }
    let config_file = match &args.config_file {
        Some(path) => {
            let path = absolute(name.config_file(path))?;
            let file = ConfigFile::new(path, env::current_dir()?, &sim, &remotes);
            if file.load().await.is_err() {
                // The log has the reasons. The text is ovsdb-server's.
                bail!("server configuration failed");
            }
            Some(Arc::new(file))
        }
        None => None,
    };
    for target in config_file.iter().flat_map(|_| remotes.targets()) {
        addresses.push(remotes.add(&target).await?);
    }
    let configuration = match &config_file {
        Some(file) => Configuration::File(file.clone()),
        None => kept_configuration::changeable(&sim, &remotes, kept_file),
    };
    let version = name.version(args.compat.into());
    let unixctl = match name.unixctl(args.unixctl.as_deref()) {
        Some(path) => {
            let path = absolute(path)?;
            let unixctl = sim
                .serve_unixctl(&path, &remotes, &log, &version, configuration)
                .with_context(|| format!("unixctl at {}", path.display()))?;
            Some(unixctl)
        }
        None => None,
    };
    let control = match args.control {
        Some(address) => {
            let control = serve_control(&sim, address, args.control_token.as_deref())
                .await
                .with_context(|| format!("control API at {address}"))?;
            addresses.push(format!("control API on http://{}", control.address()));
            Some(control)
        }
        None => None,
    };
    // Standard output belongs to a command, or is a message that the server is ready.
    let has_command = args.run.is_some() || args.exec.is_some();
    if !name.is_ovsdb_server() && args.process_role.is_none() && !has_command {
        for address in &addresses {
            print_line(address);
        }
    }
    let command = match &args.run {
        Some(command) => {
            let started = run_command::start(command);
            Some(started.with_context(|| format!("{command}: process failed to start"))?)
        }
        None => None,
    };
    // Clients that come now find the content of a source that has answered.
    let sources = tokio::time::timeout(SOURCE_TIMEOUT, sim.wait_for_sources());
    sources.await.unwrap_or_default();
    let introduction = command.is_none().then_some(&*version);
    finish_start(&args, &log, &flush, introduction)?;
    if let (Some(command), Some(folder), Some(signals), Some(control)) =
        (&args.exec, &exec_folder, forwarded, &control)
    {
        let control = format!("http://{}", control.address());
        let variables = folder.variables(&sim.database_names(), &control);
        let code = exec::run(command, &variables, signals, &parent).await;
        sim.shut_down().await;
        return Ok(code);
    }
    let exit = async {
        match &unixctl {
            Some(unixctl) => unixctl.wait_for_exit().await,
            None => std::future::pending().await,
        }
    };
    let ended_command = async {
        match command {
            Some(command) => command.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // As ovsdb-server, which a signal kills.
        () = signals.wait(name.is_ovsdb_server()) => {}
        () = parent.wait() => {}
        () = exit => sim.shut_down().await,
        status = ended_command => {
            sim.shut_down().await;
            let status = status??;
            if !status.success() {
                let command = args.run.unwrap_or_default();
                bail!("{command}: child exited, {}", describe_status(status));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses sockets at which another server listens, unless they are to be replaced.
fn refuse_live_sockets(args: &Args) -> anyhow::Result<()> {
    if args.replace_sockets {
        return Ok(());
    }
    args.listen.iter().try_for_each(|target| live_socket::refuse_target(target))?;
    args.unixctl.as_deref().map_or(Ok(()), live_socket::refuse)
}

/// Inserts the rows of `--rows`.
fn insert_rows(sim: &Sim, files: &[String]) -> anyhow::Result<()> {
    for file in files {
        let (name, path) = split_journal(file);
        let names = sim.database_names();
        let default = names.iter().find(|name| *name == DEFAULT_DATABASE).or(names.first());
        let name = name.or(default.map(String::as_str)).unwrap_or(DEFAULT_DATABASE);
        let database = sim
            .database(name)
            .with_context(|| format!("{path}: there is no database {name} for the rows"))?;
        let text = read_text(Path::new(path)).with_context(|| format!("cannot read {path}"))?;
        let text = String::from_utf8(text).with_context(|| path.to_owned())?;
        RowDocument::parse(&text)
            .and_then(|document| database.insert_rows(&document))
            .with_context(|| path.to_owned())?;
    }
    Ok(())
}

/// The error of a server that cannot be made as the arguments describe it. That of ovsdb-server has
/// its words, and the paths as they were given.
fn start_error(name: &ProgramName, args: &Args, error: SimBuildError) -> anyhow::Error {
    if !name.is_ovsdb_server() {
        return error.into();
    }
    let text =
        args.databases.iter().fold(error.to_server_text(), |text, database| {
            match absolute(database) {
                Ok(path) => {
                    text.replace(&path.display().to_string(), &database.display().to_string())
                }
                Err(_) => text,
            }
        });
    anyhow!(text)
}

/// The files of databases that have been kept, without those that `--journal` names.
fn other_files(args: &Args, kept: &KeptConfiguration) -> std::io::Result<Vec<PathBuf>> {
    let journals = args.journal.iter().map(|journal| split_journal(journal).1);
    let journals = journals.map(absolute).collect::<Result<Vec<_>, _>>()?;
    let files = kept.files.iter().filter(|file| !journals.contains(file));
    Ok(files.cloned().collect())
}

/// The database, if there is one, and the path that `--journal` names.
fn split_journal(journal: &str) -> (Option<&str>, &str) {
    match journal.split_once('=') {
        Some((database, path)) if is_id(database) => (Some(database), path),
        _ => (None, journal),
    }
}

/// Describes the simulator that the arguments ask for.
fn describe(name: &ProgramName, args: &Args) -> anyhow::Result<SimBuilder> {
    let mut builder = Sim::builder()
        .model(args.model.into())
        .compat(args.compat.into())
        .limits(memory::server_limits(args.memory_per_connection, args.memory_of_connections));
    for path in &args.schema {
        let known = path.to_str().and_then(KnownSchema::find);
        let text = match known {
            Some(known) => known.text.as_bytes().to_vec(),
            None => read_text(path).with_context(|| format!("cannot read {}", path.display()))?,
        };
        let schema = DatabaseSchema::parse(&text)
            .with_context(|| format!("{} is not a schema", path.display()))?;
        builder = builder.schema(Arc::new(schema));
    }
    builder = args.load.iter().fold(builder, SimBuilder::load);
    for journal in &args.journal {
        let (database, path) = split_journal(journal);
        let path = absolute(path)?;
        builder = match database {
            Some(database) => builder.journal_of(database, path),
            None => builder.journal(path),
        };
    }
    let mut databases = args.databases.clone();
    let names_none = [&args.schema, &args.load, &databases].iter().all(|paths| paths.is_empty())
        && args.journal.is_empty();
    if names_none && name.is_ovsdb_server() && !args.no_dbs && args.config_file.is_none() {
        databases.push(ProgramName::default_database());
    }
    if name.is_ovsdb_server() {
        databases = in_server_order(&databases)?;
    }
    let has_relays = databases.iter().any(|path| relay_of(path).is_some());
    for database in databases {
        if relay_of(&database).is_none() {
            builder = builder.database_file(absolute(database)?);
        }
    }
    if args.no_dbs || args.config_file.is_some() || has_relays {
        builder = builder.without_default_database();
    }
    if name.is_ovsdb_server() {
        builder = builder.socket_folder(absolute(run_folder())?);
    }
    builder = builder.tls(args.tls.clone().into());
    Ok(match args.seed {
        Some(seed) => builder.seed(seed),
        None => builder,
    })
}

/// The arguments that name databases, in the order in which ovsdb-server opens them.
///
/// # Errors
/// One of them begins like a relay, and is none.
fn in_server_order(databases: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for path in databases {
        let Some(text) = path.to_str() else {
            // Its place among the others is only seen in the order of `list_dbs`.
            return Ok(databases.to_vec());
        };
        let is_relay = text.starts_with("relay:");
        if is_relay && text.matches(':').count() < 2 {
            bail!("ovsdb error: {text}: invalid syntax");
        }
        names.push(text);
    }
    // Its set of files is copied once.
    let order = hash_order::key_order(hash_order::key_order(names));
    Ok(order.into_iter().map(PathBuf::from).collect())
}

/// Reads the file of a schema or of rows.
///
/// # Errors
/// It cannot be read, or is too long. A device never ends.
fn read_text(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_TEXT_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        let error = format!("it has more than {MAX_TEXT_BYTES} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, error));
    }
    Ok(text)
}

/// Adds relays, and makes databases backups.
fn follow_sources(sim: &Sim, args: &Args) -> anyhow::Result<()> {
    for (database, remotes) in args.databases.iter().filter_map(|path| relay_of(path)) {
        sim.add_relay(database, remotes)?;
    }
    let excluded = args.backup.sync_exclude_tables.as_deref().unwrap_or_default();
    match &args.backup.sync_from {
        Some(source) if args.backup.active => sim.prepare_backup(source, excluded),
        Some(source) => sim.start_backup(source, excluded),
        None => sim.exclude_from_backup(excluded),
    }
    Ok(())
}

/// The database and the remotes of a relay. `None`: the argument is the path of a file.
fn relay_of(argument: &Path) -> Option<(&str, &str)> {
    parse_relay(argument.to_str()?)
}

/// Serves the control API, with the token in a file if there is one.
async fn serve_control(
    sim: &Sim,
    address: SocketAddr,
    token: Option<&Path>,
) -> std::io::Result<ControlServer> {
    match token {
        Some(path) => {
            let token = std::fs::read_to_string(path).map_err(|error| {
                let message = format!("cannot read {}: {error}", path.display());
                std::io::Error::new(error.kind(), message)
            })?;
            sim.serve_control_with_token(address, token.trim()).await
        }
        None => sim.serve_control(address).await,
    }
}

/// Prints and flushes a line, because the parent process may wait for it.
fn print_line(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // A closed standard output does not end the server.
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap_or_default();
}
