//! The `ovsdb-sim` command: serves the simulator alone.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use mimalloc::MiMalloc;
use ovsdb_sim::{Log, Model, Remotes, Sim, SimBuilder};
use patchbay_schemas::schema::{DatabaseSchema, is_id};
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Requests, rows and replies are millions of small pieces, made by several threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// An in-memory OVSDB server, for tests and load.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Serve OVSDB clients here: punix:PATH or ptcp:PORT[:HOST]. Or connect to one that waits at unix:PATH or
    /// tcp:HOST[:PORT], again and again. Or do what a column of a database says, now and whenever it changes, such as
    /// that of ovn-nbctl set-connection: db:DATABASE,TABLE,COLUMN. May be repeated.
    #[arg(long, visible_alias = "remote", required = true, value_name = "TARGET")]
    listen: Vec<String>,

    /// Serve ovs-appctl at a unix socket: ovs-appctl -t PATH list-commands. Databases and remotes can be added and removed
    /// there, and log levels be set.
    #[arg(long, value_name = "PATH")]
    unixctl: Option<PathBuf>,

    /// Serve an empty database of this schema. May be repeated. Without any database, OVN_Northbound is served.
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,

    /// Serve a database with the schema and the content of this standalone database file, as ovsdb-server writes it.
    /// The file stays as it is. May be repeated.
    ///
    /// Like ovsdb-server, ends at the first damaged record and leaves out transactions that break a constraint, with a
    /// warning. Files of clustered databases must be converted first: ovsdb-tool cluster-to-standalone.
    #[arg(long, value_name = "FILE")]
    load: Vec<PathBuf>,

    /// Keep a database in this file, as ovsdb-server does: every transaction is appended, and a file that exists is
    /// the database's content at the start. May be repeated, once for each database.
    ///
    /// A new file is made for DATABASE, which can be left out when one database is served. A file that exists says
    /// itself of which database it is, so that it needs neither DATABASE nor --schema; where --schema is given all
    /// the same, the schemas must be equal. With --load, FILE must be new (it begins with what is loaded), or the file
    /// that is loaded.
    ///
    /// Files written so can be opened by ovsdb-server and ovsdb-tool. A transaction that cannot be written fails.
    /// Write ./A=B for a file whose name looks like DATABASE=FILE.
    #[arg(long, value_name = "[DATABASE=]FILE")]
    journal: Vec<String>,

    /// Pass for a standalone server, or for the leader of a RAFT cluster without other members, which keeps a history
    /// of transactions for clients that come back.
    #[arg(long, value_name = "MODEL", value_enum, default_value = "standalone")]
    model: ModelArg,

    /// Serve the control API (`sim_show`, `sim_dump`, `sim_stats` over HTTP and WebSocket) at this address.
    #[arg(long, value_name = "IP:PORT")]
    control: Option<SocketAddr>,

    /// Draw the same UUIDs in every run.
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
    let log = begin_log();
    let Args {
        listen,
        unixctl,
        schema,
        load,
        journal,
        model,
        control,
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

    // Before the listeners, so that a signal just after "listening" already ends the server cleanly.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let remotes = Remotes::of(&sim);
    for target in &listen {
        say(&remotes.add(target).await?);
    }
    let unixctl = match unixctl {
        Some(path) => {
            let shown = path.display().to_string();
            let served = sim.serve_unixctl(path, &remotes, log);
            Some(served.with_context(|| format!("unixctl at {shown}"))?)
        }
        None => None,
    };
    let exit_asked = async {
        match &unixctl {
            Some(unixctl) => unixctl.exit_asked().await,
            None => std::future::pending().await,
        }
    };
    let _control = match control {
        Some(address) => {
            let control = sim
                .serve_control(address)
                .await
                .with_context(|| format!("control API at {address}"))?;
            say(&format!("control API on http://{}", control.address()));
            Some(control)
        }
        None => None,
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = exit_asked => {}
    }
    Ok(())
}

/// Logs to standard error, warnings unless the environment says something else, or somebody later.
fn begin_log() -> Log {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(has_colours())
        .with_env_filter(filter)
        .with_filter_reloading();
    let filter = subscriber.reload_handle();
    subscriber.init();
    Log::new(level, move |directives| {
        if let Err(error) = filter.reload(EnvFilter::new(directives)) {
            tracing::error!(%error, directives, "the log's level stays as it was");
        }
    })
}

/// Whether messages are coloured: on a terminal, unless its user wants none (<https://no-color.org>).
fn has_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !unwanted
}

/// Prints a line at once: whoever started the server waits for it.
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // Nobody reading is no reason to stop serving.
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .unwrap_or_default();
}
