//! `vlog/*`: how much is said of what, and where (ovs-appctl(8)).
//!
//! Messages go to the console alone. For the other destinations, levels and patterns are kept so that scripts see what
//! they have set.

mod modules;

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;

use super::log::Log;

const CONSOLE: usize = 0;
const DESTINATIONS: [&str; 3] = ["console", "syslog", "file"];

/// By destination, as they are when ovsdb-server starts.
const PATTERNS: [&str; DESTINATIONS.len()] = [
    "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m",
    "ovs|%05N|%c%T|%p|%m",
    "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m",
];

/// What syslog knows.
const FACILITIES: [&str; 23] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "clock", "ftp",
    "ntp", "audit", "alert", "clock2", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
];

/// What separates the words of a specification.
const SEPARATORS: [char; 4] = [' ', ',', ':', '\t'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Off,
    Emer,
    Err,
    Warn,
    Info,
    Dbg,
}

impl Level {
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

    /// The one of which nothing is left out. There are no emergencies.
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off | Self::Emer => LevelFilter::OFF,
            Self::Err => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Dbg => LevelFilter::DEBUG,
        }
    }

    fn of(filter: LevelFilter) -> Self {
        let level = Self::ALL.into_iter().find(|level| level.filter() >= filter);
        level.unwrap_or(Self::Dbg)
    }
}

/// The levels and patterns of a program.
#[derive(Debug)]
pub(super) struct Vlog {
    settings: Mutex<Settings>,
    log: Log,
}

#[derive(Debug)]
struct Settings {
    modules: Vec<Module>,
    patterns: [String; DESTINATIONS.len()],
}

#[derive(Debug)]
struct Module {
    name: &'static str,
    levels: [Level; DESTINATIONS.len()],
    /// Here there is no limit anyway.
    is_limited: bool,
}

impl Vlog {
    pub(super) fn new(log: Log) -> Self {
        let module = |name| Module {
            name,
            levels: [Level::of(log.level), Level::Info, Level::Info],
            is_limited: true,
        };
        let settings = Settings {
            modules: modules::names().map(module).collect(),
            patterns: PATTERNS.map(str::to_owned),
        };
        Self {
            settings: Mutex::new(settings),
            log,
        }
    }

    /// `vlog/set`: one specification after the other, up to the first that is wrong.
    pub(super) fn set(&self, specifications: &[&str]) -> Result<(), String> {
        let mut settings = self.settings();
        // None at all is an empty one.
        let specifications = match specifications {
            [] => &[""],
            given => given,
        };
        let mut about_levels = false;
        let set = specifications.iter().try_for_each(|specification| {
            about_levels |= settings.set(specification)?;
            Ok(())
        });
        if about_levels {
            (self.log.set_filter)(&settings.filter());
        }
        set
    }

    /// `vlog/enable-rate-limit` and `vlog/disable-rate-limit`.
    pub(super) fn set_limited(&self, modules: &[&str], limited: bool) -> Result<(), String> {
        let mut settings = self.settings();
        let modules = match modules {
            [] => &["any"],
            given => given,
        };
        for name in modules {
            let is_meant = |module: &&mut Module| is(name, "any") || is(name, module.name);
            let mut meant = settings.modules.iter_mut().filter(is_meant).peekable();
            if meant.peek().is_none() {
                return Err("unknown module".to_owned());
            }
            meant.for_each(|module| module.is_limited = limited);
        }
        Ok(())
    }

