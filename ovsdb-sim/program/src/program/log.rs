//! Log of the program: standard error and a file, in ovsdb-server's format.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ovsdb_sim::{Log, LogDestination, LogSink, ReopenLogError, module_of};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, reload};

use super::log_pattern::{LogPattern, Message};
use super::name::ProgramName;
use crate::log_writer::{LogFlush, LogWriter};

/// Level of ovsdb-server's messages before options and `vlog/set` change it.
const SERVER_LEVEL: &str = "info";

/// Target of the messages of the engine's client. The simulator logs its connections itself.
const CLIENT_TARGET: &str = "patchbay_engine::client";
/// Target of warnings about sources of relays and backups. ovsdb-server logs them as information.
const SOURCE_TARGET: &str = "reconnect::source";

/// Initializes the log. Options `-v` and `vlog/set` can change its levels.
///
/// The console has the level of `RUST_LOG`, or `warn`. As `ovsdb-server` it has ovsdb-server's
/// level and format.
///
/// # Errors
/// The thread that writes to the console cannot be started.
pub(crate) fn init(name: &ProgramName) -> io::Result<(Log, LogFile, LogFlush)> {
    let is_ovsdb_server = name.is_ovsdb_server();
    let default = if is_ovsdb_server { SERVER_LEVEL } else { "warn" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let (console_filter, console_handle) = reload::Layer::new(filter);
    let (file_filter, file_handle) = reload::Layer::new(EnvFilter::new("off"));
    let (writer, flush) = LogWriter::start(io::stderr())?;
    let console = tracing_subscriber::fmt::layer()
        .with_writer(move || writer.clone())
        // Reporting an internal error panics if standard error cannot be written.
        .log_internal_errors(false)
        .with_ansi(!is_ovsdb_server && is_coloured());
    let patterns = [LogDestination::Console, LogDestination::File]
        .map(|destination| LogPattern::new(destination.default_pattern()))
        .map(|pattern| Arc::new(Mutex::new(pattern)));
    let [console_pattern, file_pattern] = &patterns;
    let console = if is_ovsdb_server {
        let format = VlogFormat::new(name.as_str(), console_pattern);
        console.event_format(format).boxed()
    } else {
        console.boxed()
    };
    let log_file = LogFile::default();
    let file_writer = log_file.clone();
    let file = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .event_format(VlogFormat::new(name.as_str(), file_pattern))
        .with_writer(move || file_writer.clone());
    tracing_subscriber::registry()
        .with(console.with_filter(console_filter.and(filter_fn(is_own))))
        .with(file.with_filter(file_filter.and(filter_fn(is_own))))
        .init();
    let set_file_filter: Box<SetFilter> = Box::new(move |directives| {
        // Fails only when the log has ended.
        file_handle.reload(EnvFilter::new(directives)).unwrap_or_default();
    });
    log_file.state().set_filter = Some(set_file_filter);
    let sink = Sink {
        file: log_file.clone(),
        set_console_filter: Box::new(move |directives| {
            // Fails only when the log has ended.
            console_handle.reload(EnvFilter::new(directives)).unwrap_or_default();
        }),
        patterns,
    };
    Ok((Log::new(level, sink), log_file, flush))
}

type SetFilter = dyn Fn(&str) + Send + Sync;
type SharedPattern = Arc<Mutex<LogPattern>>;

struct Sink {
    file: LogFile,
    set_console_filter: Box<SetFilter>,
    /// Patterns of the console and of the file.
    patterns: [SharedPattern; 2],
}

impl LogSink for Sink {
    fn set_filters(&self, console: &str, file: &str) {
        (self.set_console_filter)(console);
        let mut state = self.file.state();
        file.clone_into(&mut state.directives);
        state.update_filter();
    }

    fn reopen_file(&self) -> Result<(), ReopenLogError> {
        let path = self.file.state().path.clone().ok_or(ReopenLogError::NoFile)?;
        tracing::info!(target: "vlog", "closing log file");
        Ok(self.file.open(&path)?)
    }

    fn close_file(&self) {
        let mut state = self.file.state();
        state.file = None;
        state.update_filter();
    }

    fn set_pattern(&self, destination: LogDestination, pattern: &str) {
        let [console, file] = &self.patterns;
        let shared = match destination {
            LogDestination::Console => console,
            LogDestination::File => file,
        };
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = LogPattern::new(pattern);
    }
}

/// Log file, which can be opened, closed and opened again. Clones are handles of the same one.
#[derive(Clone, Default)]
pub(crate) struct LogFile(Arc<Mutex<LogFileState>>);

#[derive(Default)]
struct LogFileState {
    path: Option<PathBuf>,
    /// `None`: closed.
    file: Option<File>,
    /// Filter of an open file. Empty: [`SERVER_LEVEL`].
    directives: String,
    set_filter: Option<Box<SetFilter>>,
}

impl LogFileState {
    /// Sets the filter. A closed file gets no messages.
    fn update_filter(&self) {
        let directives = match (&self.file, self.directives.as_str()) {
            (None, _) => "off",
            (Some(_), "") => SERVER_LEVEL,
            (Some(_), directives) => directives,
        };
        if let Some(set_filter) = &self.set_filter {
            set_filter(directives);
        }
    }
}

impl LogFile {
    /// Opens the file, to which messages are appended.
    pub(crate) fn open(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o640);
        let file = options.open(path)?;
        {
            let mut state = self.state();
            state.path = Some(path.to_owned());
            state.file = Some(file);
            state.update_filter();
        }
        tracing::info!(target: "vlog", "opened log file {}", path.display());
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, LogFileState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state().file {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// ovsdb-server's format of messages, by default `TIME|NUMBER|MODULE|LEVEL|TEXT`.
struct VlogFormat {
    program: String,
    pattern: SharedPattern,
    start: Instant,
    last_number: AtomicU32,
}

impl VlogFormat {
    fn new(program: &str, pattern: &SharedPattern) -> Self {
        Self {
            program: program.to_owned(),
            pattern: pattern.clone(),
            start: Instant::now(),
            last_number: AtomicU32::new(0),
        }
    }
}

impl<S, N> FormatEvent<S, N> for VlogFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // With microseconds: 2026-01-31T12:00:00.123456Z.
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut text = String::new();
        context.format_fields(Writer::new(&mut text), event)?;
        let (level, severity) = match *event.metadata().level() {
            Level::WARN if event.metadata().target() == SOURCE_TARGET => ("INFO", 6),
            Level::ERROR => ("ERR", 3),
            Level::WARN => ("WARN", 4),
            Level::INFO => ("INFO", 6),
            Level::DEBUG | Level::TRACE => ("DBG", 7),
        };
        let message = Message {
            time: &time,
            number: self.last_number.fetch_add(1, Ordering::Relaxed) + 1,
            program: &self.program,
            module: module_of(event.metadata().target()),
            level,
            severity,
            uptime: self.start.elapsed(),
            text: &text,
        };
        let pattern = self.pattern.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(writer, "{}", pattern.format(&message))
    }
}

/// `true` for messages that users of the program read, and those for its developers.
fn is_own(message: &Metadata<'_>) -> bool {
    matches!(*message.level(), Level::DEBUG | Level::TRACE)
        || !message.target().starts_with(CLIENT_TARGET)
}

/// `true` if log messages are coloured: on a terminal without `NO_COLOR` (<https://no-color.org>).
fn is_coloured() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !no_color
}
