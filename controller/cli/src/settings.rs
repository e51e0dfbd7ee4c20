//! Settings of `patchbay run` from the environment and from a file.
//!
//! ```text
//! flags > environment > file > defaults -> one command line, and where each setting comes from
//! ```
//!
//! Each flag of `run` is a setting. Values of lower layers become arguments in front of the user's own,
//! so that they are parsed and refused as flags are.

mod command;
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _};
use patchbay_model::printable::printable;

use super::args::CommandLine;
pub(super) use command::{Config, config};
use file::read_settings;

/// Beginning of the names of variables.
const PREFIX: &str = "PATCHBAY_";
/// The flag with the file, which is no field of the file.
const CONFIG: &str = "config";
/// Subcommand whose flags are settings.
const RUN: &str = "run";
/// Commands with the settings of `run`.
const COMMANDS: [&[&str]; 2] = [&[RUN], &["config", "show"]];

/// Maximum length of an error, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// Origin of a setting that is no flag.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Origin {
    /// A variable of the environment.
    Variable(String),
    /// A field of a file.
    Field(PathBuf, String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Field(file, field) => write!(f, "{}: {field}", file.display()),
        }
    }
}

/// A flag of `run` as a setting.
struct Setting {
    flag: String,
    short: Option<char>,
    aliases: Vec<String>,
    action: ArgAction,
    argument: Arg,
}

impl Setting {
    /// All settings, with the one of the file.
    fn all() -> Vec<Self> {
        let command = CommandLine::command();
        let run = command.find_subcommand(RUN).map(Command::get_arguments);
        let named = run.into_iter().flatten().filter_map(|argument| {
            let flag = argument.get_long()?.to_owned();
            let aliases = argument.get_all_aliases().unwrap_or_default();
            Some(Self {
                flag,
                short: argument.get_short(),
                aliases: aliases.into_iter().map(str::to_owned).collect(),
                action: argument.get_action().clone(),
                argument: argument.clone(),
            })
        });
        named.filter(|setting| setting.flag != "help").collect()
    }

    /// Name of the variable.
    fn variable(&self) -> String {
        format!("{PREFIX}{}", self.flag.replace('-', "_").to_ascii_uppercase())
    }

    /// Name of the field, in camel case.
    fn field(&self) -> String {
        let mut parts = self.flag.split('-');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |name, part| {
            let (head, rest) = part.split_at(part.len().min(1));
            name + &head.to_ascii_uppercase() + rest
        })
    }

    fn is_switch(&self) -> bool {
        matches!(self.action, ArgAction::SetTrue)
    }

    fn is_list(&self) -> bool {
        matches!(self.action, ArgAction::Append) || self.argument.get_value_delimiter().is_some()
    }

    /// `true` if an argument is this flag.
    fn is_in(&self, argument: &str) -> bool {
        let name = argument.split('=').next().unwrap_or_default();
        if let Some(long) = name.strip_prefix("--") {
            return long == self.flag || self.aliases.iter().any(|alias| alias == long);
        }
        let short = name.strip_prefix('-').and_then(|rest| rest.chars().next());
        short.is_some() && short == self.short
    }
}

/// A command line with the values of all layers.
pub(super) struct Layers {
    arguments: Vec<OsString>,
    /// Origins by flag of the settings that are no flags.
    origins: BTreeMap<String, Origin>,
}

impl Layers {
    /// The command line of this process.
    ///
    /// # Errors
    /// The file cannot be read, or has a field that is no setting.
    pub(super) fn of_process() -> Result<Self, clap::Error> {
        Self::new(std::env::args_os().collect(), |name| std::env::var_os(name))
    }

