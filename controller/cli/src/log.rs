//! The log on standard error: its format and its filter.

use std::io;

#[cfg(feature = "kubernetes")]
use patchbay_kubernetes::{LogFilter, LogFilterError};
#[cfg(feature = "kubernetes")]
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{JsonFields, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{Handle, Layer as ReloadLayer};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt};

use super::args::{Command, LogFormat};
use super::colours::Colours;
use super::log_writer::{LogWriter, write_field};

/// Log filter if `RUST_LOG` is not set. kube-client is off because callers log failed requests.
const DEFAULT_LOG_FILTER: &str = "warn,kube_client=off";

/// Log filter of commands that end by themselves, if `RUST_LOG` is not set. They print what they wait
/// for, and what follows from lost connections.
const ONE_SHOT_LOG_FILTER: &str = "warn,kube_client=off,patchbay_engine::client=off";

/// The filter of the log, which can be changed while the command runs.
pub(super) struct LogControl {
    #[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "only `run` changes it"))]
    filter: Handle<EnvFilter, Registry>,
}

/// Starts the log on standard error, for a command.
pub(super) fn start_log(command: Option<&Command>) -> LogControl {
    let filter = EnvFilter::try_from_default_env();
    let unreadable = match &filter {
        Err(error) if std::env::var_os(EnvFilter::DEFAULT_ENV).is_some() => Some(error.to_string()),
        _ => None,
    };
    let default =
        if command.is_some_and(ends_by_itself) { ONE_SHOT_LOG_FILTER } else { DEFAULT_LOG_FILTER };
    let (filter, control) = ReloadLayer::new(filter.unwrap_or_else(|_| EnvFilter::new(default)));
    // Reporting an internal error panics if standard error is closed.
    let lines = match format_of(command) {
        LogFormat::Text => fmt::layer()
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .with_writer(LogWriter::new)
            .with_ansi(Colours::of(&io::stderr()).are_on())
            .log_internal_errors(false)
            .boxed(),
        LogFormat::Json => fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(fmt::format().json().flatten_event(true).with_current_span(false))
            .with_writer(io::stderr)
            .log_internal_errors(false)
            .boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    if let Some(error) = unreadable {
        tracing::warn!(error, "cannot read {}", EnvFilter::DEFAULT_ENV);
    }
    LogControl { filter: control }
}

/// The format of the log of a command.
fn format_of(command: Option<&Command>) -> LogFormat {
    match command {
        #[cfg(feature = "kubernetes")]
        Some(Command::Run(arguments)) => arguments.log_format,
        _ => LogFormat::Text,
    }
}

fn ends_by_itself(command: &Command) -> bool {
    match command {
        Command::Apply(arguments) => !arguments.watch,
        #[cfg(feature = "kubernetes")]
        Command::Check(_) => true,
        Command::Plan(_)
        | Command::Explain(_)
        | Command::Reach(_)
        | Command::Lint(_)
        | Command::Show(_)
        | Command::Routes(_)
        | Command::Policies(_)
        | Command::Acls(_)
        | Command::Nat(_)
        | Command::Lbs(_)
        | Command::Ports(_)
        | Command::Get(_)
        | Command::Snapshot(_)
        | Command::Graph(_)
        | Command::Report(_)
        | Command::Diff(_)
        | Command::History(_)
        | Command::Bisect(_) => true,
        _ => false,
    }
}

#[cfg(feature = "kubernetes")]
impl LogFilter for LogControl {
    fn directives(&self) -> String {
        self.filter.with_current(ToString::to_string).unwrap_or_default()
    }

    fn set_directives(&self, directives: &str) -> Result<(), LogFilterError> {
        let failed = |reason: String| LogFilterError { reason };
        // A word alone is the name of a module, and switches off all others.
        let is_level = |one: &str| {
            !one.is_empty() && (one.parse::<LevelFilter>().is_ok() || one.contains(['=', '[']))
        };
        if let Some(wrong) = directives.split(',').find(|one| !is_level(one.trim())) {
            return Err(failed(format!("{wrong:?} is neither a level nor TARGET=LEVEL")));
        }
        let filter = EnvFilter::try_new(directives).map_err(|error| failed(error.to_string()))?;
        self.filter.reload(filter).map_err(|error| failed(error.to_string()))
    }
}
