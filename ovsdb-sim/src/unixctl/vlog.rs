//! Log levels by module and destination: `vlog/set`, `vlog/list` and `vlog/list-pattern`
//! (ovs-appctl(8)).
//!
//! The modules are those of [`modules::TARGETS`]. In `vlog/set`, ovsdb-server's other modules, the
//! destination `syslog` and the facilities are valid words without an effect.

mod modules;

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;

pub use modules::module_of;

/// Facilities of syslog.
const FACILITIES: [&str; 23] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "clock", "ftp",
    "ntp", "audit", "alert", "clock2", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
];
/// Destinations of log messages, in the order of `vlog/list`.
const DESTINATIONS: [&str; 3] = ["console", "syslog", "file"];
const CONSOLE: usize = 0;
const SYSLOG: usize = 1;
const FILE: usize = 2;
/// Pattern of the messages to syslog, and of the prefix that its daemon needs.
const SYSLOG_PATTERN: &str = "ovs|%05N|%c%T|%p|%m";
const SYSLOG_PREFIX: &str = "<%B> %D{%h %e %T} %E %A:";

/// Separators of the words of a specification.
const SEPARATORS: [char; 4] = [' ', ',', ':', '\t'];

/// Error: a specification of `vlog/set` is wrong. The text is ovsdb-server's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogSpecificationError(String);

/// Error: the log file cannot be opened again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReopenLogError {
    /// There is no log file.
    #[error("Logging to file not configured")]
    NoFile,
    /// The system refused to open it.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Destinations of a program's log. A library does not own the log, so the program implements this.
pub trait LogSink: Send + Sync {
    /// Replaces the filters of both destinations. The directives are in the notation of `RUST_LOG`,
    /// as for `EnvFilter` of the crate `tracing-subscriber`.
    fn set_filters(&self, console: &str, file: &str);

    /// Closes the log file and opens it again, after it was renamed or closed.
    ///
    /// # Errors
    /// There is no log file, or it cannot be opened.
    fn reopen_file(&self) -> Result<(), ReopenLogError>;

    /// Closes the log file.
    fn close_file(&self);

    /// Sets the pattern of the messages of a destination (ovs-appctl(8), "Log Patterns").
    fn set_pattern(&self, destination: LogDestination, pattern: &str);
}

/// Destination of messages that a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// Standard error.
    Console,
    /// The log file.
    File,
}

impl LogDestination {
    /// The pattern of messages before another one is set.
    pub fn default_pattern(self) -> &'static str {
        match self {
            Self::Console => "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m",
            Self::File => "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m",
        }
    }
}

/// Log of a program, whose levels options and `ovs-appctl vlog/set` change.
pub struct Log {
    modules: Mutex<Vec<LogModule>>,
    /// Patterns of the [`DESTINATIONS`].
    patterns: Mutex<[String; 3]>,
    sink: Box<dyn LogSink>,
}

/// Log level of ovsdb-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VlogLevel {
    Off,
    Emer,
    Err,
    Warn,
    Info,
    Dbg,
}

impl VlogLevel {
    const ALL: [Self; 6] = [Self::Off, Self::Emer, Self::Err, Self::Warn, Self::Info, Self::Dbg];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Emer => "EMER",
            Self::Err => "ERR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Dbg => "DBG",
        }
    }

    /// The filter for messages of this level and above. There are no emergencies.
    fn to_filter(self) -> LevelFilter {
        match self {
            Self::Off | Self::Emer => LevelFilter::OFF,
            Self::Err => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Dbg => LevelFilter::DEBUG,
        }
    }

    fn from_filter(filter: LevelFilter) -> Self {
        let level = Self::ALL.into_iter().find(|level| level.to_filter() >= filter);
        level.unwrap_or(Self::Dbg)
    }
}

#[derive(Debug)]
struct LogModule {
    name: &'static str,
    /// Levels of the [`DESTINATIONS`].
    levels: [VlogLevel; 3],
}

