//! The program `ovsdb-sim`: a server with the simulator alone.

mod log_writer;
mod panic;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use mimalloc::MiMalloc;
use ovsdb_sim::{ControlServer, Log, Model, Remotes, Sim, SimBuilder};
use patchbay_schemas::schema::{DatabaseSchema, is_id};
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use log_writer::{LogFlush, LogWriter};

/// Allocator for millions of small requests, rows and replies, which several threads make.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// In-memory OVSDB server for tests and load
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Serve OVSDB clients at this remote (repeatable)
    ///
    /// punix:PATH or ptcp:PORT[:HOST]: listen there.
    /// unix:PATH or tcp:HOST[:PORT]: connect to a client that waits there, and again whenever the
    /// connection ends.
    /// db:DATABASE,TABLE,COLUMN: open the remotes in this column, now and whenever it changes. An
    /// example is `db:OVN_Northbound,NB_Global,connections`, which ovn-nbctl set-connection writes.
    #[arg(
        long,
        visible_alias = "remote",
        required = true,
        value_name = "TARGET",
        verbatim_doc_comment
    )]
    listen: Vec<String>,

    /// Serve ovs-appctl at this unix socket
    ///
    /// `ovs-appctl -t PATH list-commands` lists the commands, which add and remove databases and
    /// remotes and set log levels, among others.
    #[arg(long, value_name = "PATH")]
    unixctl: Option<PathBuf>,

    /// Serve an empty database with the schema in this file (repeatable)
    ///
    /// Without any database, OVN_Northbound is served.
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,

    /// Serve the database in this standalone database file, which is only read (repeatable)
    ///
    /// Like ovsdb-server, the program stops reading at the first damaged record and leaves out
    /// transactions that violate a constraint; it logs a warning for both. Convert the file of a
    /// clustered database first: ovsdb-tool cluster-to-standalone.
    #[arg(long, value_name = "FILE")]
    load: Vec<PathBuf>,

    /// Append every transaction of a database to this file (repeatable, once per database)
    ///
    /// The file is a standalone database file, which ovsdb-server and ovsdb-tool can open. A
    /// transaction that cannot be written fails.
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
    journal: Vec<String>,

    /// Model of the databases
    ///
    /// A clustered server acts as the only member and leader of a RAFT cluster. It keeps a history
    /// of transactions, from which returning clients get what they missed.
    #[arg(long, value_name = "MODEL", value_enum, default_value = "standalone")]
    model: ModelArg,

    /// Serve the control API at this address
    ///
    /// The control API is JSON-RPC 2.0 over HTTP and WebSocket: `sim_show`, `sim_dump`,
    /// `sim_stats`, `sim_set_fault` and others.
    #[arg(long, value_name = "IP:PORT")]
    control: Option<SocketAddr>,

    /// Require the token in this file from users of the control API
    ///
    /// Requests need the header `Authorization: Bearer TOKEN`. Without a token, the control API is
    /// served at loopback addresses only.
    #[arg(long, value_name = "FILE", requires = "control")]
    control_token: Option<PathBuf>,

    /// Draw all UUIDs from this seed, the same ones in every run
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelArg {
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

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    panic::abort_on_panic();
    let (log, _log_flush) = init_log()?;
    let Args {
        listen,
        unixctl,
        schema,
        load,
        journal,
        model,
        control,
        control_token,
        seed,
    } = Args::parse();
    let mut builder = Sim::builder().model(model.into());
    for path in schema {
        let text =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let schema = DatabaseSchema::parse(&text)
            .with_context(|| format!("{} is not a schema", path.display()))?;
        builder = builder.schema(Arc::new(schema));
    }
    builder = load.into_iter().fold(builder, SimBuilder::load);
    for journal in &journal {
        builder = match journal.split_once('=') {
            Some((database, path)) if is_id(database) => builder.journal_of(database, path),
            _ => builder.journal(journal),
        };
    }
    if let Some(seed) = seed {
        builder = builder.seed(seed);
    }
    let sim = builder.build()?;

    // Before the listeners, so that a signal just after the line "listening" ends the server
    // cleanly.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let remotes = Remotes::new(&sim);
    for target in &listen {
        print_line(&remotes.add(target).await?);
    }
    let unixctl = match unixctl {
        Some(path) => {
            let unixctl = sim
                .serve_unixctl(&path, &remotes, log)
                .with_context(|| format!("unixctl at {}", path.display()))?;
            Some(unixctl)
        }
        None => None,
    };
    let exit = async {
        match &unixctl {
            Some(unixctl) => unixctl.wait_for_exit().await,
            None => std::future::pending().await,
        }
    };
    let _control = match control {
        Some(address) => {
            let control = serve_control(&sim, address, control_token.as_deref())
                .await
                .with_context(|| format!("control API at {address}"))?;
            print_line(&format!("control API on http://{}", control.address()));
            Some(control)
        }
        None => None,
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = exit => {}
    }
    Ok(())
}

/// Initializes the log: to standard error, with the level of `RUST_LOG` or `warn`. `vlog/set` can
/// change the level.
///
/// # Errors
/// The thread that writes the log cannot be started.
fn init_log() -> std::io::Result<(Log, LogFlush)> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let (writer, flush) = LogWriter::start(std::io::stderr())?;
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(is_coloured())
        // Reporting an internal error panics if standard error cannot be written.
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_filter_reloading();
    let filter = subscriber.reload_handle();
    subscriber.init();
    let log = Log::new(level, move |directives| {
        if let Err(error) = filter.reload(EnvFilter::new(directives)) {
            tracing::error!(%error, directives, "cannot set the log level");
        }
    });
    Ok((log, flush))
}

/// True if log messages are coloured: on a terminal without `NO_COLOR` (<https://no-color.org>).
fn is_coloured() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !no_color
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
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .unwrap_or_default();
}
