//! Log levels: `vlog/set` and `vlog/list` (ovs-appctl(8)).
//!
//! The simulator logs to the console, with levels for the modules of [`modules::TARGETS`]. There is
//! no other destination, no pattern and no rate limit. In `vlog/set`, ovsdb-server's other
//! destinations and modules are valid words without an effect.

mod modules;

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;

use super::log::Log;

const CONSOLE: &str = "console";
/// Destinations of ovsdb-server.
const DESTINATIONS: [&str; 3] = [CONSOLE, "syslog", "file"];

/// Separators of the words of a specification.
const SEPARATORS: [char; 4] = [' ', ',', ':', '\t'];

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
    const ALL: [Self; 6] = [
        Self::Off,
        Self::Emer,
        Self::Err,
        Self::Warn,
        Self::Info,
        Self::Dbg,
    ];

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
        let level = Self::ALL
            .into_iter()
            .find(|level| level.to_filter() >= filter);
        level.unwrap_or(Self::Dbg)
    }
}

/// Log levels of a program's modules.
#[derive(Debug)]
pub(super) struct Vlog {
    modules: Mutex<Vec<LogModule>>,
    log: Log,
}

#[derive(Debug)]
struct LogModule {
    name: &'static str,
    level: VlogLevel,
}

impl Vlog {
    pub(super) fn new(log: Log) -> Self {
        let level = VlogLevel::from_filter(log.level);
        let modules = modules::logging()
            .into_iter()
            .map(|name| LogModule { name, level })
            .collect();
        Self {
            modules: Mutex::new(modules),
            log,
        }
    }

    /// Executes `vlog/set`: the specifications in their order, up to the first wrong one.
    pub(super) fn set(&self, specifications: &[&str]) -> Result<(), String> {
        let mut modules = self.modules();
        // No specification is an empty one.
        let specifications = match specifications {
            [] => &[""],
            given => given,
        };
        let mut is_changed = false;
        let set = specifications.iter().try_for_each(|specification| {
            set_level(&mut modules, specification)?;
            is_changed = true;
            Ok(())
        });
        if is_changed {
            (self.log.set_filter)(&filter_directives(&modules));
        }
        set
    }

    /// Executes `vlog/list`. Destinations other than the console are off.
    pub(super) fn list(&self) -> String {
        let mut text = "                 console    syslog    file\n".to_owned();
        text += "                 -------    ------    ------\n";
        let off = VlogLevel::Off.name();
        for LogModule { name, level } in &*self.modules() {
            let level = level.name();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<16}  {level:>4}       {off:>4}       {off:>4}");
        }
        text
    }

    fn modules(&self) -> MutexGuard<'_, Vec<LogModule>> {
        // Each change is an assignment.
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the modules of `vlog/enable-rate-limit` and `vlog/disable-rate-limit`. The commands have
/// no effect, because there is no rate limit.
pub(super) fn check_modules(names: &[&str]) -> Result<(), String> {
    let is_known = |name: &&str| is_word(name, "any") || modules::is_known(name);
    if names.iter().all(is_known) {
        Ok(())
    } else {
        Err("unknown module".to_owned())
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
        let found = DESTINATIONS.iter().find(|name| is_word(word, name));
        if found.is_some() {
            if destination.is_some() {
                return duplicate("destinations");
            }
            destination = found;
            continue;
        }
        let found = VlogLevel::ALL
            .into_iter()
            .find(|level| is_word(word, level.name()));
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
    if destination.is_none_or(|destination| *destination == CONSOLE) {
        modules
            .iter_mut()
            .filter(|each| module.is_none_or(|module| is_word(module, each.name)))
            .for_each(|each| each.level = level);
    }
    Ok(())
}

/// The filter of these levels, in the notation of `RUST_LOG`.
fn filter_directives(modules: &[LogModule]) -> String {
    let filter = |name: &str| {
        modules
            .iter()
            .find(|module| module.name == name)
            .map_or(LevelFilter::OFF, |module| module.level.to_filter())
    };
    let mut directives = vec![filter(modules::OTHER_TARGETS).to_string()];
    directives.extend(
        modules::TARGETS
            .iter()
            .map(|(target, name)| format!("{target}={}", filter(name))),
    );
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