    fn new(
        arguments: Vec<OsString>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, clap::Error> {
        let plain = Self { arguments, origins: BTreeMap::new() };
        let command = COMMANDS.iter().find(|words| {
            let given = plain.arguments.iter().skip(1).take(words.len());
            given.eq(words.iter().map(OsStr::new))
        });
        match command {
            Some(words) => plain.with_lower_layers(words.len() + 1, variable),
            None => Ok(plain),
        }
    }

    /// Adds the values of variables and of the file behind the first `start` arguments.
    fn with_lower_layers(
        mut self,
        start: usize,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, clap::Error> {
        let settings = Setting::all();
        let own = self.arguments.iter().skip(start).take_while(|one| *one != "--");
        let own: Vec<String> = own.map(|one| one.to_string_lossy().into_owned()).collect();
        let is_given = |setting: &&Setting| own.iter().any(|one| setting.is_in(one));
        let given: BTreeSet<String> =
            settings.iter().filter(is_given).map(|setting| setting.flag.clone()).collect();
        let mut added = Vec::new();
        for setting in settings.iter().filter(|setting| !given.contains(&setting.flag)) {
            let name = setting.variable();
            // An empty variable counts as one that is not set.
            let Some(value) = variable(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let Some(text) = value.to_str() else {
                return Err(failure(ErrorKind::InvalidUtf8, &format!("{name} is no UTF-8")));
            };
            let values = if setting.is_list() {
                text.split(',').map(|one| one.trim().to_owned()).collect()
            } else {
                vec![text.to_owned()]
            };
            let origin = Origin::Variable(name);
            self.add(setting, &values, origin, &mut added)?;
        }
        if let Some(path) = config_of(&own, &added) {
            let fields = read_settings(&path, &settings);
            let fields = fields.map_err(|error| failure(ErrorKind::Io, &error.to_string()))?;
            for (setting, values) in fields {
                if !given.contains(&setting.flag) && !self.origins.contains_key(&setting.flag) {
                    let origin = Origin::Field(path.clone(), setting.field());
                    self.add(setting, &values, origin, &mut added)?;
                }
            }
        }
        self.arguments.splice(start..start, added.into_iter().map(OsString::from));
        Ok(self)
    }

    /// Adds the arguments of a value.
    fn add(
        &mut self,
        setting: &Setting,
        values: &[String],
        origin: Origin,
        added: &mut Vec<String>,
    ) -> Result<(), clap::Error> {
        let flag = &setting.flag;
        if setting.is_switch() {
            match values {
                [value] if value == "true" => added.push(format!("--{flag}")),
                [value] if value == "false" => {}
                _ => {
                    let message = format!("{origin}: expected true or false");
                    return Err(failure(ErrorKind::InvalidValue, &message));
                }
            }
        } else {
            added.extend(values.iter().map(|value| format!("--{flag}={value}")));
        }
        self.origins.insert(flag.clone(), origin);
        Ok(())
    }

    /// Parses the command line. An error about a value names its variable or field.
    pub(super) fn parse(&self, command: Command) -> Result<ArgMatches, clap::Error> {
        command.try_get_matches_from(&self.arguments).map_err(|error| {
            let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string);
            let named = argument.as_deref().and_then(|text| text.strip_prefix("--"));
            let flag = named.and_then(|text| text.split([' ', '=']).next());
            let Some(origin) = flag.and_then(|flag| self.origins.get(flag)) else {
                return error;
            };
            let text = error.to_string();
            let first = text.lines().take_while(|line| !line.is_empty());
            let reason = first.map(str::trim).collect::<Vec<_>>().join(" ");
            let plain = reason.strip_prefix("error: ").unwrap_or(&reason);
            failure(error.kind(), &format!("{origin}: {plain}"))
        })
    }
}

/// An error without the usage of the command, which does not help against a wrong file.
fn failure(kind: ErrorKind, message: &str) -> clap::Error {
    clap::Error::raw(kind, format!("{}\n", printable(message, MAX_MESSAGE_BYTES)))
}

/// The file of `--config`, of the user's arguments or of the variable.
fn config_of(own: &[String], added: &[String]) -> Option<PathBuf> {
    let flag = format!("--{CONFIG}");
    let mut all = own.iter().chain(added);
    while let Some(argument) = all.next() {
        if *argument == flag {
            return all.next().map(PathBuf::from);
        }
        if let Some(path) = argument.strip_prefix(&flag).and_then(|rest| rest.strip_prefix('=')) {
            return Some(path.into());
        }
    }
    None
}