    /// `vlog/list`.
    pub(super) fn list(&self) -> String {
        let mut text = "                 console    syslog    file\n".to_owned();
        text += "                 -------    ------    ------\n";
        for module in &self.settings().modules {
            let [console, syslog, file] = module.levels.map(Level::name);
            let name = module.name;
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{name:<16}  {console:>4}       {syslog:>4}       {file:>4}"
            );
            text += if module.is_limited {
                "\n"
            } else {
                "    (rate limiting disabled)\n"
            };
        }
        text
    }

    /// `vlog/list-pattern`.
    pub(super) fn list_patterns(&self) -> String {
        let settings = self.settings();
        let [console, syslog, file] = &settings.patterns;
        format!(
            "         prefix                            format\n         \
             ------                            ------\n\
             SYSLOG   <%B> %D{{%h %e %T}} %E %A:          {syslog}\n\
             CONSOLE  none                              {console}\n\
             FILE     none                              {file}\n"
        )
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        // Each change is an assignment.
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settings {
    /// Does what `[MODULE][:DESTINATION][:LEVEL]`, `PATTERN:DESTINATION:PATTERN` or `FACILITY:FACILITY` says. Whether it
    /// was about levels.
    fn set(&mut self, specification: &str) -> Result<bool, String> {
        let mut rest = specification;
        match next_word(&mut rest) {
            Some(word) if is(word, "PATTERN") => self.set_pattern(rest).map(|()| false),
            Some(word) if is(word, "FACILITY") => {
                let is_known = FACILITIES.iter().any(|facility| is(rest, facility));
                is_known
                    .then_some(false)
                    .ok_or_else(|| "invalid facility".to_owned())
            }
            _ => self.set_level(specification).map(|()| true),
        }
    }

    fn set_pattern(&mut self, mut rest: &str) -> Result<(), String> {
        let word = next_word(&mut rest).ok_or("missing destination")?;
        let mut is_known = false;
        for (pattern, name) in self.patterns.iter_mut().zip(DESTINATIONS) {
            if is(word, name) || is(word, "any") {
                rest.clone_into(pattern);
                is_known = true;
            }
        }
        is_known
            .then_some(())
            .ok_or_else(|| format!("unknown destination \"{word}\""))
    }

    fn set_level(&mut self, mut words: &str) -> Result<(), String> {
        let (mut module, mut destination, mut level) = (None, None, None);
        while let Some(word) = next_word(&mut words) {
            let several = |what| Err(format!("cannot specify multiple {what}"));
            if is(word, "any") {
                continue;
            }
            let found = DESTINATIONS.iter().position(|name| is(word, name));
            if found.is_some() {
                if destination.is_some() {
                    return several("destinations");
                }
                destination = found;
                continue;
            }
            let found = Level::ALL.into_iter().find(|level| is(word, level.name()));
            if found.is_some() {
                if level.is_some() {
                    return several("levels");
                }
                level = found;
                continue;
            }
            let found = self.modules.iter().position(|module| is(word, module.name));
            if found.is_none() {
                return Err(format!("no destination, level, or module \"{word}\""));
            }
            if module.is_some() {
                return several("modules");
            }
            module = found;
        }
        let level = level.unwrap_or(Level::Dbg);
        for (number, each) in self.modules.iter_mut().enumerate() {
            for (place, of_destination) in each.levels.iter_mut().enumerate() {
                let is_meant = |given: Option<usize>, this| given.is_none_or(|given| given == this);
                if is_meant(module, number) && is_meant(destination, place) {
                    *of_destination = level;
                }
            }
        }
        Ok(())
    }

    /// The directives of what goes to the console.
    fn filter(&self) -> String {
        let level = |name: &str| {
            let module = self.modules.iter().find(|module| module.name == name);
            module.map_or(LevelFilter::OFF, |module| module.levels[CONSOLE].filter())
        };
        let targets = modules::TARGETS.iter();
        let targets = targets.map(|(target, name)| format!("{target}={}", level(name)));
        let all: Vec<_> = [level(modules::REST).to_string()]
            .into_iter()
            .chain(targets)
            .collect();
        all.join(",")
    }
}

fn is(word: &str, name: &str) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// Takes the next word; what is left begins behind the one separator that ends it.
fn next_word<'t>(text: &mut &'t str) -> Option<&'t str> {
    let start = text.trim_start_matches(SEPARATORS);
    let (word, rest) = start.split_once(SEPARATORS).unwrap_or((start, ""));
    *text = rest;
    (!word.is_empty()).then_some(word)
}