impl Log {
    /// Describes a log. `console` is the level of messages on standard error; that of the log file
    /// is `info`, as in ovsdb-server. The sink has filters of these levels already.
    pub fn new(console: LevelFilter, sink: impl LogSink + 'static) -> Self {
        let console = VlogLevel::from_filter(console);
        let levels = [console, VlogLevel::Info, VlogLevel::Info];
        let modules =
            modules::logging().into_iter().map(|name| LogModule { name, levels }).collect();
        Self {
            modules: Mutex::new(modules),
            patterns: Mutex::new(
                [
                    LogDestination::Console.default_pattern(),
                    SYSLOG_PATTERN,
                    LogDestination::File.default_pattern(),
                ]
                .map(str::to_owned),
            ),
            sink: Box::new(sink),
        }
    }

    /// Sets levels: the specifications of `vlog/set` or of options `-v` in their order, up to the
    /// first wrong one.
    ///
    /// # Errors
    /// A specification is wrong.
    pub fn set(&self, specifications: &[&str]) -> Result<(), LogSpecificationError> {
        let mut modules = self.modules();
        // Without a specification, the command is executed like one with an empty specification.
        let specifications = match specifications {
            [] => &[""],
            given => given,
        };
        let mut is_changed = false;
        let set = specifications.iter().try_for_each(|specification| {
            let mut rest = *specification;
            match next_word(&mut rest) {
                Some(word) if is_word(word, "PATTERN") => self.set_pattern(rest),
                Some(word) if is_word(word, "FACILITY") => check_facility(rest),
                _ => {
                    is_changed = true;
                    set_level(&mut modules, specification)
                }
            }
        });
        if is_changed {
            let [console, file] =
                [CONSOLE, FILE].map(|destination| filter_directives(&modules, destination));
            self.sink.set_filters(&console, &file);
        }
        set.map_err(LogSpecificationError)
    }

    /// Executes the rest of a specification `PATTERN:DESTINATION:PATTERN`.
    fn set_pattern(&self, mut rest: &str) -> Result<(), String> {
        let word = next_word(&mut rest).ok_or("missing destination")?;
        let destination = DESTINATIONS.iter().position(|name| is_word(word, name));
        let is_any = is_word(word, "any");
        if destination.is_none() && !is_any {
            return Err(format!("unknown destination \"{word}\""));
        }
        let mut patterns = self.patterns();
        for (number, to) in [
            (CONSOLE, Some(LogDestination::Console)),
            (SYSLOG, None),
            (FILE, Some(LogDestination::File)),
        ] {
            if is_any || destination == Some(number) {
                rest.clone_into(&mut patterns[number]);
                if let Some(to) = to {
                    self.sink.set_pattern(to, rest);
                }
            }
        }
        Ok(())
    }

    /// The table of `vlog/list`.
    pub(super) fn list(&self) -> String {
        let mut text = "                 console    syslog    file\n".to_owned();
        text += "                 -------    ------    ------\n";
        for LogModule { name, levels } in &*self.modules() {
            let [console, syslog, file] = levels.map(VlogLevel::name);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<16}  {console:>4}       {syslog:>4}       {file:>4}");
        }
        text
    }

    /// The table of `vlog/list-pattern`.
    pub(super) fn list_patterns(&self) -> String {
        let mut text = "         prefix                            format\n".to_owned();
        text += "         ------                            ------\n";
        let patterns = self.patterns();
        for (name, prefix, destination) in [
            ("SYSLOG", SYSLOG_PREFIX, SYSLOG),
            ("CONSOLE", "none", CONSOLE),
            ("FILE", "none", FILE),
        ] {
            let pattern = &patterns[destination];
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<7}  {prefix:<32}  {pattern}");
        }
        text
    }

    pub(super) fn reopen_file(&self) -> Result<(), ReopenLogError> {
        self.sink.reopen_file()
    }

    pub(super) fn close_file(&self) {
        self.sink.close_file();
    }

    fn patterns(&self) -> MutexGuard<'_, [String; 3]> {
        // Each change is an assignment.
        self.patterns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn modules(&self) -> MutexGuard<'_, Vec<LogModule>> {
        // Each change is an assignment.
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Log {
    /// Describes a log without destinations. Levels are stored and have no effect.
    fn default() -> Self {
        Self::new(LevelFilter::WARN, NoSink)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&*self.modules()).finish()
    }
}

