//! `patchbay config`: the settings of `run`.

use std::io;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Subcommand};
use patchbay_resources::manifests::Inventory;

use super::{CONFIG, Layers, RUN, Setting};
use crate::args::{Command, CommandLine};
use crate::cluster_args::Run;
use crate::console::Console;
use crate::failure::Failure;
use crate::lines::wrapped_behind;

/// Columns of names in `config show`.
const NAME_COLUMNS: usize = 28;

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check a file with settings of `run`.
    Check {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the settings with which `run` would run with these flags, the environment and the file,
    /// and where each comes from.
    Show(Box<Run>),
    /// Print all settings as a table: flag, variable, field of the file, default.
    List,
}

/// Checks or prints settings.
///
/// # Errors
/// A setting is invalid, or standard output cannot be written.
pub(crate) fn config(arguments: &Config, console: &mut Console<'_>) -> Result<(), Failure> {
    match &arguments.action {
        Action::Check { file } => check(file, console),
        Action::Show(run) => show(run, console),
        Action::List => Ok(list(console)?),
    }
}

fn check(file: &std::path::Path, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut arguments = vec!["patchbay".into(), RUN.into()];
    arguments.extend([format!("--{CONFIG}").into(), file.into()]);
    let parse = |more: &[&str]| -> Result<_, clap::Error> {
        let more = more.iter().map(Into::into);
        let layers = Layers::new(arguments.iter().cloned().chain(more).collect(), |_| None)?;
        Ok((layers.parse(CommandLine::command())?, layers.origins.len()))
    };
    // A file need not have the zone, which differs from node to node.
    let parsed = match parse(&[]) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            parse(&["--zone", "node"])
        }
        parsed => parsed,
    };
    let failed = |error: clap::Error| {
        let text = error.to_string();
        Failure::Arguments(text.trim_start_matches("error: ").trim_end().to_owned())
    };
    let (matches, count) = parsed.map_err(failed)?;
    let line = CommandLine::from_arg_matches(&matches).map_err(failed)?;
    if let Command::Run(run) = line.command {
        validate(&run)?;
    }
    Ok(writeln!(console.output, "{}: ok, settings: {count}", file.display())?)
}

/// Refuses what `run` refuses.
fn validate(run: &Run) -> Result<(), Failure> {
    let flags = run.cluster.with_dynamic_udn(run.dynamic_udn);
    flags.zone_settings(&Inventory::default()).map(drop)
}

fn show(run: &Run, console: &mut Console<'_>) -> Result<(), Failure> {
    validate(run)?;
    let failed = |error: clap::Error| Failure::Arguments(error.to_string());
    let layers = Layers::of_process().map_err(failed)?;
    let parsed = layers.parse(CommandLine::command()).map_err(failed)?;
    let config = parsed.subcommand_matches("config");
    let Some(matches) = config.and_then(|config| config.subcommand_matches("show")) else {
        return Ok(());
    };
    for setting in Setting::all() {
        let id = setting.argument.get_id().as_str();
        let values: Vec<String> = match matches.get_raw(id) {
            Some(values) => values.map(|value| value.to_string_lossy().into_owned()).collect(),
            None => Vec::new(),
        };
        let origin = match (layers.origins.get(&setting.flag), matches.value_source(id)) {
            (Some(origin), _) => origin.to_string(),
            (None, Some(ValueSource::CommandLine)) => format!("flag --{}", setting.flag),
            (None, _) => "default".to_owned(),
        };
        let is_on = setting.is_switch().then(|| matches.get_flag(id).to_string());
        let value = is_on.unwrap_or_else(|| values.join(","));
        let value = if value.is_empty() { "-".to_owned() } else { value };
        let margin = format!("{:NAME_COLUMNS$} ", setting.field());
        let text = format!("{value}  ({origin})");
        writeln!(console.output, "{}", wrapped_behind(&margin, &text, &" ".repeat(NAME_COLUMNS)))?;
    }
    Ok(())
}

fn list(console: &mut Console<'_>) -> io::Result<()> {
    writeln!(console.output, "| flag | variable | field | value | default |")?;
    writeln!(console.output, "| --- | --- | --- | --- | --- |")?;
    for setting in Setting::all() {
        let kind = match (setting.is_switch(), setting.is_list()) {
            (true, _) => "true or false",
            (_, true) => "list",
            _ => "text",
        };
        let defaults = setting.argument.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        let defaults = if setting.is_switch() { String::new() } else { defaults.join(",") };
        let default = if defaults.is_empty() { defaults } else { format!("`{defaults}`") };
        let field = setting.field();
        let field = if field == CONFIG { String::new() } else { format!("`{field}`") };
        let (flag, variable) = (&setting.flag, setting.variable());
        writeln!(console.output, "| `--{flag}` | `{variable}` | {field} | {kind} | {default} |")?;
    }
    Ok(())
}