#[derive(Debug)]
struct NoSink;

impl LogSink for NoSink {
    fn set_filters(&self, _console: &str, _file: &str) {}

    fn reopen_file(&self) -> Result<(), ReopenLogError> {
        Err(ReopenLogError::NoFile)
    }

    fn close_file(&self) {}

    fn set_pattern(&self, _destination: LogDestination, _pattern: &str) {}
}

/// Checks the modules of `vlog/enable-rate-limit` and `vlog/disable-rate-limit`. The commands have
/// no effect, because there is no rate limit.
pub(super) fn check_modules(names: &[&str]) -> Result<(), String> {
    let is_known = |name: &&str| is_word(name, "any") || modules::is_known(name);
    if names.iter().all(is_known) { Ok(()) } else { Err("unknown module".to_owned()) }
}

/// Checks the rest of a specification `FACILITY:NAME`.
fn check_facility(name: &str) -> Result<(), String> {
    if FACILITIES.iter().any(|facility| is_word(name, facility)) {
        Ok(())
    } else {
        Err("invalid facility".to_owned())
    }
}

/// Executes one specification, `[MODULE][:DESTINATION][:LEVEL]`.
fn set_level(modules: &mut [LogModule], mut words: &str) -> Result<(), String> {
    let (mut module, mut destination, mut level) = (None, None, None);
    while let Some(word) = next_word(&mut words) {
        let duplicate = |what| Err(format!("cannot specify multiple {what}"));
        if is_word(word, "any") {
            continue;
        }
        let found = DESTINATIONS.iter().position(|name| is_word(word, name));
        if found.is_some() {
            if destination.is_some() {
                return duplicate("destinations");
            }
            destination = found;
            continue;
        }
        let found = VlogLevel::ALL.into_iter().find(|level| is_word(word, level.name()));
        if found.is_some() {
            if level.is_some() {
                return duplicate("levels");
            }
            level = found;
            continue;
        }
        if !modules::is_known(word) {
            return Err(format!("no destination, level, or module \"{word}\""));
        }
        if module.is_some() {
            return duplicate("modules");
        }
        module = Some(word);
    }
    let level = level.unwrap_or(VlogLevel::Dbg);
    modules
        .iter_mut()
        .filter(|each| module.is_none_or(|module| is_word(module, each.name)))
        .for_each(|each| match destination {
            Some(destination) => each.levels[destination] = level,
            None => each.levels = [level; 3],
        });
    Ok(())
}

/// The filter of a destination's levels, in the notation of `RUST_LOG`.
fn filter_directives(modules: &[LogModule], destination: usize) -> String {
    let filter = |name: &str| {
        modules
            .iter()
            .find(|module| module.name == name)
            .map_or(LevelFilter::OFF, |module| module.levels[destination].to_filter())
    };
    let mut directives = vec![filter(modules::OTHER_TARGETS).to_string()];
    directives
        .extend(modules::TARGETS.iter().map(|(target, name)| format!("{target}={}", filter(name))));
    directives.join(",")
}

fn is_word(word: &str, name: &str) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// Takes the next word. The rest begins behind the one separator that ends it.
fn next_word<'t>(text: &mut &'t str) -> Option<&'t str> {
    let start = text.trim_start_matches(SEPARATORS);
    let (word, rest) = start.split_once(SEPARATORS).unwrap_or((start, ""));
    *text = rest;
    (!word.is_empty()).then_some(word)
}
